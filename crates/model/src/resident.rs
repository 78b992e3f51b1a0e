//! One vector of weights, asked many times for gradients of changing images.
//!
//! Gradient matching needs two answers from a model at fixed weights w: the gradient of the loss with respect to (some
//! of) the weights, and how the gradient with respect to the images changes when those weights move. The parts behind
//! block 0 stay on the device, and nothing is differentiated that is not asked for.

use std::fmt;

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::{
    ModelError, Vit,
    border::cross_entropy,
    forward::{Early, Late, Parameters},
    leaves::{Leaf, Placement},
};

/// The number type of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// What every device has.
    #[default]
    F32,
    /// The CPU only, for checks.
    F64,
}

impl Precision {
    /// The same in Burn's words.
    ///
    /// # Errors
    /// If `device` has no such type.
    pub(crate) fn dtype(self, device: &Device) -> Result<DType, ModelError> {
        match self {
            Self::F32 => Ok(DType::F32),
            Self::F64 if *device == Device::flex() => Ok(DType::F64),
            Self::F64 => Err(ModelError::NoF64 { device: format!("{device:?}") }),
        }
    }
}

/// Which weights are differentiated and moved: always the first ones of the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Class token, position embedding, patch embedding and block 0.
    FirstBlock,
    /// Every parameter.
    Everything,
}

/// A [`Vit`] with its weights.
pub struct Resident {
    vit: Vit,
    dtype: DType,
    /// With autodiff.
    device: Device,
    /// Those within reach.
    weights: Vec<f64>,
    /// The rest, where there is one.
    late: Option<Late>,
}

impl fmt::Debug for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resident").field("spec", &self.vit.spec()).field("dtype", &self.dtype).finish_non_exhaustive()
    }
}

impl Vit {
    /// The model at `weights`, ready to be asked often.
    ///
    /// # Errors
    /// The weights are of another model, or the device has no such `precision`.
    pub fn resident(&self, weights: &[f32], reach: Reach, precision: Precision) -> Result<Resident, ModelError> {
        let expected = self.layout().len();
        if weights.len() != expected {
            return Err(ModelError::WeightCount { given: weights.len(), expected });
        }
        let dtype = precision.dtype(&self.border.device)?;
        let device = self.border.device.clone().autodiff();
        let (within, late) = match reach {
            Reach::Everything => (weights, None),
            Reach::FirstBlock => {
                let (early, late) = weights.split_at(Early::len(self.layout()));
                let placement = Placement { device: &device, dtype, tracked: false };
                (early, Some(Late::new(self.config(), self.layout(), late, placement)))
            }
        };
        let weights = within.iter().map(|&weight| f64::from(weight)).collect();
        Ok(Resident { vit: self.clone(), dtype, device, weights, late })
    }
}

impl Resident {
    /// The model.
    pub fn vit(&self) -> &Vit {
        &self.vit
    }

    /// The weights within reach: the first values of the flat vector.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// dl/d(weights within reach) for `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]`.
    ///
    /// # Errors
    /// As those of a [step](Vit::loss_and_gradient).
    pub async fn gradient(&self, images: &[f64], labels: &[usize]) -> Result<Vec<f64>, ModelError> {
        self.vit.border.check_images(images, labels.len())?;
        let (vit, config, gelu) = (&self.vit, self.vit.config(), self.vit.gelu);
        let targets = vit.border.one_hot(labels, self.dtype)?;
        let patches = vit.placed_patches(images, labels.len(), self.placement(false));
        let read = match &self.late {
            Some(late) => {
                let early = Early::new(config, vit.layout(), &self.weights, self.placement(true));
                let logits = late.apply(config, gelu, early.apply(config, gelu, patches));
                vit.border.backward(cross_entropy(logits, targets), early.leaves.iter(), Vec::new()).await?
            }
            None => {
                let parameters = Parameters::new(config, vit.layout(), &self.weights, self.placement(true));
                let logits = parameters.logits(config, gelu, patches);
                vit.border.backward(cross_entropy(logits, targets), parameters.leaves(), Vec::new()).await?
            }
        };
        let mut gradient = Vec::with_capacity(self.weights.len());
        let mut read = read.into_iter();
        vit.border.finite_loss(read.next())?;
        for data in read {
            gradient.extend(vit.border.to_f64(&data)?);
        }
        vit.border.check_gradient(&gradient, self.weights.len())?;
        Ok(gradient)
    }

