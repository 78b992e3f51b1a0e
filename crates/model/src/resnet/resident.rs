//! One state of a residual network, asked many times for gradients of changing images.

use std::fmt;

use burn::tensor::{DType, Device, Tensor};
use unmask_core::ModelState;

use super::{
    Normalisation, Resnet,
    forward::{Moments, Parameters},
};
use crate::{
    ModelError, Precision,
    border::cross_entropy,
    leaves::{Leaf, Placement},
};

/// A [`Resnet`] with its weights and running statistics, for gradient matching.
pub struct ResidentResnet {
    resnet: Resnet,
    dtype: DType,
    /// With autodiff.
    device: Device,
    weights: Vec<f64>,
    /// None where batch norm uses the batch's own moments.
    running: Option<Vec<Tensor<1>>>,
}

impl fmt::Debug for ResidentResnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.resnet.spec();
        f.debug_struct("ResidentResnet").field("spec", &spec).field("dtype", &self.dtype).finish_non_exhaustive()
    }
}

impl Resnet {
    /// The network at `state`, ready to be asked often.
    ///
    /// # Errors
    /// The state is of another network, or the device has no such `precision`.
    pub fn resident(
        &self,
        state: &ModelState,
        normalisation: Normalisation,
        precision: Precision,
    ) -> Result<ResidentResnet, ModelError> {
        let (given, expected) = (state.weights.len(), self.layout().len());
        if given != expected {
            return Err(ModelError::WeightCount { given, expected });
        }
        self.check_statistics(&state.statistics)?;
        let dtype = precision.dtype(&self.border.device)?;
        let device = self.border.device.clone().autodiff();
        let placement = Placement { device: &device, dtype, tracked: false };
        let running = (normalisation == Normalisation::Running).then(|| self.running(&state.statistics, placement));
        let weights = state.weights.iter().map(|&weight| f64::from(weight)).collect();
        Ok(ResidentResnet { resnet: self.clone(), dtype, device, weights, running })
    }
}

impl ResidentResnet {
    /// The network.
    pub fn resnet(&self) -> &Resnet {
        &self.resnet
    }

    /// Its weights, `[P]`.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// dl/d(weights) for `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]`.
    ///
    /// # Errors
    /// As those of a [step](Resnet::loss_and_gradient).
    pub async fn gradient(&self, images: &[f64], labels: &[usize]) -> Result<Vec<f64>, ModelError> {
        let border = &self.resnet.border;
        border.check_images(images, labels.len())?;
        let parameters = Parameters::new(&self.resnet.spec, &border.layout, &self.weights, self.placement(true));
        let images = self.resnet.images(images, labels.len(), self.placement(false));
        let loss = self.loss(&parameters, images, labels)?;
        let mut read = border.backward(loss, parameters.leaves.iter(), Vec::new()).await?.into_iter();
        border.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.weights.len());
        for data in read {
            gradient.extend(border.to_f64(&data)?);
        }
        border.check_gradient(&gradient, self.weights.len())?;
        Ok(gradient)
    }

    /// [dl/d(images) at w + `shift` - dl/d(images) at w - `shift`] / 2, where `shift` has as many values as there are
    /// weights: for a small shift d<gradient, shift>/d(images).
    ///
    /// # Errors
    /// As those of a [step](Resnet::loss_and_gradient), or the shift has another length.
    pub async fn input_gradient_along(
        &self,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
    ) -> Result<Vec<f64>, ModelError> {
        self.resnet.border.check_images(images, labels.len())?;
        if shift.len() != self.weights.len() {
            return Err(ModelError::ShiftCount { given: shift.len(), expected: self.weights.len() });
        }
        let forwards = self.input_gradient_at(images, labels, shift, 1.0).await?;
        let backwards = self.input_gradient_at(images, labels, shift, -1.0).await?;
        Ok(forwards.iter().zip(&backwards).map(|(forwards, backwards)| (forwards - backwards) / 2.0).collect())
    }

    async fn input_gradient_at(
        &self,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
        sign: f64,
    ) -> Result<Vec<f64>, ModelError> {
        let border = &self.resnet.border;
        let weights: Vec<f64> = self.weights.iter().zip(shift).map(|(weight, shift)| weight + sign * shift).collect();
        let parameters = Parameters::new(&self.resnet.spec, &border.layout, &weights, self.placement(false));
        let images = self.resnet.images(images, labels.len(), self.placement(true));
        let loss = self.loss(&parameters, images.clone(), labels)?;
        let leaves = [Leaf::Filters(images)];
        let mut read = border.backward(loss, leaves.iter(), Vec::new()).await?.into_iter();
        border.finite_loss(read.next())?;
        let data = read.next().ok_or_else(|| border.device_error("no gradient of the images came back"))?;
        // Normalisation doubles every value of an image.
        border.finite_images(border.to_f64(&data)?.into_iter().map(|value| value / 0.5).collect())
    }

    fn loss(&self, parameters: &Parameters, images: Tensor<4>, labels: &[usize]) -> Result<Tensor<1>, ModelError> {
        let targets = self.resnet.border.one_hot(labels, self.dtype)?;
        let moments = self.running.as_deref().map_or(Moments::Batch, Moments::Running);
        let (logits, _) = parameters.logits(images, moments);
        Ok(cross_entropy(logits, targets))
    }

    fn placement(&self, tracked: bool) -> Placement<'_> {
        Placement { device: &self.device, dtype: self.dtype, tracked }
    }
}
