//! The model as its callers see it: flat slices in, flat vectors out.

use std::ops::{Div, Sub};

use burn::tensor::{DType, Device, Element, Tensor, TensorData, Transaction, activation::log_softmax};
use unmask_params::{ModelSpec, ParamLayout, VitConfig};

use crate::{
    ModelError,
    forward::{Gelu, Leaf, Parameters, Placement},
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
    layout: ParamLayout,
    pub(crate) device: Device,
    pub(crate) gelu: Gelu,
}

impl Vit {
    /// A model of `spec` that computes on `device`.
    ///
    /// # Errors
    /// If the spec has no classes.
    pub fn new(spec: ModelSpec, device: &Device) -> Result<Self, ModelError> {
        if spec.classes == 0 {
            return Err(ModelError::NoClasses { spec });
        }
        let config = spec.config();
        let gelu = if *device == Device::flex() { Gelu::Fused } else { Gelu::Composed };
        Ok(Self { spec, config, layout: ParamLayout::vit(&config), device: device.clone().without_autodiff(), gelu })
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
        &self.layout
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient.
    pub async fn loss_and_gradient(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.check(weights, images, labels.len())?;
        let targets = self.one_hot(labels, DType::F32)?;
        let device = self.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: true };
        let parameters = Parameters::new(&self.config, &self.layout, weights, placement);
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, labels.len(), &device));
        let loss = cross_entropy(logits, targets);
        let mut read = self.backward(loss, parameters.leaves()).await?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.layout.len());
        for data in read {
            gradient.extend_from_slice(data.as_slice::<f32>().map_err(|error| self.device_error(error))?);
        }
        self.check_gradient(&gradient, self.layout.len())?;
        Ok(Step { loss, gradient })
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient with respect to
    /// the images.
    pub async fn input_gradient(
        &self,
        weights: &[f32],
        images: &[f32],
        labels: &[usize],
    ) -> Result<InputGradient, ModelError> {
        self.check(weights, images, labels.len())?;
        let targets = self.one_hot(labels, DType::F32)?;
        let device = self.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: false };
        let parameters = Parameters::new(&self.config, &self.layout, weights, placement);
        let patches = self.placed_patches(images, labels.len(), Placement { tracked: true, ..placement });
        let logits = parameters.logits(&self.config, self.gelu, patches.clone());
        let loss = cross_entropy(logits, targets);
        let mut read = self.backward(loss, [Leaf::Patches(patches)].iter()).await?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let images = self.finite_image_gradient(read.next())?;
        Ok(InputGradient { loss, images: images.iter().map(|&value| value as f32).collect() })
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`.
    pub async fn evaluate(&self, weights: &[f32], images: &[f32], labels: &[usize]) -> Result<Evaluation, ModelError> {
        self.check(weights, images, labels.len())?;
        let targets = self.one_hot(labels, DType::F32)?;
        let parameters = Parameters::new(&self.config, &self.layout, weights, self.untracked());
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, labels.len(), &self.device));
        let loss = cross_entropy(logits.clone(), targets);
        let transaction = Transaction::default().register(loss).register(logits);
        let mut read = transaction.execute_async().await.map_err(|error| self.device_error(error))?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let logits = self.finite_logits(read.next())?;
        let correct = logits
            .chunks_exact(self.config.classes)
            .zip(labels)
            .filter(|(row, label)| row.iter().all(|logit| *logit <= row[**label]))
            .count();
        Ok(Evaluation { loss, correct, logits })
    }

    /// Logits `[batch, classes]`, row-major, of `images` `[batch, 3, side, side]`.
    pub async fn logits(&self, weights: &[f32], images: &[f32], batch: usize) -> Result<Vec<f32>, ModelError> {
        self.check(weights, images, batch)?;
        let parameters = Parameters::new(&self.config, &self.layout, weights, self.untracked());
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, batch, &self.device));
        let read = logits.into_data_async().await.map_err(|error| self.device_error(error))?;
        self.finite_logits(Some(read))
    }

    pub(crate) fn check<W>(&self, weights: &[f32], images: &[W], batch: usize) -> Result<(), ModelError> {
        if weights.len() != self.layout.len() {
            return Err(ModelError::WeightCount { given: weights.len(), expected: self.layout.len() });
        }
        self.check_images(images, batch)
    }

    pub(crate) fn check_images<W>(&self, images: &[W], batch: usize) -> Result<(), ModelError> {
        if batch == 0 {
            return Err(ModelError::EmptyBatch);
        }
        let side = self.config.image;
        // Saturation keeps an absurd batch from wrapping around to a size that fits.
        let expected = (VitConfig::CHANNELS * side * side).saturating_mul(batch);
        if images.len() != expected {
            return Err(ModelError::ImageCount { given: images.len(), expected, batch, side });
        }
        Ok(())
    }

    /// `[batch, classes]`: one at the label, zero elsewhere.
    pub(crate) fn one_hot(&self, labels: &[usize], dtype: DType) -> Result<Tensor<2>, ModelError> {
        let classes = self.config.classes;
        let mut targets = vec![0.0f32; labels.len() * classes];
        for (image, (row, &label)) in targets.chunks_exact_mut(classes).zip(labels).enumerate() {
            *row.get_mut(label).ok_or(ModelError::Label { image, label, classes })? = 1.0;
        }
        Ok(Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), (&self.device, dtype)))
    }

    /// Runs `loss` backwards, then reads it and after it the gradients of `leaves`.
    pub(crate) async fn backward<'a>(
        &self,
        loss: Tensor<1>,
        leaves: impl Iterator<Item = &'a Leaf>,
    ) -> Result<Vec<TensorData>, ModelError> {
        let mut gradients = loss.backward();
        // One transaction is one wait for the device, which is what a step on WebGPU spends most of its time on.
        let mut transaction = Transaction::default().register(loss.without_autodiff());
        for leaf in leaves {
            // Every leaf takes part in the loss; one without a gradient leaves the vector short, which the caller finds.
            transaction = match leaf {
                Leaf::Vector(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
                Leaf::Matrix(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
                Leaf::Patches(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
            };
        }
        transaction.execute_async().await.map_err(|error| self.device_error(error))
    }

    fn untracked(&self) -> Placement<'_> {
        Placement { device: &self.device, dtype: DType::F32, tracked: false }
    }

    fn patches(&self, images: &[f32], batch: usize, device: &Device) -> Tensor<3> {
        self.placed_patches(images, batch, Placement { device, dtype: DType::F32, tracked: false })
    }

    pub(crate) fn placed_patches<W>(&self, images: &[W], batch: usize, placement: Placement<'_>) -> Tensor<3>
    where
        W: Element + From<f32> + Sub<Output = W> + Div<Output = W>,
    {
        let shape = [batch, self.config.patches(), self.config.patch_len()];
        let data = TensorData::new(normalised_patches(&self.config, images), shape);
        let patches = Tensor::from_data(data, (placement.device, placement.dtype));
        if placement.tracked { patches.require_grad() } else { patches }
    }

    pub(crate) fn device_error(&self, reason: impl ToString) -> ModelError {
        ModelError::Device { device: format!("{:?}", self.device), reason: reason.to_string() }
    }

    pub(crate) fn finite_loss(&self, read: Option<TensorData>) -> Result<f32, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no loss came back"))?;
        let loss = self.to_f64(&data)?.first().copied().ok_or_else(|| self.device_error("no loss came back"))? as f32;
        if loss.is_finite() { Ok(loss) } else { Err(ModelError::NonFinite { what: "loss".into(), value: loss }) }
    }

    fn finite_logits(&self, read: Option<TensorData>) -> Result<Vec<f32>, ModelError> {
        let values = self.values(read)?;
        match values.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "logits".into(), value }),
            None => Ok(values),
        }
    }

    /// Refuses a gradient that has not `expected` values, the first of the layout, or values that are not finite.
    pub(crate) fn check_gradient<W: Copy + Into<f64>>(
        &self,
        gradient: &[W],
        expected: usize,
    ) -> Result<(), ModelError> {
        if gradient.len() != expected {
            let reason = format!("gradient has {} values, layout has {expected}", gradient.len());
            return Err(self.device_error(reason));
        }
        for param in self.layout.iter().take_while(|param| param.range.end <= expected) {
            let mut values = gradient[param.range.clone()].iter().map(|&value| value.into());
            if let Some(value) = values.find(|value| !value.is_finite()) {
                let value = value as f32;
                return Err(ModelError::NonFinite { what: format!("gradient of {}", param.name), value });
            }
        }
        Ok(())
    }

    /// dl/d(images) of the dl/d(patches) that was read.
    pub(crate) fn finite_image_gradient(&self, read: Option<TensorData>) -> Result<Vec<f64>, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no gradient of the images came back"))?;
        let images = image_gradient(&self.config, &self.to_f64(&data)?);
        match images.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "gradient of the images".into(), value: value as f32 }),
            None => Ok(images),
        }
    }

    /// Values of either precision.
    pub(crate) fn to_f64(&self, data: &TensorData) -> Result<Vec<f64>, ModelError> {
        if let Ok(values) = data.as_slice::<f64>() {
            return Ok(values.to_vec());
        }
        let values = data.as_slice::<f32>().map_err(|error| self.device_error(error))?;
        Ok(values.iter().map(|&value| f64::from(value)).collect())
    }

    fn values(&self, read: Option<TensorData>) -> Result<Vec<f32>, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no values came back"))?;
        data.try_into_vec::<f32>().map_err(|error| self.device_error(format!("{error:?}")))
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

/// Mean over the batch of -log softmax(logits) at the target.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let [batch, _] = targets.dims();
    let targets = if logits.is_autodiff() { targets.autodiff() } else { targets };
    (log_softmax(logits, 1) * targets).sum().mul_scalar(-1.0 / batch as f64)
}
