//! Compares the time of one token matching iteration with that of one training step, on the CPU:
//! `cargo bench --workspace --bench iteration`.
//!
//! `iteration_pytorch.py` measures the same in PyTorch, and `cargo xtask bench-peers --only matching` alternates
//! between the two. A plain loop instead of criterion, which would change features of Burn's dependencies and compile
//! its GPU half again.

#[path = "../../model/benches/serve/mod.rs"]
mod serve;

use std::{hint::black_box, time::Instant};

use unmask_core::{Architecture, VitConfig, VitPreset};
use unmask_matching::{Matching, MatchingOptions, NetworkOracle, Objective, Problem, ReceivedGradient};
use unmask_model::{Network, OracleOptions, WeightScope, device::OpenDevice};

const SAMPLES: usize = 25;
const LABEL: usize = 3;
/// Never reached: a finished search computes nothing.
const ENDLESS: usize = 1_000_000;

/// Returns the fastest and the median run in milliseconds. The fastest is the actual cost on a busy machine.
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

fn prepare(preset: VitPreset) -> (impl FnMut(), impl FnMut()) {
    let network = Network::new(Architecture::from(preset), OpenDevice::cpu().device()).expect("a preset is a model");
    let (config, state) = (VitConfig::from(preset), Architecture::from(preset).initial(1));
    let len = VitConfig::CHANNELS * config.image * config.image;
    let picture: Vec<f32> = (0..len).map(|i| (i % 251) as f32 / 250.0).collect();
    let update = network.loss_and_gradient_blocking(&state, &picture, &[LABEL]).expect("a step").gradient;
    let options = OracleOptions { scope: WeightScope::FirstBlock, ..OracleOptions::default() };
    let oracle = NetworkOracle::new(&network, &state, &[LABEL], options).expect("an oracle");
    let evidence = ReceivedGradient::naive(&update).expect("a finite update");
    let problem = Problem::new(oracle, Objective::tokens(&config), evidence).expect("a problem");
    let options = MatchingOptions { iterations: ENDLESS, ..MatchingOptions::default() };
    let mut matching = Matching::new(problem, &vec![0.5; len], options).expect("a start");
    let step = move || {
        black_box(network.loss_and_gradient_blocking(&state, &picture, &[LABEL]).expect("a step"));
    };
    let iteration = move || {
        black_box(matching.step().expect("an iteration"));
    };
    (step, iteration)
}

fn main() {
    if serve::is_asked() {
        return serve::answer(|model, batch| {
            assert_eq!(batch, 1, "one picture is searched for");
            prepare(model.parse().expect("the name of a preset")).1
        });
    }
    for preset in [VitPreset::Pico, VitPreset::Nano, VitPreset::Lab] {
        let (step, iteration) = prepare(preset);
        let (step, iteration) = (time(step), time(iteration));
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
