//! Tensors on the device: where they are made, and how they are cut from the flat weights.

use std::ops::Range;

use burn::tensor::{Device, Gradients, Tensor, TensorData, Transaction, module};
use unmask_core::Param;

/// An image's value in [0, 1] as every network takes it.
pub(super) fn normalised(x: f32) -> f32 {
    (x - 0.5) / 0.5
}

/// dl/dx by dl/d([`normalised`] x).
pub(super) fn image_slope(slope: f32) -> f32 {
    slope / 0.5
}

/// A tensor whose gradient is asked for: the images, or one piece of the flat vector.
#[derive(Clone)]
pub(super) enum Leaf {
    Rank1(Tensor<1>),
    Rank2(Tensor<2>),
    /// Images as a ViT takes them, `[batch, S, L]`.
    Rank3(Tensor<3>),
    /// Filters `[out, in, height, width]`, or images as a ResNet takes them, `[batch, 3, side, side]`.
    Rank4(Tensor<4>),
}

impl Leaf {
    /// Has its gradient read with `transaction`. Without a gradient nothing is read, and the caller finds too few values.
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

/// Where tensors are made, and whose gradients are gathered.
#[derive(Clone, Copy)]
pub(super) struct TensorOptions<'a> {
    pub(super) device: &'a Device,
    /// Those of so many of the first values; more than none on an autodiff device only.
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
    /// `[..., in]` to `[..., out]`. As one product of two matrices: a product for each image would make a gradient of the
    /// weight for each, and add them up.
    pub(super) fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mut dims = x.dims();
        let rows = dims.iter().take(D - 1).product::<usize>();
        let [outputs, inputs] = self.weight.dims();
        let y = module::linear(x.reshape([rows, inputs]), self.weight.clone().transpose(), Some(self.bias.clone()));
        dims[D - 1] = outputs;
        y.reshape(dims)
    }
}

/// Makes tensors of a flat vector, one parameter of the layout after the other.
pub(super) struct ParamReader<'a> {
    params: std::slice::Iter<'a, Param>,
    weights: &'a [f32],
    options: TensorOptions<'a>,
    /// Those that gather gradients, in order.
    pub(super) leaves: Vec<Leaf>,
}

impl<'a> ParamReader<'a> {
    /// Reads `params` from `weights`.
    pub(super) fn new(params: &'a [Param], weights: &'a [f32], options: TensorOptions<'a>) -> Self {
        Self { params: params.iter(), weights, options, leaves: Vec::new() }
    }

    pub(super) fn next_range(&mut self) -> Range<usize> {
        // The layout and this reader are both driven by the same config.
        self.params.next().map_or(0..0, |param| param.range.clone())
    }

    pub(super) fn vector_at(&mut self, range: Range<usize>) -> Tensor<1> {
        let shape = [range.len()];
        self.tensor(range, shape, Leaf::Rank1)
    }

    /// `rows` times as many columns as fill `range`.
    pub(super) fn matrix_at(&mut self, range: Range<usize>, rows: usize) -> Tensor<2> {
        let shape = [rows, range.len() / rows];
        self.tensor(range, shape, Leaf::Rank2)
    }

    /// The next parameter, one row after the other.
    pub(super) fn vector(&mut self) -> Tensor<1> {
        let range = self.next_range();
        self.vector_at(range)
    }

    /// The next parameter as `rows` rows.
    pub(super) fn matrix(&mut self, rows: usize) -> Tensor<2> {
        let range = self.next_range();
        self.matrix_at(range, rows)
    }

    /// The next parameter as the filters of a convolution.
    pub(super) fn filters(&mut self, shape: [usize; 4]) -> Tensor<4> {
        let range = self.next_range();
        self.tensor(range, shape, Leaf::Rank4)
    }

    /// The next two parameters as a layer with `out` outputs.
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
