//! What token matching makes of one update of a model at its initialisation, in SSIM:
//! `cargo run --release --example reproduce -- astronaut.png,rocket.png 0.5 2000 aware`.
//!
//! - photographs from `www/samples`, comma-separated: the pictures of one batch;
//! - share of zeros in the mask;
//! - iterations;
//! - `aware` or `naive` of the mask, both from the mask-aware closed form's picture, or `fixed`: aware, without the position
//!   embedding's gradient, from noise; its pictures are also measured in their best arrangement;
//! - the first step size, 0.1 unless given; SGD steps (rate 0.1) that the model was trained on the batch, 0 unless given;
//!   and the model, `vit_lab_patch4_32` unless given.

use std::{env::args, error::Error, ops::ControlFlow, path::Path, time::Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{Accumulated, AlsOptions, Attack, AttackKind, Knowledge, als};
use unmask_core::{Architecture, VitPreset, VitSpec};
use unmask_data::{chw_to_hwc, decode, jigsaw::best_arrangement, metrics::ssim};
use unmask_matching::{Matching, NetworkOracle, Objective, Problem, ReceivedGradient, SearchVerdict, Settings};
use unmask_model::{Network, OracleOptions, WeightScope, device::OpenDevice};

const FIRST_LABEL: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = args().skip(1).collect();
    let [photographs, rate, iterations, mode, optional @ ..] = args.as_slice() else {
        return Err("give photographs, share of zeros, iterations, and aware, naive or fixed".into());
    };
    let (rate, iterations): (f64, usize) = (rate.parse()?, iterations.parse()?);
    let step: f64 = optional.first().map_or(Ok(Settings::default().step), |step| step.parse())?;
    let trained: usize = optional.get(1).map_or(Ok(0), |steps| steps.parse())?;
    let model = optional.get(2).map_or(Ok(VitPreset::Lab), |model| model.parse())?;

    let network = Network::new(Architecture::from(model), OpenDevice::cpu().device())?;
    let config = VitSpec::new(model).config();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let mut images = Vec::new();
    let mut truth = Vec::new();
    for name in photographs.split(',') {
        let image = decode(&std::fs::read(samples.join(name))?)?.for_model(config.image);
        truth.push(chw_to_hwc(&image, config.image, config.image));
        images.extend(image);
    }
    let labels: Vec<usize> = (0..truth.len()).map(|i| (FIRST_LABEL + i) % config.classes).collect();

    let mut state = Architecture::from(model).initial(1);
    for _ in 0..trained {
        let gradient = network.loss_and_gradient_blocking(&state, &images, &labels)?.gradient;
        state.weights.iter_mut().zip(gradient).for_each(|(weight, gradient)| *weight -= 0.1 * gradient);
    }
    let plain = network.loss_and_gradient_blocking(&state, &images, &labels)?;
    println!("loss of the batch: {:.4}", plain.loss);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let kept: Vec<bool> = plain.gradient.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
    let mut sent: Vec<f32> = plain.gradient.iter().zip(&kept).map(|(&g, &kept)| if kept { g } else { 0.0 }).collect();

    let is_fixed = mode == "fixed";
    let start: Vec<f32> = if is_fixed {
        if let Some(position) = network.layout().get("pos_embed") {
            sent[position.range.clone()].fill(0.0);
        }
        images.iter().map(|_| rng.random_range(0.0..1.0)).collect()
    } else {
        let attack = Attack { kind: AttackKind::Embedding, knowledge: Knowledge::Aware };
        let evidence = unmask_attack::Evidence::from_flat_kept(attack, &config, &state.weights, &sent, &kept)?;
        let found = als(&Accumulated::of(&evidence)?, AlsOptions::default(), |_| ControlFlow::Continue(()))?.image;
        // Pictures of a batch must not start alike, or they stay alike.
        let mut noisy = || found.iter().map(|v| (v + rng.random_range(-0.02..0.02f32)).clamp(0.0, 1.0)).collect();
        if truth.len() == 1 { found } else { truth.iter().flat_map(|_| -> Vec<f32> { noisy() }).collect() }
    };
    let objective = if is_fixed { Objective::tokens_without_position(&config) } else { Objective::tokens(&config) };
    let evidence =
        if mode == "naive" { ReceivedGradient::naive(&sent)? } else { ReceivedGradient::aware(&sent, &kept)? };
    let options = OracleOptions { scope: WeightScope::FirstBlock, ..OracleOptions::default() };
    let oracle = NetworkOracle::new(&network, &state, &labels, options)?;
    let problem = Problem::of_any_batch(oracle, objective, evidence)?;
    let mut matching = Matching::new(problem, &start, Settings { iterations, step, ..Settings::default() })?;

    let report = |pictures: &[f32]| -> Result<(), Box<dyn Error>> {
        for (found, truth) in pictures.chunks_exact(truth[0].len()).zip(&truth) {
            print!("  SSIM {:.3}", ssim(found, truth, config.image, config.image)?);
            if is_fixed {
                let arranged = best_arrangement(found, truth, config.image, config.patch)?;
                print!(" (arranged {:.3})", ssim(&arranged, truth, config.image, config.image)?);
            }
        }
        println!();
        Ok(())
    };
    print!("start");
    report(&start)?;
    let clock = Instant::now();
    loop {
        let progress = matching.step_blocking()?;
        if progress.iteration % (iterations / 20).max(1) == 0 || progress.verdict != SearchVerdict::Running {
            let each = clock.elapsed().as_secs_f64() * 1e3 / progress.iteration as f64;
            print!("{} of {iterations}, {each:.0} ms each, objective {:.4}", progress.iteration, progress.objective);
            report(&progress.image)?;
        }
        if progress.verdict != SearchVerdict::Running {
            println!("{:?}", progress.verdict);
            return Ok(());
        }
    }
}
