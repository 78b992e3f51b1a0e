//! The border every network shares: what goes in is checked, what comes out is read and checked.

use burn::tensor::{DType, Device, Tensor, TensorData, Transaction, activation::log_softmax};
use unmask_core::{Architecture, ParamLayout, VitConfig};

use crate::{Evaluation, ModelError, Step, leaves::Leaf};

/// The sizes of one network, and the device it computes on.
#[derive(Debug, Clone)]
pub(crate) struct Border {
    /// Of the flat weights and gradients.
    pub(crate) layout: ParamLayout,
    pub(crate) classes: usize,
    /// Image side in pixels.
    pub(crate) side: usize,
    /// Without autodiff.
    pub(crate) device: Device,
}

impl Border {
    /// The border of `architecture` on `device`.
    ///
    /// # Errors
    /// If it has no classes, or its images have no pixels.
    pub(crate) fn new(architecture: Architecture, device: &Device) -> Result<Self, ModelError> {
        let (classes, side) = (architecture.classes(), architecture.side());
        if classes == 0 {
            return Err(ModelError::NoClasses { architecture });
        }
        if side == 0 {
            return Err(ModelError::NoPixels { architecture });
        }
        Ok(Self { layout: architecture.layout(), classes, side, device: device.clone().without_autodiff() })
    }

    /// Values of one image.
    pub(crate) fn image_len(&self) -> usize {
        VitConfig::CHANNELS * self.side * self.side
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
        // Saturation keeps an absurd batch from wrapping around to a size that fits.
        let expected = self.image_len().saturating_mul(batch);
        if images.len() != expected {
            return Err(ModelError::ImageCount { given: images.len(), expected, batch, side: self.side });
        }
        Ok(())
    }

    /// `[batch, classes]`: one at the label, zero elsewhere.
    pub(crate) fn one_hot(&self, labels: &[usize], dtype: DType) -> Result<Tensor<2>, ModelError> {
        let classes = self.classes;
        let mut targets = vec![0.0f32; labels.len() * classes];
        for (image, (row, &label)) in targets.chunks_exact_mut(classes).zip(labels).enumerate() {
            *row.get_mut(label).ok_or(ModelError::Label { image, label, classes })? = 1.0;
        }
        Ok(Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), (&self.device, dtype)))
    }

    /// Runs `loss` backwards, then reads it, after it the gradients of `leaves`, and last the vectors of `besides`.
    pub(crate) async fn backward<'a>(
        &self,
        loss: Tensor<1>,
        leaves: impl Iterator<Item = &'a Leaf>,
        besides: Vec<Tensor<1>>,
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
                Leaf::Filters(leaf) => match leaf.grad_remove(&mut gradients) {
                    Some(gradient) => transaction.register(gradient),
                    None => transaction,
                },
            };
        }
        for tensor in besides {
            transaction = transaction.register(tensor);
        }
        transaction.execute_async().await.map_err(|error| self.device_error(error))
    }

    /// The loss and the flat gradient of what [`Border::backward`] read.
    pub(crate) fn step(&self, read: Vec<TensorData>) -> Result<Step, ModelError> {
        let mut read = read.into_iter();
        let loss = self.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.layout.len());
        for data in read {
            gradient.extend_from_slice(data.as_slice::<f32>().map_err(|error| self.device_error(error))?);
        }
        self.check_gradient(&gradient, self.layout.len())?;
        Ok(Step { loss, gradient })
    }

    /// Loss, hits and logits of a batch, whose `logits` are on the device.
    pub(crate) async fn evaluation(&self, logits: Tensor<2>, labels: &[usize]) -> Result<Evaluation, ModelError> {
        let loss = cross_entropy(logits.clone(), self.one_hot(labels, DType::F32)?);
        let transaction = Transaction::default().register(loss).register(logits);
        let mut read = transaction.execute_async().await.map_err(|error| self.device_error(error))?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let logits = self.finite_logits(read.next())?;
        let correct = logits
            .chunks_exact(self.classes)
            .zip(labels)
            .filter(|(row, label)| row.iter().all(|logit| *logit <= row[**label]))
            .count();
        Ok(Evaluation { loss, correct, logits })
    }

    pub(crate) fn device_error(&self, reason: impl ToString) -> ModelError {
        ModelError::Device { device: format!("{:?}", self.device), reason: reason.to_string() }
    }

    pub(crate) fn finite_loss(&self, read: Option<TensorData>) -> Result<f32, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no loss came back"))?;
        let loss = self.to_f64(&data)?.first().copied().ok_or_else(|| self.device_error("no loss came back"))? as f32;
        if loss.is_finite() { Ok(loss) } else { Err(ModelError::NonFinite { what: "loss".into(), value: loss }) }
    }

    pub(crate) fn finite_logits(&self, read: Option<TensorData>) -> Result<Vec<f32>, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no values came back"))?;
        let values = data.try_into_vec::<f32>().map_err(|error| self.device_error(format!("{error:?}")))?;
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

    /// Refuses a gradient of the images that is not finite.
    pub(crate) fn finite_images(&self, gradient: Vec<f64>) -> Result<Vec<f64>, ModelError> {
        match gradient.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "gradient of the images".into(), value: value as f32 }),
            None => Ok(gradient),
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
}

/// Mean over the batch of -log softmax(logits) at the target.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let [batch, _] = targets.dims();
    let targets = if logits.is_autodiff() { targets.autodiff() } else { targets };
    (log_softmax(logits, 1) * targets).sum().mul_scalar(-1.0 / batch as f64)
}
