//! Creates tensors on the device from the flat weights.

use std::ops::Range;

use burn::tensor::{Device, Gradients, Tensor, TensorData, Transaction, module};
use unmask_core::Param;

/// Normalises an image's value in [0, 1] for every network.
pub(super) fn normalised(x: f32) -> f32 {
    (x - 0.5) / 0.5
}

/// Computes dl/dx from dl/d([`normalised`] x).
pub(super) fn image_slope(slope: f32) -> f32 {
    slope / 0.5
}

/// A tensor that gets a gradient: the images, or a piece of the flat vector.
#[derive(Clone)]
pub(super) enum Leaf {
    Rank1(Tensor<1>),
    Rank2(Tensor<2>),
    /// Input of a ViT, `[batch, S, L]`.
    Rank3(Tensor<3>),
    /// Filters `[out, in, height, width]`, or input of a ResNet, `[batch, 3, side, side]`.
    Rank4(Tensor<4>),
}

impl Leaf {
    /// Registers the gradient with `transaction`. A missing gradient is skipped, and the caller detects the wrong
    /// number of values.
    pub(super) fn register(&self, gradients: &mut Gradients, transaction: Transaction) -> Transaction {
        fn register<const D: usize>(
            leaf: &Tensor<D>,
            gradients: &mut Gradients,
            transaction: Transaction,
        ) -> Transaction {
            match leaf.grad_remove(gradients) {
                Some(gradient) => transaction.register(gradient),
                None => transaction,
            }
        }
        match self {
            Self::Rank1(leaf) => register(leaf, gradients, transaction),
            Self::Rank2(leaf) => register(leaf, gradients, transaction),
            Self::Rank3(leaf) => register(leaf, gradients, transaction),
            Self::Rank4(leaf) => register(leaf, gradients, transaction),
        }
    }
}

/// Where to create tensors, and which of them collect gradients.
#[derive(Clone, Copy)]
pub(super) struct TensorOptions<'a> {
    pub(super) device: &'a Device,
    /// Number of leading values that collect gradients. Must be 0 without autodiff.
    pub(super) tracked: usize,
}

impl TensorOptions<'_> {
    pub(super) fn with_tracked(self, tracked: usize) -> Self {
        Self { tracked, ..self }
    }

    pub(super) fn tensor<const D: usize>(self, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let is_tracked = self.tracked >= values.len().max(1);
        let tensor = Tensor::from_data(TensorData::new(values, shape), self.device);
        if is_tracked { tensor.require_grad() } else { tensor }
    }
}

/// A layer y = x W^T + b.
#[derive(Clone)]
pub(super) struct Linear {
    /// `[out, in]`
    pub(super) weight: Tensor<2>,
    /// `[out]`
    pub(super) bias: Tensor<1>,
}

impl Linear {
    /// Maps `[..., in]` to `[..., out]` with a single matrix product. One product per image would create one gradient
    /// of the weight per image and add them up.
    pub(super) fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mut dims = x.dims();
        let rows = dims.iter().take(D - 1).product::<usize>();
        let [outputs, inputs] = self.weight.dims();
        let y = module::linear(x.reshape([rows, inputs]), self.weight.clone().transpose(), Some(self.bias.clone()));
        dims[D - 1] = outputs;
        y.reshape(dims)
    }
}

/// Creates tensors from a flat vector, parameter by parameter of the layout.
pub(super) struct ParamReader<'a> {
    params: std::slice::Iter<'a, Param>,
    weights: &'a [f32],
    options: TensorOptions<'a>,
    /// The tensors that collect gradients, in order.
    pub(super) leaves: Vec<Leaf>,
}

impl<'a> ParamReader<'a> {
    pub(super) fn new(params: &'a [Param], weights: &'a [f32], options: TensorOptions<'a>) -> Self {
        Self { params: params.iter(), weights, options, leaves: Vec::new() }
    }

    pub(super) fn next_range(&mut self) -> Range<usize> {
        // Always there: the same config defines the layout and the calls of this reader.
        self.params.next().map_or(0..0, |param| param.range.clone())
    }

    pub(super) fn vector_at(&mut self, range: Range<usize>) -> Tensor<1> {
        let shape = [range.len()];
        self.tensor(range, shape, Leaf::Rank1)
    }

    /// Reads `range` as a matrix with `rows` rows.
    pub(super) fn matrix_at(&mut self, range: Range<usize>, rows: usize) -> Tensor<2> {
        let shape = [rows, range.len() / rows];
        self.tensor(range, shape, Leaf::Rank2)
    }

    pub(super) fn vector(&mut self) -> Tensor<1> {
        let range = self.next_range();
        self.vector_at(range)
    }

    pub(super) fn matrix(&mut self, rows: usize) -> Tensor<2> {
        let range = self.next_range();
        self.matrix_at(range, rows)
    }

    pub(super) fn filters(&mut self, shape: [usize; 4]) -> Tensor<4> {
        let range = self.next_range();
        self.tensor(range, shape, Leaf::Rank4)
    }

    pub(super) fn linear(&mut self, out: usize) -> Linear {
        Linear { weight: self.matrix(out), bias: self.vector() }
    }

    fn tensor<const D: usize>(
        &mut self,
        range: Range<usize>,
        shape: [usize; D],
        leaf: fn(Tensor<D>) -> Leaf,
    ) -> Tensor<D> {
        let is_tracked = range.end <= self.options.tracked;
        let options = self.options.with_tracked(if is_tracked { usize::MAX } else { 0 });
        let tensor = options.tensor(self.weights[range].to_vec(), shape);
        if is_tracked {
            self.leaves.push(leaf(tensor.clone()));
        }
        tensor
    }
}
