//! Compares gradients with respect to images, and those of an oracle, with the training step's.

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_engine::{Engine, Normalisation, Wanted};
use unmask_model::{
    ModelError, Network, OracleOptions, Precision, WeightScope, block_on,
    device::{self, Compute, OpenDevice},
};

use super::skipped;

fn case(april_block: bool) -> (Network, ModelState, Vec<f32>, Vec<usize>) {
    let architecture = Architecture::from(VitPreset::Pico).with_april_block(april_block);
    let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
    let state = architecture.initial(5);
    let len = 2 * VitConfig::CHANNELS * architecture.side() * architecture.side();
    let images = (0..len).map(|i| 0.5 + 0.4 * (i as f32 * 0.37).sin()).collect();
    (network, state, images, vec![3, 7])
}

fn options(scope: WeightScope, precision: Precision) -> OracleOptions {
    OracleOptions { scope, precision, ..OracleOptions::default() }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

#[test]
fn input_gradient_is_that_of_the_loss() {
    for april_block in [false, true] {
        let (network, state, images, labels) = case(april_block);
        let step = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
        let input = network.input_gradient_blocking(&state, &images, &labels).unwrap();
        assert_eq!(input.images.len(), images.len());
        assert!((input.loss - step.loss).abs() < 1e-6);
        // Along d = g / |g|, the loss rises by |g|.
        let length = norm(wide(&input.images));
        let loss = |step: f64| {
            let moved: Vec<f32> = images
                .iter()
                .zip(&input.images)
                .map(|(&x, &g)| (f64::from(x) + step * f64::from(g) / length) as f32)
                .collect();
            f64::from(network.evaluate_blocking(&state, &moved, &labels).unwrap().loss)
        };
        let slope = (loss(0.05) - loss(-0.05)) / 0.1;
        assert!((slope / length - 1.0).abs() < 1e-2, "slope {slope}, gradient norm {length}");
    }
}

#[test]
fn gradient_is_the_steps() {
    for april_block in [false, true] {
        let (network, state, images, labels) = case(april_block);
        let step = wide(&network.loss_and_gradient_blocking(&state, &images, &labels).unwrap().gradient);
        for (scope, precision) in [
            (WeightScope::FirstBlock, Precision::F32),
            (WeightScope::FirstBlock, Precision::F64),
            (WeightScope::All, Precision::F32),
            (WeightScope::All, Precision::F64),
        ] {
            let oracle = network.oracle(&state, options(scope, precision)).unwrap();
            let at = block_on(oracle.gradient(&wide(&images), &labels)).unwrap();
            let gradient = at.gradient();
            let expected = match scope {
                WeightScope::FirstBlock => network.layout().get("blocks.0.mlp.fc2.bias").unwrap().range.end,
                WeightScope::All => network.layout().len(),
            };
            assert_eq!((gradient.len(), oracle.weights().len()), (expected, expected));
            let error = norm(gradient.iter().zip(&step).map(|(g, s)| g - s)) / norm(step[..expected].iter().copied());
            assert!(error < 1e-5, "{scope:?}, {precision:?}: {error:e}");
        }
    }
}

#[test]
fn change_of_the_input_gradient_is_the_difference_of_two() {
    let (network, state, images, labels) = case(false);
    let step = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap().gradient;
    let early = network.layout().get("blocks.0.mlp.fc2.bias").unwrap().range.end;
    for (scope, len) in [(WeightScope::FirstBlock, early), (WeightScope::All, state.weights.len())] {
        let direction: Vec<f64> = (0..len).map(|i| f64::from(step[i]).signum()).collect();
        let engine = Engine::<f64>::new(network.architecture());
        let shift = 2e-7;
        let at = |sign: f64| {
            let mut moved = wide(&state.weights);
            moved.iter_mut().zip(&direction).for_each(|(w, along)| *w += sign * shift * along);
            let wanted = Wanted { weights: 0, images: true };
            engine.differentiate(&moved, &[], &wide(&images), &labels, Normalisation::Running, wanted).images
        };
        let expected: Vec<f64> = at(1.0).iter().zip(&at(-1.0)).map(|(f, b)| (f - b) / (2.0 * shift)).collect();
        for (precision, tolerance) in [(Precision::F32, 1e-4), (Precision::F64, 1e-6)] {
            let oracle = network.oracle(&state, options(scope, precision)).unwrap();
            let at = block_on(oracle.gradient(&wide(&images), &labels)).unwrap();
            let found = block_on(oracle.input_gradient_along(&at, &direction)).unwrap();
            let error = norm(found.iter().zip(&expected).map(|(f, e)| f - e)) / norm(expected.iter().copied());
            assert!(error < tolerance, "{scope:?}, {precision:?}: {error:e}");
        }
    }
}

/// Reports that it is skipped if there is no graphics adapter.
#[test]
fn the_graphics_adapter_agrees_with_the_cpu() {
    let gpu = match device::open_blocking(Compute::Gpu) {
        Ok(gpu) => gpu,
        Err(error) => return skipped::skipped(error),
    };
    let (cpu, state, images, labels) = case(false);
    let gpu = Network::new(cpu.architecture(), gpu.device()).unwrap();
    let on_gpu = gpu.input_gradient_blocking(&state, &images, &labels).unwrap();
    let on_cpu = cpu.input_gradient_blocking(&state, &images, &labels).unwrap();
    let agree = |given: &[f64], expected: &[f64], tolerance: f64| {
        let error = norm(given.iter().zip(expected).map(|(g, e)| g - e)) / norm(expected.iter().copied());
        assert!(error < tolerance, "off by {error:e}");
    };
    agree(&wide(&on_gpu.images), &wide(&on_cpu.images), 1e-4);
    let images = wide(&images);
    let [on_gpu, on_cpu] = [&gpu, &cpu].map(|network| {
        let oracle = network.oracle(&state, options(WeightScope::FirstBlock, Precision::F32)).unwrap();
        let at = block_on(oracle.gradient(&images, &labels)).unwrap();
        let direction: Vec<f64> = at.gradient().iter().map(|g| g.signum()).collect();
        (at.gradient().to_vec(), block_on(oracle.input_gradient_along(&at, &direction)).unwrap())
    });
    agree(&on_gpu.0, &on_cpu.0, 1e-4);
    // A graphics adapter uses a central difference over 1e-3 of the weights' norm in each direction.
    agree(&on_gpu.1, &on_cpu.1, 1e-2);
    assert!(matches!(
        gpu.oracle(&state, options(WeightScope::FirstBlock, Precision::F64)),
        Err(ModelError::NoF64 { .. })
    ));
}

#[test]
fn nonsense_is_refused_with_its_numbers() {
    let (network, state, images, labels) = case(false);
    let expected = state.weights.len();
    let short = ModelState::from_weights(state.weights[1..].to_vec());
    assert!(matches!(
        network.oracle(&short, options(WeightScope::All, Precision::F32)),
        Err(ModelError::WeightCount { given, .. }) if given == expected - 1
    ));
    let oracle = network.oracle(&state, options(WeightScope::All, Precision::F32)).unwrap();
    let images = wide(&images);
    let at = block_on(oracle.gradient(&images, &labels)).unwrap();
    assert_eq!(
        block_on(oracle.input_gradient_along(&at, &[0.0; 9])),
        Err(ModelError::DirectionLength { given: 9, expected })
    );
    assert!(matches!(
        block_on(oracle.gradient(&images[1..], &labels)).map(|_| ()),
        Err(ModelError::ImageCount { batch: 2, side: 16, .. })
    ));
    assert_eq!(block_on(oracle.gradient(&[], &[])).map(|_| ()), Err(ModelError::EmptyBatch));
}
