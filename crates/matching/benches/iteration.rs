//! Time of one iteration of token matching beside that of one training step, on the CPU:
//! `cargo bench --workspace --bench iteration`.
//!
//! A plain loop: criterion would change features of what Burn stands on, and compile its GPU half once more.

use std::{hint::black_box, time::Instant};

use unmask_core::{InitOptions, ModelSpec, Preset, VitConfig, initial_weights};
use unmask_matching::{Matching, Objective, Problem, ReceivedGradient, Settings, VitNetwork};
use unmask_model::{Precision, Reach, Vit, device::OpenDevice};

const SAMPLES: usize = 25;

/// Fastest and median of some runs, in milliseconds. The fastest says what the work costs on a busy machine.
fn time(mut work: impl FnMut()) -> (f64, f64) {
    let mut milliseconds: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    milliseconds.sort_by(f64::total_cmp);
    (milliseconds[0], milliseconds[SAMPLES / 2])
}

fn main() {
    for preset in [Preset::VitPicoPatch4_16, Preset::VitNanoPatch4_32, Preset::VitLabPatch4_32] {
        let vit = Vit::new(ModelSpec::new(preset), OpenDevice::cpu().device()).expect("a preset is a model");
        let config = *vit.config();
        let weights = initial_weights(&config, 1, InitOptions::default());
        let len = VitConfig::CHANNELS * config.image * config.image;
        let picture: Vec<f32> = (0..len).map(|i| (i % 251) as f32 / 250.0).collect();
        let update = vit.loss_and_gradient_blocking(&weights, &picture, &[3]).expect("a step").gradient;
        let network = VitNetwork::new(&vit, &weights, &[3], Reach::FirstBlock, Precision::F32).expect("a network");
        let evidence = ReceivedGradient::naive(&update).expect("a finite update");
        let problem = Problem::new(network, Objective::tokens(&config), evidence).expect("a problem");
        let mut matching = Matching::new(problem, &vec![0.5; len], Settings::default()).expect("a start");
        let step = time(|| {
            black_box(vit.loss_and_gradient_blocking(&weights, &picture, &[3]).expect("a step"));
        });
        let iteration = time(|| {
            black_box(matching.step_blocking().expect("an iteration"));
        });
        println!(
            "{preset}: training step {:.2} ms (median {:.2}), matching iteration {:.2} ms (median {:.2}): {:.2} times",
            step.0,
            step.1,
            iteration.0,
            iteration.1,
            iteration.0 / step.0
        );
    }
}
