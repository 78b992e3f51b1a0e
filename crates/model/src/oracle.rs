//! One state of a network, asked many times for gradients of changing images.
//!
//! Gradient matching needs two answers from a network at fixed weights w: the gradient of the loss with respect to (some
//! of) the weights, and how the gradient with respect to the images changes when those weights move. What does not move
//! stays on the device, and nothing is differentiated that is not asked for.

use std::fmt;

use burn::tensor::{DType, Device, Tensor};
use unmask_core::{Architecture, ModelState};

use crate::{
    ModelError, Network, Normalisation,
    forward::{Output, Parameters},
    resnet::Moments,
    tensors::TensorOptions,
    vit::{self, EarlyLayers, LateLayers},
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
    fn dtype(self, device: &Device) -> Result<DType, ModelError> {
        match self {
            Self::F32 => Ok(DType::F32),
            Self::F64 if *device == Device::flex() => Ok(DType::F64),
            Self::F64 => Err(ModelError::NoF64 { device: format!("{device:?}") }),
        }
    }
}

/// Which weights are differentiated and moved: always the first ones of the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightScope {
    /// Class token, position embedding, patch embedding and block 0 of a ViT.
    FirstBlock,
    #[default]
    All,
}

/// How an oracle computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleOptions {
    /// Which weights it differentiates.
    pub scope: WeightScope,
    /// What batch norm normalises by.
    pub normalisation: Normalisation,
    pub precision: Precision,
}

impl Default for OracleOptions {
    fn default() -> Self {
        Self { scope: WeightScope::All, normalisation: Normalisation::Running, precision: Precision::F32 }
    }
}

/// Answers attacks with gradients of a [`Network`] at one state.
pub struct GradientOracle {
    network: Network,
    dtype: DType,
    /// With autodiff.
    device: Device,
    /// Those in scope.
    weights: Vec<f64>,
    /// The blocks behind the scope, where it ends at the first.
    late: Option<LateLayers>,
    /// `None` where batch norm uses the batch's own moments.
    running: Option<Vec<Tensor<1>>>,
}

impl fmt::Debug for GradientOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = self.network.architecture();
        f.debug_struct("GradientOracle")
            .field("architecture", &architecture)
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// The network at `state`, ready to be asked often.
    ///
    /// # Errors
    /// The state is of another network, the device has no such precision, or the scope is the first block of a network without blocks.
    pub fn oracle(&self, state: &ModelState, options: OracleOptions) -> Result<GradientOracle, ModelError> {
        self.check_state(state)?;
        let OracleOptions { scope, normalisation, precision } = options;
        let dtype = precision.dtype(self.device())?;
        let device = self.device().clone().autodiff();
        let options = TensorOptions { device: &device, dtype, requires_grad: false };
        let weights = state.weights.as_slice();
        let (within, late) = match (scope, self.architecture()) {
            (WeightScope::All, _) => (weights, None),
            (WeightScope::FirstBlock, Architecture::Vit(config)) => {
                let (early, late) = weights.split_at(EarlyLayers::len(self.layout()));
                (early, Some(LateLayers::new(&config, self.layout(), late, options)))
            }
            (WeightScope::FirstBlock, architecture) => return Err(ModelError::NoFirstBlock { architecture }),
        };
        let weights = within.iter().map(|&weight| f64::from(weight)).collect();
        let running = (normalisation == Normalisation::Running).then(|| self.running(&state.statistics, options));
        Ok(GradientOracle { network: self.clone(), dtype, device, weights, late, running })
    }
}

