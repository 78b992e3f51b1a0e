//! Loss and backward pass, and what is read back from the device: all of it is checked.

use burn::tensor::{DType, Tensor, TensorData, Transaction, activation::log_softmax};

use crate::{ModelError, Network, error::check_finite, forward::image_gradient, tensors::Leaf};

impl Network {
    /// Mean over the batch of -log softmax(`logits`) at its label.
    pub(crate) fn cross_entropy(
        &self,
        logits: Tensor<2>,
        labels: &[usize],
        dtype: DType,
    ) -> Result<Tensor<1>, ModelError> {
        let targets = self.one_hot(labels, dtype)?;
        let targets = if logits.is_autodiff() { targets.autodiff() } else { targets };
        Ok((log_softmax(logits, 1) * targets).sum().mul_scalar(-1.0 / labels.len() as f64))
    }

    /// `[batch, classes]`: one at the label, zero elsewhere.
    fn one_hot(&self, labels: &[usize], dtype: DType) -> Result<Tensor<2>, ModelError> {
        let classes = self.architecture().classes();
        let mut targets = vec![0.0f32; labels.len() * classes];
        for (image, (row, &label)) in targets.chunks_exact_mut(classes).zip(labels).enumerate() {
            *row.get_mut(label).ok_or(ModelError::Label { image, label, classes })? = 1.0;
        }
        Ok(Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), (self.device(), dtype)))
    }

    /// Runs `loss` backwards, then reads it, after it the gradients of `leaves`, and last the vectors of `besides`.
    pub(crate) async fn backward(
        &self,
        loss: Tensor<1>,
        leaves: &[&Leaf],
        besides: Vec<Tensor<1>>,
    ) -> Result<Vec<TensorData>, ModelError> {
        let mut gradients = loss.backward();
        // One transaction is one wait for the device, which is what a step on WebGPU spends most of its time on.
        let mut transaction = Transaction::default().register(loss.without_autodiff());
        for leaf in leaves {
            transaction = leaf.register(&mut gradients, transaction);
        }
        for tensor in besides {
            transaction = transaction.register(tensor);
        }
        transaction.execute_async().await.map_err(|error| self.device_error(error))
    }

    pub(crate) fn device_error(&self, reason: impl ToString) -> ModelError {
        ModelError::Device { device: format!("{:?}", self.device()), reason: reason.to_string() }
    }

    pub(crate) fn finite_loss(&self, read: Option<TensorData>) -> Result<f32, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no loss came back"))?;
        let loss = self.to_f64(&data)?.first().copied().ok_or_else(|| self.device_error("no loss came back"))? as f32;
        check_finite("loss", &[loss])?;
        Ok(loss)
    }

    pub(crate) fn finite_logits(&self, read: Option<TensorData>) -> Result<Vec<f32>, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no values came back"))?;
        let values = data.try_into_vec::<f32>().map_err(|error| self.device_error(format!("{error:?}")))?;
        check_finite("logits", &values)?;
        Ok(values)
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
        for param in self.layout().iter().take_while(|param| param.range.end <= expected) {
            check_finite(&format!("gradient of {}", param.name), &gradient[param.range.clone()])?;
        }
        Ok(())
    }

    /// dl/d(images) of the dl/d(input) that was read.
    pub(crate) fn finite_image_gradient(&self, read: Option<TensorData>) -> Result<Vec<f64>, ModelError> {
        let data = read.ok_or_else(|| self.device_error("no gradient of the images came back"))?;
        let gradient = image_gradient(self.architecture(), &self.to_f64(&data)?);
        check_finite("gradient of the images", &gradient)?;
        Ok(gradient)
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
