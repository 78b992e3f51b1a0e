//! The gradient is that of the loss, training lowers the loss, and invalid inputs are rejected.

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_model::{Device, ModelError, Network, Step, device::OpenDevice};

fn network(preset: VitPreset, april_block: bool) -> Network {
    Network::new(Architecture::from(preset).with_april_block(april_block), OpenDevice::cpu().device()).unwrap()
}

fn initial(network: &Network) -> ModelState {
    network.architecture().initial(5)
}

/// Returns images with colours that depend on their class.
fn batch(architecture: Architecture, batch: usize) -> (Vec<f32>, Vec<usize>) {
    let plane = architecture.side() * architecture.side();
    let labels: Vec<usize> = (0..batch).map(|i| i % architecture.classes()).collect();
    let images = labels
        .iter()
        .enumerate()
        .flat_map(|(image, &label)| {
            (0..VitConfig::CHANNELS * plane).map(move |i| {
                let (channel, pixel) = (i / plane, i % plane);
                let wave = ((pixel * (label + 1)) as f32 * 0.07 + channel as f32 + image as f32 * 0.01).sin();
                0.5 + 0.5 * wave
            })
        })
        .collect();
    (images, labels)
}

#[test]
fn every_preset_trains_a_step_of_its_size() {
    for preset in VitPreset::ALL {
        for april_block in [false, true] {
            let network = network(preset, april_block);
            let (images, labels) = batch(network.architecture(), 1);
            let Step { loss, gradient, .. } =
                network.loss_and_gradient_blocking(&initial(&network), &images, &labels).unwrap();
            assert_eq!(gradient.len(), network.layout().len(), "{preset}");
            // Fresh weights know nothing, so the loss is about that of a random guess among ten classes.
            assert!((loss - 10f32.ln()).abs() < 0.7, "{preset}: {loss}");
            for param in network.layout() {
                let energy: f32 = gradient[param.range.clone()].iter().map(|g| g * g).sum();
                assert!(energy > 0.0, "{preset}: {} has no gradient", param.name);
            }
        }
    }
}

#[test]
fn gradient_is_that_of_the_loss() {
    for april_block in [false, true] {
        let network = network(VitPreset::Pico, april_block);
        let state = initial(&network);
        let (images, labels) = batch(network.architecture(), 3);
        let step = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
        let norm = step.gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        // Along d, (l(w + e d) - l(w - e d)) / 2e = <g, d> + O(e^2). With d = g / |g|, this is |g|.
        let epsilon = 1e-3;
        let shifted = |sign: f64| {
            let moved: Vec<f32> = state
                .weights
                .iter()
                .zip(&step.gradient)
                .map(|(&w, &g)| (f64::from(w) + sign * epsilon * f64::from(g) / norm) as f32)
                .collect();
            f64::from(network.evaluate_blocking(&ModelState::from_weights(moved), &images, &labels).unwrap().loss)
        };
        let slope = (shifted(1.0) - shifted(-1.0)) / (2.0 * epsilon);
        assert!((slope / norm - 1.0).abs() < 2e-3, "slope {slope}, gradient norm {norm}");
        // For every parameter, along its own gradient.
        for param in network.layout() {
            let part = &step.gradient[param.range.clone()];
            let part_norm = part.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            if part_norm < 1e-2 * norm {
                continue; // the difference of two f32 losses cannot resolve it
            }
            let along = |sign: f64| {
                let mut moved = state.weights.clone();
                for (w, &g) in moved[param.range.clone()].iter_mut().zip(part) {
                    *w = (f64::from(*w) + sign * epsilon * f64::from(g) / part_norm) as f32;
                }
                f64::from(network.evaluate_blocking(&ModelState::from_weights(moved), &images, &labels).unwrap().loss)
            };
            let slope = (along(1.0) - along(-1.0)) / (2.0 * epsilon);
            assert!((slope / part_norm - 1.0).abs() < 3e-2, "{}: {slope} against {part_norm}", param.name);
        }
    }
}

#[test]
fn training_lowers_the_loss() {
    let network = network(VitPreset::Pico, false);
    let mut state = initial(&network);
    let (images, labels) = batch(network.architecture(), 10);
    let before = network.evaluate_blocking(&state, &images, &labels).unwrap();
    for _ in 0..60 {
        let step = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
        for (weight, gradient) in state.weights.iter_mut().zip(&step.gradient) {
            *weight -= 0.2 * gradient;
        }
    }
    let after = network.evaluate_blocking(&state, &images, &labels).unwrap();
    assert!(after.loss < 0.5 * before.loss, "{} to {}", before.loss, after.loss);
    assert!(after.correct >= 8, "{} of 10", after.correct);
    assert_eq!(after.logits, network.logits_blocking(&state, &images, 10).unwrap());
}

#[test]
fn batch_is_the_mean_of_its_images() {
    let network = network(VitPreset::Pico, false);
    let state = initial(&network);
    let (images, labels) = batch(network.architecture(), 2);
    let half = images.len() / 2;
    let both = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
    let first = network.loss_and_gradient_blocking(&state, &images[..half], &labels[..1]).unwrap();
    let second = network.loss_and_gradient_blocking(&state, &images[half..], &labels[1..]).unwrap();
    assert!((both.loss - (first.loss + second.loss) / 2.0).abs() < 1e-5);
    for ((b, f), s) in both.gradient.iter().zip(&first.gradient).zip(&second.gradient) {
        assert!((b - (f + s) / 2.0).abs() < 1e-5);
    }
}

#[test]
fn nonsense_is_refused_with_its_numbers() {
    let network = network(VitPreset::Pico, false);
    let state = initial(&network);
    let (images, labels) = batch(network.architecture(), 2);
    let error = |weights: &[f32], images: &[f32], labels: &[usize]| {
        network.loss_and_gradient_blocking(&ModelState::from_weights(weights.to_vec()), images, labels).unwrap_err()
    };
    let expected = network.layout().len();
    assert_eq!(error(&state.weights[1..], &images, &labels), ModelError::WeightCount { given: expected - 1, expected });
    assert_eq!(
        error(&state.weights, &images[..768], &labels),
        ModelError::ImageCount { given: 768, expected: 1536, batch: 2, side: 16 }
    );
    assert_eq!(error(&state.weights, &[], &[]), ModelError::EmptyBatch);
    assert_eq!(error(&state.weights, &images, &[3, 10]), ModelError::Label { image: 1, label: 10, classes: 10 });
    let mut poisoned = state.weights.clone();
    poisoned[100] = f32::NAN;
    assert!(matches!(error(&poisoned, &images, &labels), ModelError::NonFinite { what, .. } if what == "loss"));
    let none = network.architecture().with_classes(0);
    assert!(matches!(Network::new(none, &Device::Cpu), Err(ModelError::NoClasses { .. })));
}
