//! Tensors on the device: where they are made, and how they are cut from the flat weights.

use std::ops::{Div, Range, Sub};

use burn::tensor::{DType, Device, Element, Gradients, Tensor, TensorData, Transaction};
use unmask_core::Param;

use crate::layers::linear;

/// A number type that a network computes in: `f32` or `f64`.
pub(crate) trait Float: Element + From<f32> + Sub<Output = Self> + Div<Output = Self> {}

impl<T: Element + From<f32> + Sub<Output = T> + Div<Output = T>> Float for T {}

/// An image's value in [0, 1] as every network takes it.
pub(crate) fn normalised<T: Float>(x: T) -> T {
    let half = T::from(0.5);
    (x - half) / half
}

/// dl/dx by dl/d([`normalised`] x).
pub(crate) fn image_slope(slope: f64) -> f64 {
    slope / 0.5
}

/// A tensor whose gradient is asked for: the images, or one piece of the flat vector.
#[derive(Clone)]
pub(crate) enum Leaf {
    Rank1(Tensor<1>),
    Rank2(Tensor<2>),
    /// Images as a ViT takes them, `[batch, S, L]`.
    Rank3(Tensor<3>),
    /// Filters `[out, in, height, width]`, or images as a ResNet takes them, `[batch, 3, side, side]`.
    Rank4(Tensor<4>),
}

impl Leaf {
    /// Has its gradient read with `transaction`. Without a gradient nothing is read, and the caller finds too few values.
    pub(crate) fn register(&self, gradients: &mut Gradients, transaction: Transaction) -> Transaction {
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

/// Where tensors are made, of what type, and whether their gradients are gathered.
#[derive(Clone, Copy)]
pub(crate) struct TensorOptions<'a> {
    pub(crate) device: &'a Device,
    pub(crate) dtype: DType,
    /// On an autodiff device only.
    pub(crate) requires_grad: bool,
}

impl TensorOptions<'_> {
    pub(crate) fn requires_grad(self, requires_grad: bool) -> Self {
        Self { requires_grad, ..self }
    }

    pub(crate) fn tensor<W: Element, const D: usize>(self, values: Vec<W>, shape: [usize; D]) -> Tensor<D> {
        let tensor = Tensor::from_data(TensorData::new(values, shape), (self.device, self.dtype));
        if self.requires_grad { tensor.require_grad() } else { tensor }
    }
}

/// A layer y = x W^T + b.
#[derive(Clone)]
pub(crate) struct Linear {
    /// `[out, in]`
    pub(crate) weight: Tensor<2>,
    /// `[out]`
    pub(crate) bias: Tensor<1>,
}

impl Linear {
    /// `[..., in]` to `[..., out]`. As one product of two matrices: a product for each image would make a gradient of the
    /// weight for each, and add them up.
    pub(crate) fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mut dims = x.dims();
        let rows = dims.iter().take(D - 1).product::<usize>();
        let [outputs, inputs] = self.weight.dims();
        let y = linear(x.reshape([rows, inputs]), self.weight.clone(), self.bias.clone());
        dims[D - 1] = outputs;
        y.reshape(dims)
    }
}

/// Makes tensors of a flat vector, one parameter of the layout after the other.
pub(crate) struct ParamReader<'a, W> {
    params: std::slice::Iter<'a, Param>,
    /// Those from `offset` on.
    weights: &'a [W],
    offset: usize,
    options: TensorOptions<'a>,
    /// Those that gather gradients, in order.
    pub(crate) leaves: Vec<Leaf>,
}

impl<'a, W: Element> ParamReader<'a, W> {
    /// Reads `params` from `weights`, the values of a flat vector from the first of these parameters on.
    pub(crate) fn new(params: &'a [Param], weights: &'a [W], options: TensorOptions<'a>) -> Self {
        let offset = params.first().map_or(0, |param| param.range.start);
        Self { params: params.iter(), weights, offset, options, leaves: Vec::new() }
    }

    pub(crate) fn next_range(&mut self) -> Range<usize> {
        // The layout and this reader are both driven by the same config.
        self.params.next().map_or(0..0, |param| param.range.start - self.offset..param.range.end - self.offset)
    }

    pub(crate) fn vector_at(&mut self, range: Range<usize>) -> Tensor<1> {
        let shape = [range.len()];
        self.tensor(range, shape, Leaf::Rank1)
    }

    /// `rows` times as many columns as fill `range`.
    pub(crate) fn matrix_at(&mut self, range: Range<usize>, rows: usize) -> Tensor<2> {
        let shape = [rows, range.len() / rows];
        self.tensor(range, shape, Leaf::Rank2)
    }

    /// The next parameter, one row after the other.
    pub(crate) fn vector(&mut self) -> Tensor<1> {
        let range = self.next_range();
        self.vector_at(range)
    }

    /// The next parameter as `rows` rows.
    pub(crate) fn matrix(&mut self, rows: usize) -> Tensor<2> {
        let range = self.next_range();
        self.matrix_at(range, rows)
    }

    /// The next parameter as the filters of a convolution.
    pub(crate) fn filters(&mut self, shape: [usize; 4]) -> Tensor<4> {
        let range = self.next_range();
        self.tensor(range, shape, Leaf::Rank4)
    }

    /// The next two parameters as a layer with `out` outputs.
    pub(crate) fn linear(&mut self, out: usize) -> Linear {
        Linear { weight: self.matrix(out), bias: self.vector() }
    }

    fn tensor<const D: usize>(
        &mut self,
        range: Range<usize>,
        shape: [usize; D],
        leaf: fn(Tensor<D>) -> Leaf,
    ) -> Tensor<D> {
        let tensor = self.options.tensor(self.weights[range].to_vec(), shape);
        if self.options.requires_grad {
            self.leaves.push(leaf(tensor.clone()));
        }
        tensor
    }
}
