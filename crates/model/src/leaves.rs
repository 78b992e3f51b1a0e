//! Tensors on the device, cut from the flat weights.

use std::ops::Range;

use burn::tensor::{DType, Device, Element, Tensor, TensorData, module};
use unmask_core::Param;

/// Something on the device whose gradient is asked for: the images, or one piece of the flat vector.
pub(crate) enum Leaf {
    Vector(Tensor<1>),
    Matrix(Tensor<2>),
    /// Images as a ViT takes them, `[batch, S, L]`.
    Patches(Tensor<3>),
    /// Filters `[out, in, height, width]`, or images as a ResNet takes them, `[batch, 3, side, side]`.
    Filters(Tensor<4>),
}

/// Where leaves are made, of what type, and whether they gather a gradient.
#[derive(Clone, Copy)]
pub(crate) struct Placement<'a> {
    pub(crate) device: &'a Device,
    pub(crate) dtype: DType,
    /// Only on an autodiff device.
    pub(crate) tracked: bool,
}

impl Placement<'_> {
    /// `values` on the device.
    pub(crate) fn leaf<W: Element, const D: usize>(self, values: Vec<W>, shape: [usize; D]) -> Tensor<D> {
        let leaf = Tensor::from_data(TensorData::new(values, shape), (self.device, self.dtype));
        if self.tracked { leaf.require_grad() } else { leaf }
    }
}

/// A layer y = x W^T + b.
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
        let y = module::linear(x.reshape([rows, inputs]), self.weight.clone().transpose(), Some(self.bias.clone()));
        dims[D - 1] = outputs;
        y.reshape(dims)
    }
}

/// Cuts leaves from the flat vector, one parameter of the layout after the other.
pub(crate) struct Cutter<'a, W> {
    params: std::slice::Iter<'a, Param>,
    /// Those from `offset` on.
    weights: &'a [W],
    offset: usize,
    placement: Placement<'a>,
    /// All that were cut, in order.
    pub(crate) leaves: Vec<Leaf>,
}

impl<'a, W: Element> Cutter<'a, W> {
    /// Cuts `params` from `weights`, the values of a flat vector from the first of these parameters on.
    pub(crate) fn new(params: &'a [Param], weights: &'a [W], placement: Placement<'a>) -> Self {
        let offset = params.first().map_or(0, |param| param.range.start);
        Self { params: params.iter(), weights, offset, placement, leaves: Vec::new() }
    }

    pub(crate) fn next_range(&mut self) -> Range<usize> {
        // The layout and this reader are both driven by the same config.
        self.params.next().map_or(0..0, |param| param.range.start - self.offset..param.range.end - self.offset)
    }

    pub(crate) fn vector_at(&mut self, range: Range<usize>) -> Tensor<1> {
        let shape = [range.len()];
        let leaf = self.leaf(range, shape);
        self.leaves.push(Leaf::Vector(leaf.clone()));
        leaf
    }

    /// `rows` times as many columns as fill `range`.
    pub(crate) fn matrix_at(&mut self, range: Range<usize>, rows: usize) -> Tensor<2> {
        let shape = [rows, range.len() / rows];
        let leaf = self.leaf(range, shape);
        self.leaves.push(Leaf::Matrix(leaf.clone()));
        leaf
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
        let leaf = self.leaf(range, shape);
        self.leaves.push(Leaf::Filters(leaf.clone()));
        leaf
    }

    /// The next two parameters as a layer with `out` outputs.
    pub(crate) fn linear(&mut self, out: usize) -> Linear {
        Linear { weight: self.matrix(out), bias: self.vector() }
    }

    fn leaf<const D: usize>(&self, range: Range<usize>, shape: [usize; D]) -> Tensor<D> {
        self.placement.leaf(self.weights[range].to_vec(), shape)
    }
}
