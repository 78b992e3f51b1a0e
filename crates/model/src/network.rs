//! Any network by its architecture: what a federation trains.

use burn::tensor::Device;
use unmask_core::{Architecture, ModelState, ParamLayout};

use crate::{Evaluation, LocalTraining, ModelError, Resnet, Step, Vit};

/// Loss and gradient of one batch, and what the batch did to batch norm.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkStep {
    /// Mean cross-entropy over the batch.
    pub loss: f32,
    /// dl/dw, theta of the papers, `[P]`.
    pub gradient: Vec<f32>,
    /// The running statistics moved by this batch, `[Q]`; empty for a ViT.
    pub statistics: Vec<f32>,
}

/// What a client's local epochs gave.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkLocalTraining {
    /// Mean cross-entropy over all samples, each measured in the first epoch just before the step its batch led to.
    pub loss: f32,
    /// Weights (W_n of FLRSP Eqs. 3 and 4) and running statistics after the last step.
    pub state: ModelState,
}

/// A ViT or a ResNet on one device. It holds no weights; every call takes them.
///
/// Images are `f32` in [0, 1], `[batch, 3, side, side]`, and are normalised to (x - 0.5) / 0.5 inside. Every function
/// refuses states and images of another size, empty batches, labels that are no class, and results that are not finite.
#[derive(Debug, Clone)]
pub struct Network(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Vit(Vit),
    Resnet(Resnet),
}

impl Network {
    /// The network of `architecture` that computes on `device`.
    ///
    /// # Errors
    /// If it has no classes, or images without pixels.
    pub fn new(architecture: Architecture, device: &Device) -> Result<Self, ModelError> {
        Ok(Self(match architecture {
            Architecture::Vit(spec) => Kind::Vit(Vit::new(spec, device)?),
            Architecture::Resnet(spec) => Kind::Resnet(Resnet::new(spec, device)?),
        }))
    }

    /// What the network was built from.
    pub fn architecture(&self) -> Architecture {
        match &self.0 {
            Kind::Vit(vit) => Architecture::Vit(vit.spec()),
            Kind::Resnet(resnet) => Architecture::Resnet(resnet.spec()),
        }
    }

    /// The order of the flat weights and gradients, `[P]`.
    pub fn layout(&self) -> &ParamLayout {
        match &self.0 {
            Kind::Vit(vit) => vit.layout(),
            Kind::Resnet(resnet) => resnet.layout(),
        }
    }

    /// The Vision Transformer, if it is one.
    pub fn as_vit(&self) -> Option<&Vit> {
        match &self.0 {
            Kind::Vit(vit) => Some(vit),
            Kind::Resnet(_) => None,
        }
    }

    /// The residual network, if it is one.
    pub fn as_resnet(&self) -> Option<&Resnet> {
        match &self.0 {
            Kind::Vit(_) => None,
            Kind::Resnet(resnet) => Some(resnet),
        }
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, its gradient, and the running
    /// statistics after the batch. Batch norm uses the batch's own moments (PyTorch's training mode).
    pub async fn loss_and_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<NetworkStep, ModelError> {
        match &self.0 {
            Kind::Vit(vit) => {
                no_statistics(state)?;
                let Step { loss, gradient } = vit.loss_and_gradient(&state.weights, images, labels).await?;
                Ok(NetworkStep { loss, gradient, statistics: Vec::new() })
            }
            Kind::Resnet(resnet) => resnet.loss_and_gradient(state, images, labels).await,
        }
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient where batch norm
    /// uses the running statistics (PyTorch's evaluation mode). Without batch norm the two modes are one.
    pub async fn evaluation_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        match &self.0 {
            Kind::Vit(vit) => {
                no_statistics(state)?;
                vit.loss_and_gradient(&state.weights, images, labels).await
            }
            Kind::Resnet(resnet) => resnet.evaluation_gradient(state, images, labels).await,
        }
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`, in evaluation mode.
    pub async fn evaluate(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        match &self.0 {
            Kind::Vit(vit) => {
                no_statistics(state)?;
                vit.evaluate(&state.weights, images, labels).await
            }
            Kind::Resnet(resnet) => resnet.evaluate(state, images, labels).await,
        }
    }

    /// The local epochs of FedAvg, as [`Vit::train_locally`]; batch norm's running statistics move with every batch.
    ///
    /// # Errors
    /// Besides those of a [step](Network::loss_and_gradient): a batch of 0, 0 epochs, or a rate that is not a finite
    /// number above 0.
    pub async fn train_locally(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        batch: usize,
        epochs: u16,
        rate: f32,
    ) -> Result<NetworkLocalTraining, ModelError> {
        match &self.0 {
            Kind::Vit(vit) => {
                no_statistics(state)?;
                let trained = vit.train_locally(&state.weights, images, labels, batch, epochs, rate).await?;
                let LocalTraining { loss, weights } = trained;
                Ok(NetworkLocalTraining { loss, state: ModelState { weights, statistics: Vec::new() } })
            }
            Kind::Resnet(resnet) => resnet.train_locally(state, images, labels, batch, epochs, rate).await,
        }
    }
}

fn no_statistics(state: &ModelState) -> Result<(), ModelError> {
    match state.statistics.len() {
        0 => Ok(()),
        given => Err(ModelError::StatisticsCount { given, expected: 0 }),
    }
}

/// The same, waiting for the device on the current thread.
#[cfg(not(target_family = "wasm"))]
impl Network {
    /// [`Network::loss_and_gradient`], waiting on the current thread.
    pub fn loss_and_gradient_blocking(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<NetworkStep, ModelError> {
        crate::blocking::block_on(self.loss_and_gradient(state, images, labels))
    }

    /// [`Network::evaluation_gradient`], waiting on the current thread.
    pub fn evaluation_gradient_blocking(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        crate::blocking::block_on(self.evaluation_gradient(state, images, labels))
    }

    /// [`Network::evaluate`], waiting on the current thread.
    pub fn evaluate_blocking(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        crate::blocking::block_on(self.evaluate(state, images, labels))
    }

    /// [`Network::train_locally`], waiting on the current thread.
    pub fn train_locally_blocking(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        batch: usize,
        epochs: u16,
        rate: f32,
    ) -> Result<NetworkLocalTraining, ModelError> {
        crate::blocking::block_on(self.train_locally(state, images, labels, batch, epochs, rate))
    }
}
