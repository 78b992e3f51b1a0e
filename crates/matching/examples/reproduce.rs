//! Runs token matching on one update of a model at its initialisation and prints the SSIM:
//! `cargo xtask example reproduce astronaut.png,rocket.png 0.5 2000 aware`.
//!
//! - photographs from `www/samples`, comma-separated: the pictures of one batch;
//! - share of zeros in the mask;
//! - iterations;
//! - `aware` or `naive` of the mask, each starting from its own closed form, or `fixed`: aware, without the position
//!   embedding's gradient, from noise; its pictures are also scored in their best arrangement;
//! - optional: the first step size (default 0.1), the number of SGD steps (rate 0.1) to train the model on the batch
//!   first (default 0), and the model (default `vit_lab_patch4_32`).

use std::{env::args, error::Error, ops::ControlFlow, path::Path, sync::Arc, time::Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{AttackProgress, Needs, Observation, SearchOptions, WholeUpdate, run};
use unmask_core::{Architecture, AttackMethod, VitPreset};
use unmask_data::{chw_to_hwc, decode, jigsaw::best_arrangement, metrics::ssim};
use unmask_matching::GradientMatching;
use unmask_model::{Network, device::OpenDevice};

const FIRST_LABEL: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = args().skip(1).collect();
    let [photographs, rate, iterations, mode, optional @ ..] = args.as_slice() else {
        return Err("give photographs, share of zeros, iterations, and aware, naive or fixed".into());
    };
    let (rate, iterations): (f64, usize) = (rate.parse()?, iterations.parse()?);
    let (method, start) = match mode.as_str() {
        "aware" => (AttackMethod::MatchingAware, AttackMethod::EmbeddingAware),
        "naive" => (AttackMethod::Matching, AttackMethod::Embedding),
        "fixed" => (AttackMethod::Jigsaw, AttackMethod::Embedding),
        other => return Err(format!("the mode must be aware, naive or fixed, not {other}").into()),
    };
    let step = optional.first().map(|step| step.parse()).transpose()?;
    let trained: usize = optional.get(1).map_or(Ok(0), |steps| steps.parse())?;
    let model = optional.get(2).map_or(Ok(VitPreset::Lab), |model| model.parse())?;

    let architecture = Architecture::from(model);
    let network = Network::new(architecture, OpenDevice::cpu().device())?;
    let (side, layout) = (architecture.side(), architecture.layout());
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let mut images = Vec::new();
    let mut truth = Vec::new();
    for name in photographs.split(',') {
        let image = decode(&std::fs::read(samples.join(name))?)?.for_model(side);
        truth.push(chw_to_hwc(&image, side, side));
        images.extend(image);
    }
    let labels: Vec<usize> = (0..truth.len()).map(|i| (FIRST_LABEL + i) % architecture.classes()).collect();

    let mut state = architecture.initial(1);
    for _ in 0..trained {
        let gradient = network.loss_and_gradient_blocking(&state, &images, &labels)?.gradient;
        state.weights.iter_mut().zip(gradient).for_each(|(weight, gradient)| *weight -= 0.1 * gradient);
    }
    let plain = network.loss_and_gradient_blocking(&state, &images, &labels)?;
    println!("loss of the batch: {:.4}", plain.loss);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let kept: Vec<bool> = plain.gradient.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
    let mut sent: Vec<f32> = plain.gradient.iter().zip(&kept).map(|(&g, &kept)| if kept { g } else { 0.0 }).collect();
    if let Some(position) = layout.get("pos_embed").filter(|_| method.is_unordered()) {
        sent[position.range.clone()].fill(0.0);
    }

    let needs = Needs::of(start, architecture)?;
    let mut observation = Observation::new(needs.read_flat(architecture, &state.weights, &sent, Some(&kept)));
    observation.batch = truth.len();
    observation.labels = Some(labels);
    let whole = WholeUpdate { architecture, state, gradient: sent, kept: Some(kept), is_training: true };
    observation.whole = Some(Arc::new(whole));

    let scores = |pictures: &[f32]| -> Result<String, Box<dyn Error>> {
        let mut scores = String::new();
        for (found, truth) in pictures.chunks_exact(truth[0].len()).zip(&truth) {
            scores += &format!("  SSIM {:.3}", ssim(found, truth, side, side)?);
            if let Some(config) = architecture.vit().filter(|_| method.is_unordered()) {
                let arranged = best_arrangement(found, truth, side, config.patch)?;
                scores += &format!(" (arranged {:.3})", ssim(&arranged, truth, side, side)?);
            }
        }
        Ok(scores)
    };
    let (clock, options) = (Instant::now(), SearchOptions { iterations: Some(iterations), step, seed: 9 });
    let mut report = |AttackProgress { iteration, objective, pictures, .. }: AttackProgress<'_>| {
        if iteration % (iterations / 20).max(1) == 0 {
            let each = clock.elapsed().as_secs_f64() * 1e3 / iteration as f64;
            let scores = scores(pictures).unwrap_or_else(|error| error.to_string());
            println!("{iteration} of {iterations}, {each:.0} ms each, objective {objective:.4}{scores}");
        }
        ControlFlow::Continue(())
    };
    let searches = GradientMatching::new(OpenDevice::cpu());
    let found = run(method, &observation, &searches, options, &mut report)?;
    println!("{method}:{} {}", scores(&found.pictures.concat())?, found.notes.join(" "));
    Ok(())
}