    /// [dl/d(images) at w + `shift` - dl/d(images) at w - `shift`] / 2: how the gradient with respect to the images
    /// changes along `shift`, which has as many values as there are weights within reach. In the limit of a small shift
    /// that is d<gradient, shift>/d(images), the second derivative that first-order autodiff cannot give.
    ///
    /// # Errors
    /// As those of a [step](Vit::loss_and_gradient), or the shift has another length.
    pub async fn input_gradient_along(
        &self,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
    ) -> Result<Vec<f64>, ModelError> {
        self.vit.border.check_images(images, labels.len())?;
        if shift.len() != self.weights.len() {
            return Err(ModelError::ShiftCount { given: shift.len(), expected: self.weights.len() });
        }
        let [forwards, backwards] = match &self.late {
            Some(late) => self.pair_through(late, images, labels, shift).await?,
            None => [
                self.input_gradient_at(images, labels, shift, 1.0).await?,
                self.input_gradient_at(images, labels, shift, -1.0).await?,
            ],
        };
        Ok(forwards.iter().zip(&backwards).map(|(forwards, backwards)| (forwards - backwards) / 2.0).collect())
    }

    /// Both sides of the shift at once: they differ up to block 0 only, so behind it they are one batch.
    async fn pair_through(
        &self,
        late: &Late,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
    ) -> Result<[Vec<f64>; 2], ModelError> {
        let (vit, config, gelu) = (&self.vit, self.vit.config(), self.vit.gelu);
        let targets = vit.border.one_hot(&[labels, labels].concat(), self.dtype)?;
        let sides = [1.0, -1.0].map(|sign| {
            let early = Early::new(config, vit.layout(), &self.shifted(shift, sign), self.placement(false));
            let patches = vit.placed_patches(images, labels.len(), self.placement(true));
            (early.apply(config, gelu, patches.clone()), patches)
        });
        let [(forwards, forward_patches), (backwards, backward_patches)] = sides;
        let logits = late.apply(config, gelu, Tensor::cat(vec![forwards, backwards], 0));
        // The mean over both sides counts each of them half.
        let loss = cross_entropy(logits, targets).mul_scalar(2.0);
        let leaves = [Leaf::Patches(forward_patches), Leaf::Patches(backward_patches)];
        let mut read = vit.border.backward(loss, leaves.iter(), Vec::new()).await?.into_iter();
        vit.border.finite_loss(read.next())?;
        Ok([vit.finite_image_gradient(read.next())?, vit.finite_image_gradient(read.next())?])
    }

    async fn input_gradient_at(
        &self,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
        sign: f64,
    ) -> Result<Vec<f64>, ModelError> {
        let (vit, config, gelu) = (&self.vit, self.vit.config(), self.vit.gelu);
        let targets = vit.border.one_hot(labels, self.dtype)?;
        let parameters = Parameters::new(config, vit.layout(), &self.shifted(shift, sign), self.placement(false));
        let patches = vit.placed_patches(images, labels.len(), self.placement(true));
        let loss = cross_entropy(parameters.logits(config, gelu, patches.clone()), targets);
        let mut read: std::vec::IntoIter<TensorData> =
            vit.border.backward(loss, [Leaf::Patches(patches)].iter(), Vec::new()).await?.into_iter();
        vit.border.finite_loss(read.next())?;
        vit.finite_image_gradient(read.next())
    }

    fn shifted(&self, shift: &[f64], sign: f64) -> Vec<f64> {
        self.weights.iter().zip(shift).map(|(weight, shift)| weight + sign * shift).collect()
    }

    fn placement(&self, tracked: bool) -> Placement<'_> {
        Placement { device: &self.device, dtype: self.dtype, tracked }
    }
}
