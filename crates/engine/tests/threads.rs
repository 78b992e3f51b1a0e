//! Results have the same bits on any number of threads.

use rayon::ThreadPoolBuilder;
use unmask_core::{Architecture, ModelState};
use unmask_engine::{Differentiated, Engine, Normalisation, Wanted};

/// Large enough that every operation is split.
const MODELS: [(&str, usize); 4] =
    [("vit_lab_patch4_32", 3), ("vit_tiny_patch16_224", 1), ("resnet_nano", 5), ("lenet_width32_32", 17)];

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn step(name: &str, batch: usize, threads: usize) -> [Vec<u32>; 4] {
    let architecture = Architecture::named(name, 10).unwrap();
    let ModelState { weights, statistics } = architecture.initial(7);
    let len = batch * 3 * architecture.side() * architecture.side();
    let images: Vec<f32> = (0..len).map(|i| (i * 31 % 251) as f32 / 250.0).collect();
    let labels: Vec<usize> = (0..batch).map(|image| image % 10).collect();
    let wanted = Wanted { weights: weights.len(), images: true };
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let engine = Engine::<f32>::new(architecture);
        let differentiated =
            || engine.differentiate(&weights, &statistics, &images, &labels, Normalisation::Batch, wanted);
        // The second step reuses the buffers of the first.
        let Differentiated { loss, gradient, images: by_images, .. } = {
            differentiated();
            differentiated()
        };
        let logits = engine.logits(&weights, &statistics, &images, batch);
        [bits(&[loss]), bits(&gradient), bits(&by_images), bits(&logits)]
    })
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for (name, batch) in MODELS {
        let alone = step(name, batch, 1);
        for threads in [2, 3, 8] {
            assert!(step(name, batch, threads) == alone, "{name} on {threads} threads");
        }
    }
}
