//! Batch norm in training and evaluation mode: which statistics move, which stay, and which states are rejected.

use unmask_core::{Architecture, ModelState, ResnetPreset, ResnetSpec, StatisticsError};
use unmask_model::{Device, ModelError, Network};

fn nano() -> (Network, ModelState, Vec<f32>, Vec<usize>) {
    let architecture = Architecture::Resnet(ResnetSpec { side: 8, ..ResnetPreset::Nano.into() });
    let network = Network::new(architecture, &Device::Cpu).unwrap();
    let images = (0..4 * 3 * 64).map(|i| 0.5 + 0.5 * (0.11 * i as f32).sin()).collect();
    (network, architecture.initial(2), images, vec![0, 3, 6, 9])
}

#[test]
fn local_epochs_are_a_loop_over_steps_and_move_the_statistics() {
    let (network, initial, images, labels) = nano();
    let mut expected = initial.clone();
    for _ in 0..2 {
        for range in [0..2, 2..4] {
            let images = &images[range.start * 192..range.end * 192];
            let step = network.loss_and_gradient_blocking(&expected, images, &labels[range]).unwrap();
            expected.weights.iter_mut().zip(&step.gradient).for_each(|(weight, slope)| *weight -= 0.05 * slope);
            expected.statistics = step.statistics;
        }
    }
    let trained = network.train_locally_blocking(&initial, &images, &labels, 2, 2, 0.05).unwrap();
    assert_eq!(trained.state, expected);
    assert_ne!(trained.state.statistics, initial.statistics);
}

#[test]
fn evaluation_takes_each_image_by_itself_and_training_does_not() {
    let (network, state, images, labels) = nano();
    let all = network.evaluate_blocking(&state, &images, &labels).unwrap();
    let one = network.evaluate_blocking(&state, &images[..192], &labels[..1]).unwrap();
    for (alone, together) in one.logits.iter().zip(&all.logits) {
        assert!((alone - together).abs() < 1e-5, "{alone}, {together}");
    }
    let trained = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
    let evaluated = network.evaluation_gradient_blocking(&state, &images, &labels).unwrap();
    assert!((evaluated.loss - all.loss).abs() < 1e-5);
    assert!((trained.loss - evaluated.loss).abs() > 1e-3);
    assert_ne!(trained.gradient, evaluated.gradient);
}

#[test]
fn states_of_another_network_are_refused() {
    let (network, state, images, labels) = nano();
    let error = |state: &ModelState| network.loss_and_gradient_blocking(state, &images, &labels).unwrap_err();
    let none = ModelState { statistics: Vec::new(), ..state.clone() };
    assert!(matches!(error(&none), ModelError::Statistics(StatisticsError::Count { given: 0, .. })));
    let mut negative = state.clone();
    let last = negative.statistics.len() - 1;
    negative.statistics[last] = -1.0;
    assert!(matches!(error(&negative), ModelError::Statistics(StatisticsError::Value { value: -1.0, .. })));
    let vit = Architecture::named("vit_pico_patch4_16", 10).unwrap();
    let surplus = ModelState { statistics: vec![0.0], ..vit.initial(1) };
    let vit = Network::new(vit, &Device::Cpu).unwrap();
    let refused = vit.evaluate_blocking(&surplus, &[0.0; 768], &[1]).unwrap_err();
    assert_eq!(refused, ModelError::Statistics(StatisticsError::Count { given: 1, expected: 0 }));
}

#[test]
fn one_value_a_channel_has_no_variance() {
    let architecture = Architecture::Resnet(ResnetSpec { side: 4, ..ResnetPreset::Nano.into() });
    let network = Network::new(architecture, &Device::Cpu).unwrap();
    let state = architecture.initial(1);
    let error = network.loss_and_gradient_blocking(&state, &[0.5; 48], &[1]).unwrap_err();
    assert_eq!(error, ModelError::SingleValue { batch: 1, side: 4 });
    network.loss_and_gradient_blocking(&state, &[0.5; 96], &[1, 2]).unwrap();
    network.evaluation_gradient_blocking(&state, &[0.5; 48], &[1]).unwrap();
}
