//! A Vision Transformer as its callers see it: flat slices in, flat vectors out.

use std::ops::{Div, Sub};

use burn::tensor::{DType, Device, Element, Tensor, TensorData};
use unmask_core::{Architecture, ModelSpec, ParamLayout, VitConfig};

use crate::{
    ModelError,
    border::{Border, cross_entropy},
    forward::{Gelu, Parameters},
    leaves::{Leaf, Placement},
    patches::{image_gradient, normalised_patches},
};

/// Loss and gradient of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Mean cross-entropy over the batch.
    pub loss: f32,
    /// dl/dw, theta of the papers, in the order of the model's [`ParamLayout`].
    pub gradient: Vec<f32>,
}

/// Loss of one batch, and which way its pixels raise it.
#[derive(Debug, Clone, PartialEq)]
pub struct InputGradient {
    /// Mean cross-entropy over the batch.
    pub loss: f32,
    /// dl/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1].
    pub images: Vec<f32>,
}

/// What the model says about a batch, without a gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Mean cross-entropy over the batch.
    pub loss: f32,
    /// How many images have their largest logit at their label.
    pub correct: usize,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

/// A Vision Transformer on one device: timm's pre-LN ViT, with or without the April block.
///
/// It holds no weights; every call takes them as one flat vector in the order of [`Vit::layout`]. Images are `f32` in
/// [0, 1], `[batch, 3, side, side]`, and are normalised to (x - 0.5) / 0.5 here. Every function refuses sizes that do
/// not fit, empty batches, labels that are no class, and results that are not finite.
#[derive(Debug, Clone)]
pub struct Vit {
    spec: ModelSpec,
    config: VitConfig,
    pub(crate) border: Border,
    pub(crate) gelu: Gelu,
}

impl Vit {
    /// A model of `spec` that computes on `device`.
    ///
    /// # Errors
    /// If the spec has no classes.
    pub fn new(spec: ModelSpec, device: &Device) -> Result<Self, ModelError> {
        let border = Border::new(Architecture::Vit(spec), device)?;
        let gelu = if *device == Device::flex() { Gelu::Fused } else { Gelu::Composed };
        Ok(Self { spec, config: spec.config(), border, gelu })
    }

    /// What the model was built from.
    pub fn spec(&self) -> ModelSpec {
        self.spec
    }

    /// Its sizes.
    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// The order of the flat vectors.
    pub fn layout(&self) -> &ParamLayout {
        &self.border.layout
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient.
    pub async fn loss_and_gradient(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.border.check(weights, images, labels.len())?;
        let targets = self.border.one_hot(labels, DType::F32)?;
        let device = self.border.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: true };
        let parameters = Parameters::new(&self.config, self.layout(), weights, placement);
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, labels.len(), &device));
        let loss = cross_entropy(logits, targets);
        self.border.step(self.border.backward(loss, parameters.leaves(), Vec::new()).await?)
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient with respect to
    /// the images.
    pub async fn input_gradient(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<InputGradient, ModelError> {
        self.border.check(weights, images, labels.len())?;
        let targets = self.border.one_hot(labels, DType::F32)?;
        let device = self.border.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: false };
        let parameters = Parameters::new(&self.config, self.layout(), weights, placement);
        let patches = self.placed_patches(images, labels.len(), Placement { tracked: true, ..placement });
        let logits = parameters.logits(&self.config, self.gelu, patches.clone());
        let loss = cross_entropy(logits, targets);
        let leaves = [Leaf::Patches(patches)];
        let mut read = self.border.backward(loss, leaves.iter(), Vec::new()).await?.into_iter();
        let loss = self.border.finite_loss(read.next())?;
        let images = self.finite_image_gradient(read.next())?;
        Ok(InputGradient { loss, images: images.iter().map(|&value| value as f32).collect() })
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`.
    pub async fn evaluate(&self, weights: &[f32], images: &[f32], labels: &[usize]) -> Result<Evaluation, ModelError> {
        self.border.check(weights, images, labels.len())?;
        let parameters = Parameters::new(&self.config, self.layout(), weights, self.untracked());
        let patches = self.patches(images, labels.len(), &self.border.device);
        self.border.evaluation(parameters.logits(&self.config, self.gelu, patches), labels).await
    }

    /// Logits `[batch, classes]`, row-major, of `images` `[batch, 3, side, side]`.
    pub async fn logits(&self, weights: &[f32], images: &[f32], batch: usize) -> Result<Vec<f32>, ModelError> {
        self.border.check(weights, images, batch)?;
        let parameters = Parameters::new(&self.config, self.layout(), weights, self.untracked());
        let patches = self.patches(images, batch, &self.border.device);
        let logits = parameters.logits(&self.config, self.gelu, patches);
        let read = logits.into_data_async().await.map_err(|error| self.border.device_error(error))?;
        self.border.finite_logits(Some(read))
    }

    fn untracked(&self) -> Placement<'_> {
        Placement { device: &self.border.device, dtype: DType::F32, tracked: false }
    }

    fn patches(&self, images: &[f32], batch: usize, device: &Device) -> Tensor<3> {
        self.placed_patches(images, batch, Placement { device, dtype: DType::F32, tracked: false })
    }

    pub(crate) fn placed_patches<W>(&self, images: &[W], batch: usize, placement: Placement<'_>) -> Tensor<3>
    where
        W: Element + From<f32> + Sub<Output = W> + Div<Output = W>,
    {
        let shape = [batch, self.config.patches(), self.config.patch_len()];
        placement.leaf(normalised_patches(&self.config, images), shape)
    }

    /// dl/d(images) of the dl/d(patches) that was read.
    pub(crate) fn finite_image_gradient(&self, read: Option<TensorData>) -> Result<Vec<f64>, ModelError> {
        let data = read.ok_or_else(|| self.border.device_error("no gradient of the images came back"))?;
        self.border.finite_images(image_gradient(&self.config, &self.border.to_f64(&data)?))
    }
}

/// The same, waiting for the device on the current thread.
#[cfg(not(target_family = "wasm"))]
impl Vit {
    /// [`Vit::loss_and_gradient`], waiting on the current thread.
    pub fn loss_and_gradient_blocking(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        crate::blocking::block_on(self.loss_and_gradient(weights, images, labels))
    }

    /// [`Vit::input_gradient`], waiting on the current thread.
    pub fn input_gradient_blocking(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<InputGradient, ModelError> {
        crate::blocking::block_on(self.input_gradient(weights, images, labels))
    }

    /// [`Vit::evaluate`], waiting on the current thread.
    pub fn evaluate_blocking(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        crate::blocking::block_on(self.evaluate(weights, images, labels))
    }

    /// [`Vit::logits`], waiting on the current thread.
    pub fn logits_blocking(&self, weights: &[f32], images: &[f32], batch: usize) -> Result<Vec<f32>, ModelError> {
        crate::blocking::block_on(self.logits(weights, images, batch))
    }
}
