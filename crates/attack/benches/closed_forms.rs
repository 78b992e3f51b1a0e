//! Time of the closed forms on the two sizes the papers use: `cargo bench -p unmask-attack`.
//!
//! Targets on two cores: embedding inversion below 5 ms (lab) and 40 ms (ViT-S), APRIL on ViT-S below 250 ms.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{AttackKind, Evidence, run};
use unmask_params::{InitOptions, ModelSpec, ParamLayout, Preset, initial_weights};

fn closed_forms(criterion: &mut Criterion) {
    for preset in [Preset::VitLabPatch4_32, Preset::VitSmallPatch16_224] {
        let config = ModelSpec::new(preset).with_april_block(true).config();
        let weights = initial_weights(&config, 1, InitOptions::default());
        // The values do not matter for the time, only that every singular value is there.
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let gradient: Vec<f32> = (0..ParamLayout::vit(&config).len()).map(|_| rng.random_range(-1.0..1.0)).collect();
        for kind in AttackKind::ALL {
            let evidence = Evidence::from_flat(kind, &config, &weights, &gradient).expect("made for this model");
            criterion.bench_function(&format!("{kind}/{preset}"), |bencher| {
                bencher.iter(|| run(kind, black_box(&evidence)));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = closed_forms
}
criterion_main!(benches);
