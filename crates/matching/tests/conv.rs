//! Inverting Gradients on a small convolutional network, which knows nothing of this crate but one trait.

mod common;

use burn::tensor::{
    DType, Device, Tensor, TensorData,
    activation::{log_softmax, sigmoid},
    module::conv2d,
    ops::ConvOptions,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_matching::{Inputs, Matching, MatchingOptions, Objective, Oracle, Problem, ReceivedGradient};

const SIDE: usize = 16;
const WIDTH: usize = 12;
const CLASSES: usize = 10;
const FEATURES: usize = WIDTH * (SIDE / 4) * (SIDE / 4);
const SHAPES: [[usize; 4]; 3] = [[WIDTH, 3, 5, 5], [WIDTH, WIDTH, 5, 5], [WIDTH, WIDTH, 5, 5]];
const STRIDES: [usize; 3] = [2, 2, 1];

/// Three convolutions with sigmoids and a linear head, after Deep Leakage from Gradients.
struct Conv {
    weights: Vec<f64>,
    label: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ConvError(String);

impl Conv {
    /// Uniform up to `bound` of a layer's inputs.
    fn new(seed: u64, label: usize, bound: fn(usize) -> f64) -> Self {
        let layers = SHAPES.map(|[out, inputs, height, width]| (out, inputs * height * width));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut weights = Vec::new();
        for (out, inputs) in layers.into_iter().chain([(CLASSES, FEATURES)]) {
            let bound = bound(inputs);
            weights.extend((0..out * (inputs + 1)).map(|_| rng.random_range(-bound..bound)));
        }
        Self { weights, label }
    }

    /// The loss, the leaves of the weights in order, and the leaf of x.
    fn loss(&self, weights: &[f64], x: &[f64]) -> (Tensor<1>, Vec<Tensor<1>>, Tensor<4>) {
        let device = Device::flex().autodiff();
        let leaf = |values: &[f64]| {
            Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), (&device, DType::F32))
                .require_grad()
        };
        let input = TensorData::new(x.to_vec(), [1, 3, SIDE, SIDE]);
        let input = Tensor::<4>::from_data(input, (&device, DType::F32)).require_grad();
        let mut leaves = Vec::new();
        let mut rest = weights;
        let mut take = |len: usize| {
            let (values, tail) = rest.split_at(len);
            rest = tail;
            leaves.push(leaf(values));
            leaves[leaves.len() - 1].clone()
        };
        let mut y = input.clone();
        for (shape, stride) in SHAPES.into_iter().zip(STRIDES) {
            let weight = take(shape.iter().product()).reshape(shape);
            let bias = take(WIDTH);
            y = sigmoid(conv2d(y, weight, Some(bias), ConvOptions::new([stride; 2], [2; 2], [1; 2], 1)));
        }
        let weight = take(FEATURES * CLASSES).reshape([FEATURES, CLASSES]);
        let logits = y.reshape([1, FEATURES]).matmul(weight) + take(CLASSES).unsqueeze::<2>();
        let loss = log_softmax(logits, 1).narrow(1, self.label, 1).sum().neg();
        (loss, leaves, input)
    }

    fn input_gradient(&self, weights: &[f64], x: &[f64]) -> Result<Vec<f64>, ConvError> {
        let (loss, _, input) = self.loss(weights, x);
        let gradients = loss.backward();
        read(input.grad(&gradients))
    }
}

fn read<const D: usize>(gradient: Option<Tensor<D>>) -> Result<Vec<f64>, ConvError> {
    let gradient = gradient.ok_or_else(|| ConvError("a leaf has no gradient".into()))?;
    Ok(gradient.into_data().iter::<f64>().collect())
}

impl Oracle for Conv {
    type Error = ConvError;

    fn inputs(&self) -> Inputs {
        Inputs { batch: 1, side: SIDE }
    }

    fn weights(&self) -> &[f64] {
        &self.weights
    }

    fn gradient(&self, x: &[f64]) -> Result<Vec<f64>, ConvError> {
        let (loss, leaves, _) = self.loss(&self.weights, x);
        let gradients = loss.backward();
        let mut flat = Vec::with_capacity(self.weights.len());
        for leaf in leaves {
            flat.extend(read(leaf.grad(&gradients))?);
        }
        Ok(flat)
    }

    fn input_gradient_along(&self, x: &[f64], shift: &[f64]) -> Result<Vec<f64>, ConvError> {
        let at = |sign: f64| {
            let shifted: Vec<f64> = self.weights.iter().zip(shift).map(|(w, s)| w + sign * s).collect();
            self.input_gradient(&shifted, x)
        };
        let (forwards, backwards) = (at(1.0)?, at(-1.0)?);
        Ok(forwards.iter().zip(&backwards).map(|(f, b)| (f - b) / 2.0).collect())
    }
}

/// SSIM against the truth after 300 iterations from a grey start, of an update that a mask dropped a share `rate` of.
fn invert(truth: &[f32], bound: fn(usize) -> f64, rate: f64, is_aware: bool) -> f64 {
    let conv = Conv::new(1, 3, bound);
    let x: Vec<f64> = truth.iter().map(|&v| f64::from(v) * 2.0 - 1.0).collect();
    let gradient = conv.gradient(&x).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let kept: Vec<bool> = gradient.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
    let sent: Vec<f32> = gradient.iter().zip(&kept).map(|(&g, &kept)| if kept { g as f32 } else { 0.0 }).collect();
    let evidence =
        if is_aware { ReceivedGradient::aware(&sent, &kept) } else { ReceivedGradient::naive(&sent) }.unwrap();
    let problem = Problem::new(conv, Objective::Cosine, evidence).unwrap();
    let options = MatchingOptions { iterations: 300, ..MatchingOptions::default() };
    let mut matching = Matching::new(problem, &vec![0.5; 3 * SIDE * SIDE], options).unwrap();
    let mut found = matching.step().unwrap();
    while !found.is_over {
        found = matching.step().unwrap();
    }
    common::ssim(&found.image, &unmask_data::chw_to_hwc(truth, SIDE, SIDE), SIDE)
}

/// Half of the entries are enough for the naive attacker to see who it is on these wide weights, though far less than the aware one
/// does; with a fifth outlines are left.
#[test]
fn who_knows_the_mask_sees_the_picture_and_who_does_not_sees_less_with_each_dropped_entry() {
    const MARGIN: f64 = 0.05;
    let truth = common::photograph("astronaut.png", SIDE);
    for (rate, aware, naive) in [(0.0, 0.965, 0.965), (0.5, 0.921, 0.536), (0.8, 0.782, 0.323)] {
        for (is_aware, expected) in [(true, aware), (false, naive)] {
            let ssim = invert(&truth, |_| 0.5, rate, is_aware);
            assert!((ssim - expected).abs() < MARGIN, "R = {rate}, aware: {is_aware}, SSIM {ssim} for {expected}");
        }
    }
}

/// At PyTorch's initial weights the picture moves a three-hundredth of the gradient. Smoothness must not outweigh that, and a mask's
/// zeros do.
#[test]
fn at_usual_weights_who_knows_the_mask_sees_nearly_all_and_who_does_not_nothing() {
    let truth = common::photograph("astronaut.png", SIDE);
    for (rate, is_aware) in [(0.0, true), (0.8, true), (0.2, false), (0.8, false)] {
        let ssim = invert(&truth, |inputs| (inputs as f64).sqrt().recip(), rate, is_aware);
        assert!(if is_aware { ssim > 0.9 } else { ssim < 0.1 }, "R = {rate}, aware: {is_aware}, SSIM {ssim}");
    }
}
