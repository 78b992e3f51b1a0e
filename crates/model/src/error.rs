//! What can be wrong with a step.

use unmask_core::{Architecture, StatisticsError};

/// Why a model could not be built or a step not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A head without classes.
    #[error("{architecture} with {} classes is no model; choose at least one class", architecture.classes())]
    NoClasses {
        /// What was asked for.
        architecture: Architecture,
    },
    /// The images have no pixels.
    #[error("{architecture} for images of {0} x {0} pixels is no model; choose a side of at least one", architecture.side())]
    NoPixels {
        /// What was asked for.
        architecture: Architecture,
    },
    /// The flat weight vector is of another model.
    #[error("weights have {given} values, the layout of the model has {expected}; use weights of the same model")]
    WeightCount {
        /// Values given.
        given: usize,
        /// Values of the model's layout.
        expected: usize,
    },
    /// The running statistics are none of the network's.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// Batch norm that would turn every channel into zero.
    #[error(
        "batch norm sees one value a channel in a batch of {batch} of {side} x {side} pixels, which has no variance; use a \
         larger batch or larger images"
    )]
    SingleValue {
        /// Images in the batch.
        batch: usize,
        /// Image side in pixels.
        side: usize,
    },
    /// The images do not fill the batch.
    #[error(
        "images have {given} values, {batch} of 3 x {side} x {side} have {expected}; resize them to the model's side"
    )]
    ImageCount {
        /// Values given.
        given: usize,
        /// Values that the batch needs.
        expected: usize,
        /// Images in the batch, one for each label.
        batch: usize,
        /// Image side of the model in pixels.
        side: usize,
    },
    /// There is nothing to train on.
    #[error("the batch is empty; give at least one image")]
    EmptyBatch,
    /// A label is no class of the model.
    #[error("label {label} of image {image} is out of range; the model has classes 0 to {}", classes - 1)]
    Label {
        /// Position of the image in the batch.
        image: usize,
        /// The label given.
        label: usize,
        /// Number of classes of the model.
        classes: usize,
    },
    /// Local training in batches of nothing.
    #[error("local training in batches of 0 images takes no step; choose a batch of at least 1")]
    NoLocalBatch,
    /// Local training that trains nothing.
    #[error("local training over 0 epochs trains nothing; choose at least 1")]
    NoLocalEpochs,
    /// A learning rate that no step can use.
    #[error("{rate} is no local learning rate; choose a finite number above 0, such as 0.1")]
    LocalRate {
        /// The rate given.
        rate: f32,
    },
    /// f64 on a device that has none.
    #[error("the device {device} computes in f32 only; choose f32, or the CPU")]
    NoF64 {
        /// The device.
        device: String,
    },
    /// A scope that ends at a block which the network has not.
    #[error("{architecture} has no transformer block; differentiate all its weights, or choose a ViT")]
    NoFirstBlock {
        /// The network.
        architecture: Architecture,
    },
    /// A shift of the weights that has another length than they.
    #[error(
        "the shift has {given} values, the weights it goes to have {expected}; shift by a vector of the same layout"
    )]
    ShiftCount {
        /// Values given.
        given: usize,
        /// Values of the weights in scope.
        expected: usize,
    },
    /// A result is NaN or infinite.
    #[error("{what} holds {value}; lower the learning rate, or check weights and images for NaN and infinity")]
    NonFinite {
        /// `loss`, `logits`, the gradient of a parameter by timm's name, or the weights after local training.
        what: String,
        /// The first such value.
        value: f32,
    },
    /// The device failed.
    #[error("the device {device} failed: {reason}; choose another device")]
    Device {
        /// The device.
        device: String,
        /// What it reported.
        reason: String,
    },
}
