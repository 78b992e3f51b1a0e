//! Small runs that take milliseconds per round.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_data::datasets::{DataSet, Labelled};
use unmask_model::device::OpenDevice;
use unmask_simulation::{Config, Simulation};

/// Noisy pictures of three classes with different colours. A model learns them within a few rounds.
pub fn colours(train: usize, test: usize) -> DataSet {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut half = |pictures: usize| {
        let (mut pixels, labels): (Vec<u8>, Vec<u8>) = (Vec::new(), (0..pictures).map(|i| (i % 3) as u8).collect());
        for &label in &labels {
            for _ in 0..16 * 16 {
                pixels
                    .extend((0..3).map(|channel| if channel == label { 150 } else { 60 } + rng.random_range(0..100u8)));
            }
        }
        let classes = (0..10).map(|class| format!("class {class}")).collect();
        Labelled::new(16, classes, pixels, labels).unwrap()
    };
    let (train, test) = (half(train), half(test));
    DataSet { name: "colours".to_owned(), train, test, left_out: Vec::new() }
}

pub static COLOURS: LazyLock<DataSet> = LazyLock::new(|| colours(90, 30));

/// The pico ViT on five clients, with `overrides` applied.
pub fn config(overrides: &[&str]) -> Config {
    let text = "model = 'vit_pico_patch4_16'\nbatch = 4\nrounds = 4\nevaluate-every = 2\ncheckpoint-every = 2";
    Config::read(text, &overrides.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}

pub fn simulation(overrides: &[&str]) -> Simulation<'static> {
    Simulation::new(&config(overrides), &COLOURS, &OpenDevice::cpu()).unwrap()
}

/// Round, loss, test accuracy and test loss, which do not depend on the clock.
pub type Timeless = (u32, Option<f32>, Option<f64>, Option<f64>);

pub fn trained(overrides: &[&str]) -> (Vec<u32>, Vec<Timeless>) {
    let mut simulation = simulation(overrides);
    let outcome = simulation.run(&mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(outcome.finished);
    let values = outcome.state.weights.iter().chain(&outcome.state.statistics);
    let metrics = outcome.metrics.iter().map(|m| (m.round, m.loss, m.test_accuracy, m.test_loss)).collect();
    (values.map(|value| value.to_bits()).collect(), metrics)
}
