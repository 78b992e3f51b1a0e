//! The forward pass of any kind of network, on parameters that lie on the device.

use burn::tensor::{Element, Tensor};
use unmask_core::{Architecture, ParamLayout};

use crate::{
    lenet,
    resnet::{self, BatchMoments, Moments},
    tensors::{Float, Leaf, TensorOptions, image_slope},
    vit,
};

/// All parameters of a network on the device.
pub(crate) enum Parameters {
    Vit(Box<vit::Parameters>),
    Resnet(Box<resnet::Parameters>),
    Lenet(Box<lenet::Parameters>),
}

pub(crate) struct Output {
    /// `[batch, classes]`
    pub(crate) logits: Tensor<2>,
    /// The images as the network took them.
    pub(crate) input: Leaf,
    /// Of each batch norm that normalised by its batch, in the order of the flat vector.
    pub(crate) moments: Vec<BatchMoments>,
}

impl Parameters {
    /// From `weights`, a vector of `layout`.
    pub(crate) fn new<W: Element>(
        architecture: Architecture,
        layout: &ParamLayout,
        weights: &[W],
        options: TensorOptions<'_>,
    ) -> Self {
        match architecture {
            Architecture::Vit(config) => Self::Vit(Box::new(vit::Parameters::new(&config, layout, weights, options))),
            Architecture::Resnet(spec) => {
                Self::Resnet(Box::new(resnet::Parameters::new(&spec, layout, weights, options)))
            }
            Architecture::Lenet(config) => {
                Self::Lenet(Box::new(lenet::Parameters::new(&config, layout, weights, options)))
            }
        }
    }

    /// Runs `images` `[batch, 3, side, side]` in [0, 1] through the network. Without batch norm there is no use for `moments`.
    pub(crate) fn forward<T: Float>(
        &self,
        images: &[T],
        batch: usize,
        options: TensorOptions<'_>,
        moments: Moments<'_>,
    ) -> Output {
        match self {
            Self::Vit(vit) => {
                let (logits, input) = vit.logits(images, batch, options);
                Output { logits, input, moments: Vec::new() }
            }
            Self::Resnet(resnet) => {
                let (logits, input, moments) = resnet.logits(images, batch, options, moments);
                Output { logits, input, moments }
            }
            Self::Lenet(lenet) => {
                let (logits, input) = lenet.logits(images, batch, options);
                Output { logits, input, moments: Vec::new() }
            }
        }
    }

    /// Those that gather gradients, in the order of the flat vector.
    pub(crate) fn leaves(&self) -> Vec<&Leaf> {
        match self {
            Self::Vit(vit) => vit.leaves(),
            Self::Resnet(resnet) => resnet.leaves.iter().collect(),
            Self::Lenet(lenet) => lenet.leaves.iter().collect(),
        }
    }
}

/// dl/d(images) of dl/d([`Output::input`]).
pub(crate) fn image_gradient(architecture: Architecture, input: &[f64]) -> Vec<f64> {
    match architecture {
        Architecture::Vit(config) => vit::image_gradient(&config, input),
        Architecture::Resnet(_) | Architecture::Lenet(_) => input.iter().map(|&slope| image_slope(slope)).collect(),
    }
}