impl GradientOracle {
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The weights in scope: the first values of the flat vector.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// dl/d(weights in scope) for `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]`.
    ///
    /// # Errors
    /// As those of a [step](Network::loss_and_gradient).
    pub async fn gradient(&self, images: &[f64], labels: &[usize]) -> Result<Vec<f64>, ModelError> {
        self.network.check_images(images, labels.len())?;
        let parameters = self.parameters(&self.weights, self.options(true));
        let Output { logits, .. } = parameters.forward(images, labels.len(), self.options(false), self.moments());
        let loss = self.network.cross_entropy(logits, labels, self.dtype)?;
        let mut read = self.network.backward(loss, &parameters.leaves(), Vec::new()).await?.into_iter();
        self.network.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.weights.len());
        for data in read {
            gradient.extend(self.network.to_f64(&data)?);
        }
        self.network.check_gradient(&gradient, self.weights.len())?;
        Ok(gradient)
    }

    /// [dl/d(images) at w + `shift` - dl/d(images) at w - `shift`] / 2: how the gradient with respect to the images
    /// changes along `shift`, which has as many values as there are weights in scope. In the limit of a small shift that
    /// is d<gradient, shift>/d(images), the second derivative that first-order autodiff cannot give.
    ///
    /// # Errors
    /// As those of a [step](Network::loss_and_gradient), or the shift has another length.
    pub async fn input_gradient_along(
        &self,
        images: &[f64],
        labels: &[usize],
        shift: &[f64],
    ) -> Result<Vec<f64>, ModelError> {
        self.network.check_images(images, labels.len())?;
        if shift.len() != self.weights.len() {
            return Err(ModelError::ShiftCount { given: shift.len(), expected: self.weights.len() });
        }
        let [forwards, backwards] = match (&self.late, self.network.architecture()) {
            (Some(late), Architecture::Vit(config)) => {
                let early = |sign| {
                    let weights = self.shifted(shift, sign);
                    EarlyLayers::new(&config, self.network.layout(), &weights, self.options(false))
                };
                self.both_sides([early(1.0), early(-1.0)], late, images, labels).await?
            }
            _ => [
                self.input_gradient_at(&self.shifted(shift, 1.0), images, labels).await?,
                self.input_gradient_at(&self.shifted(shift, -1.0), images, labels).await?,
            ],
        };
        Ok(forwards.iter().zip(&backwards).map(|(forwards, backwards)| (forwards - backwards) / 2.0).collect())
    }

    /// Both sides of the shift at once: they differ up to block 0 only, so behind it they are one batch.
    async fn both_sides(
        &self,
        early: [EarlyLayers; 2],
        late: &LateLayers,
        images: &[f64],
        labels: &[usize],
    ) -> Result<[Vec<f64>; 2], ModelError> {
        let [(forwards, forward_input), (backwards, backward_input)] =
            early.map(|early| early.apply(images, labels.len(), self.options(true)));
        let logits = late.apply(Tensor::cat(vec![forwards, backwards], 0));
        // The mean over both sides counts each of them half.
        let loss = self.network.cross_entropy(logits, &[labels, labels].concat(), self.dtype)?.mul_scalar(2.0);
        let leaves = [&forward_input, &backward_input];
        let mut read = self.network.backward(loss, &leaves, Vec::new()).await?.into_iter();
        self.network.finite_loss(read.next())?;
        Ok([self.network.finite_image_gradient(read.next())?, self.network.finite_image_gradient(read.next())?])
    }

    async fn input_gradient_at(
        &self,
        weights: &[f64],
        images: &[f64],
        labels: &[usize],
    ) -> Result<Vec<f64>, ModelError> {
        let parameters = self.parameters(weights, self.options(false));
        let Output { logits, input, .. } = parameters.forward(images, labels.len(), self.options(true), self.moments());
        let loss = self.network.cross_entropy(logits, labels, self.dtype)?;
        let mut read = self.network.backward(loss, &[&input], Vec::new()).await?.into_iter();
        self.network.finite_loss(read.next())?;
        self.network.finite_image_gradient(read.next())
    }

    /// All parameters: of `weights` those in scope, and the rest as it is.
    fn parameters(&self, weights: &[f64], options: TensorOptions<'_>) -> Parameters {
        let (architecture, layout) = (self.network.architecture(), self.network.layout());
        match (&self.late, architecture) {
            (Some(late), Architecture::Vit(config)) => {
                let early = EarlyLayers::new(&config, layout, weights, options);
                Parameters::Vit(Box::new(vit::Parameters::with_late(early, late.clone())))
            }
            _ => Parameters::new(architecture, layout, weights, options),
        }
    }

    fn shifted(&self, shift: &[f64], sign: f64) -> Vec<f64> {
        self.weights.iter().zip(shift).map(|(weight, shift)| weight + sign * shift).collect()
    }

    fn moments(&self) -> Moments<'_> {
        self.running.as_deref().map_or(Moments::Batch, Moments::Running)
    }

    fn options(&self, requires_grad: bool) -> TensorOptions<'_> {
        TensorOptions { device: &self.device, dtype: self.dtype, requires_grad }
    }
}
