//! Local training is SGD step by step, lowers the loss, and rejects invalid settings.

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_model::{LocalTraining, ModelError, Network, device::OpenDevice};

use super::{local_golden::Task, skipped};

const SAMPLES: usize = 5;
const RATE: f32 = 0.05;

fn network() -> Network {
    Network::new(Architecture::from(VitPreset::Pico), OpenDevice::cpu().device()).unwrap()
}

fn initial(network: &Network) -> ModelState {
    network.architecture().initial(11)
}

/// Returns `[5, 3, side, side]` in `[0, 1]`, a different wave per image, and labels.
fn samples(architecture: Architecture) -> (Vec<f32>, Vec<usize>) {
    let len = image_len(architecture);
    let wave = |image: usize, i: usize| 0.5 + 0.5 * ((i * (image + 2)) as f32 * 0.05).sin();
    let images = (0..SAMPLES).flat_map(|image| (0..len).map(move |i| wave(image, i))).collect();
    (images, (0..SAMPLES).map(|image| 3 * image % architecture.classes()).collect())
}

fn image_len(architecture: Architecture) -> usize {
    VitConfig::CHANNELS * architecture.side() * architecture.side()
}

fn descend(weights: &mut [f32], gradient: &[f32]) {
    for (weight, gradient) in weights.iter_mut().zip(gradient) {
        *weight -= RATE * gradient;
    }
}

#[test]
fn one_batch_of_everything_is_one_step_of_sgd() {
    let network = network();
    let (images, labels) = samples(network.architecture());
    let mut expected = initial(&network);
    let step = network.loss_and_gradient_blocking(&expected, &images, &labels).unwrap();
    descend(&mut expected.weights, &step.gradient);
    for batch in [SAMPLES, usize::MAX] {
        let trained = network.train_locally_blocking(&initial(&network), &images, &labels, batch, 1, RATE).unwrap();
        assert_eq!(trained.loss, step.loss);
        assert_eq!(bits(&trained.state.weights), bits(&expected.weights), "batch {batch}");
    }
}

#[test]
fn batches_and_epochs_are_a_loop_over_steps() {
    let network = network();
    let (images, labels) = samples(network.architecture());
    let len = image_len(network.architecture());
    let mut expected = initial(&network);
    let mut losses = Vec::new();
    for _ in 0..3 {
        for range in [0..2, 2..4, 4..5] {
            let images = &images[range.start * len..range.end * len];
            let step = network.loss_and_gradient_blocking(&expected, images, &labels[range.clone()]).unwrap();
            descend(&mut expected.weights, &step.gradient);
            losses.push(step.loss);
        }
    }
    let LocalTraining { loss, state } =
        network.train_locally_blocking(&initial(&network), &images, &labels, 2, 3, RATE).unwrap();
    assert_eq!(bits(&state.weights), bits(&expected.weights));
    let first_pass = (2.0 * losses[0] + 2.0 * losses[1] + losses[2]) / 5.0;
    assert!((loss - first_pass).abs() < 1e-6, "{loss}, by hand {first_pass}");
}

/// The tab's tests check the same in a browser. With `UNMASK_BLESS` in the environment, the test writes its results as
/// the new expected numbers.
#[test]
fn numbers_are_those_written_down() {
    let task = Task::new(OpenDevice::cpu().device());
    let Task { network, state, images, labels, batch, epochs, rate } = &task;
    let trained = network.train_locally_blocking(state, images, labels, *batch, *epochs, *rate).unwrap();
    if std::env::var_os("UNMASK_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/local_training.txt");
        std::fs::write(path, task.lines(&trained)).unwrap();
        return skipped::skipped("UNMASK_BLESS is set: the results were written to the file and not compared");
    }
    task.check(&trained).unwrap();
}

#[test]
fn loss_falls() {
    let network = network();
    let (images, labels) = samples(network.architecture());
    let before = network.evaluate_blocking(&initial(&network), &images, &labels).unwrap().loss;
    let trained = network.train_locally_blocking(&initial(&network), &images, &labels, 2, 40, RATE).unwrap();
    let after = network.evaluate_blocking(&trained.state, &images, &labels).unwrap().loss;
    assert!(after < 0.5 * before, "{before} to {after}");
}

#[test]
fn settings_that_are_none_are_refused() {
    let network = network();
    let (state, (images, labels)) = (initial(&network), samples(network.architecture()));
    let error = |images: &[f32], labels: &[usize], batch, epochs, rate| {
        network.train_locally_blocking(&state, images, labels, batch, epochs, rate).unwrap_err()
    };
    assert_eq!(error(&images, &labels, 0, 1, RATE), ModelError::NoLocalBatch);
    assert_eq!(error(&images, &labels, 1, 0, RATE), ModelError::NoLocalEpochs);
    for rate in [f32::INFINITY, 0.0, -0.1] {
        assert_eq!(error(&images, &labels, 1, 1, rate), ModelError::LocalRate { rate });
    }
    assert!(matches!(error(&images, &labels, 1, 1, f32::NAN), ModelError::LocalRate { rate } if rate.is_nan()));
    assert_eq!(error(&[], &[], 1, 1, RATE), ModelError::EmptyBatch);
    assert!(matches!(error(&images[1..], &labels, 2, 1, RATE), ModelError::ImageCount { batch: SAMPLES, .. }));
    // The same huge bias for every class does not change the loss. One step at this rate takes the label's bias out of
    // range.
    let mut huge = state.clone();
    huge.weights[network.layout().get("head.bias").unwrap().range.clone()].fill(3e38);
    let (image, label) = (&images[..image_len(network.architecture())], &labels[..1]);
    let ModelError::NonFinite { what, .. } =
        network.train_locally_blocking(&huge, image, label, 1, 1, f32::MAX).map(|_| "finite weights").unwrap_err()
    else {
        panic!("no other error is true");
    };
    assert_eq!(what, "weights after local training");
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
