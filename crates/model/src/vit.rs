//! The model as its callers see it: flat slices in, flat vectors out.

use burn::tensor::{Device, Tensor, TensorData, Transaction, activation::log_softmax};
use unmask_params::{ModelSpec, ParamLayout, VitConfig};

use crate::{
    ModelError,
    forward::{Gelu, Leaf, Parameters},
    patches::normalised_patches,
};

/// Loss and gradient of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Mean cross-entropy over the batch.
    pub loss: f32,
    /// dl/dw, theta of the papers, in the order of the model's [`ParamLayout`].
    pub gradient: Vec<f32>,
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
    device: Device,
    gelu: Gelu,
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
        let targets = self.one_hot(labels)?;
        let device = self.device.clone().autodiff();
        let parameters = Parameters::new(&self.config, &self.layout, weights, &device);
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, labels.len(), &device));
        let loss = cross_entropy(logits, targets);
        let mut gradients = loss.backward();

        // One transaction is one wait for the device, which is what a step on WebGPU spends most of its time on.
        let mut transaction = Transaction::default().register(loss.without_autodiff());
        for leaf in &parameters.leaves {
            // Every leaf takes part in the loss; one without a gradient would leave the vector short, which is
            // found below.
            transaction = match leaf {
                Leaf::Vector(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
                Leaf::Matrix(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
            };
        }
        let mut read = transaction.execute_async().await.map_err(|error| self.device_error(error))?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.layout.len());
        for data in read {
            gradient.extend_from_slice(data.as_slice::<f32>().map_err(|error| self.device_error(error))?);
        }
        if gradient.len() != self.layout.len() {
            let reason = format!("gradient has {} values, layout has {}", gradient.len(), self.layout.len());
            return Err(self.device_error(reason));
        }
        self.finite_gradient(&gradient)?;
        Ok(Step { loss, gradient })
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`.
    pub async fn evaluate(&self, weights: &[f32], images: &[f32], labels: &[usize]) -> Result<Evaluation, ModelError> {
        self.check(weights, images, labels.len())?;
        let targets = self.one_hot(labels)?;
        let parameters = Parameters::new(&self.config, &self.layout, weights, &self.device);
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
        let parameters = Parameters::new(&self.config, &self.layout, weights, &self.device);
        let logits = parameters.logits(&self.config, self.gelu, self.patches(images, batch, &self.device));
        let read = logits.into_data_async().await.map_err(|error| self.device_error(error))?;
        self.finite_logits(Some(read))
    }

    pub(crate) fn check(&self, weights: &[f32], images: &[f32], batch: usize) -> Result<(), ModelError> {
        if weights.len() != self.layout.len() {
            return Err(ModelError::WeightCount { given: weights.len(), expected: self.layout.len() });
        }
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
    fn one_hot(&self, labels: &[usize]) -> Result<Tensor<2>, ModelError> {
        let classes = self.config.classes;
        let mut targets = vec![0.0f32; labels.len() * classes];
        for (image, (row, &label)) in targets.chunks_exact_mut(classes).zip(labels).enumerate() {
            *row.get_mut(label).ok_or(ModelError::Label { image, label, classes })? = 1.0;
        }
        Ok(Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), &self.device))
    }

    fn patches(&self, images: &[f32], batch: usize, device: &Device) -> Tensor<3> {
        let patches = normalised_patches(&self.config, images);
        Tensor::from_data(TensorData::new(patches, [batch, self.config.patches(), self.config.patch_len()]), device)
    }

    fn device_error(&self, reason: impl ToString) -> ModelError {
        ModelError::Device { device: format!("{:?}", self.device), reason: reason.to_string() }
    }

    fn finite_loss(&self, read: Option<TensorData>) -> Result<f32, ModelError> {
        let values = self.values(read)?;
        let loss = values.first().copied().ok_or_else(|| self.device_error("no loss came back"))?;
        if loss.is_finite() { Ok(loss) } else { Err(ModelError::NonFinite { what: "loss".into(), value: loss }) }
    }

    fn finite_logits(&self, read: Option<TensorData>) -> Result<Vec<f32>, ModelError> {
        let values = self.values(read)?;
        match values.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "logits".into(), value }),
            None => Ok(values),
        }
    }

    fn finite_gradient(&self, gradient: &[f32]) -> Result<(), ModelError> {
        for param in &self.layout {
            if let Some(&value) = gradient[param.range.clone()].iter().find(|value| !value.is_finite()) {
                return Err(ModelError::NonFinite { what: format!("gradient of {}", param.name), value });
            }
        }
        Ok(())
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
fn cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let [batch, _] = targets.dims();
    let targets = if logits.is_autodiff() { targets.autodiff() } else { targets };
    (log_softmax(logits, 1) * targets).sum().mul_scalar(-1.0 / batch as f64)
}
