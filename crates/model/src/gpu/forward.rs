//! The forward pass of any network family, with parameters on the device.

use burn::tensor::Tensor;
use unmask_core::{Architecture, ParamLayout};

use super::{
    lenet,
    resnet::{self, BatchMoments, Moments},
    tensors::{Leaf, TensorOptions, image_slope},
    vit,
};

pub(super) enum Parameters {
    Vit(Box<vit::Parameters>),
    Resnet(Box<resnet::Parameters>),
    Lenet(Box<lenet::Parameters>),
}

pub(super) struct Output {
    /// `[batch, classes]`
    pub(super) logits: Tensor<2>,
    /// The images as passed to the network.
    pub(super) input: Leaf,
    /// One entry per batch norm that normalised by its batch, in the order of the flat vector.
    pub(super) moments: Vec<BatchMoments>,
}

impl Parameters {
    /// Reads the parameters from `weights`, a vector of `layout`.
    pub(super) fn new(
        architecture: Architecture,
        layout: &ParamLayout,
        weights: &[f32],
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

    /// Runs `images` `[batch, 3, side, side]` in [0, 1] through the network. Networks without batch norm ignore
    /// `moments`.
    pub(super) fn forward(
        &self,
        images: &[f32],
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

    /// Returns the parameters that collect gradients, in the order of the flat vector.
    pub(super) fn leaves(&self) -> Vec<&Leaf> {
        match self {
            Self::Vit(vit) => vit.leaves.iter().collect(),
            Self::Resnet(resnet) => resnet.leaves.iter().collect(),
            Self::Lenet(lenet) => lenet.leaves.iter().collect(),
        }
    }
}

/// Converts dl/d([`Output::input`]) to dl/d(images).
pub(super) fn image_gradient(architecture: Architecture, input: &[f32]) -> Vec<f32> {
    match architecture {
        Architecture::Vit(config) => vit::image_gradient(&config, input),
        Architecture::Resnet(_) | Architecture::Lenet(_) => input.iter().map(|&slope| image_slope(slope)).collect(),
    }
}
