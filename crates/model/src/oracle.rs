//! Repeated gradients of a network at one state.
//!
//! Gradient matching needs two results from a network at fixed weights w: the gradient of the loss with respect to
//! (some of) the weights, and the change of the gradient with respect to the images as those weights move. The oracle
//! computes no other derivatives.

use std::fmt;

use unmask_core::{Architecture, ModelState, ParamLayout};
use unmask_engine::{Differentiated, Engine, Normalisation, Recording, Wanted};

use crate::{ModelError, Network, error::check_finite, network::check_gradient};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Available on every device.
    #[default]
    F32,
    /// Only on the CPU, for checks.
    F64,
}

impl Precision {
    /// Distance that the weights move for a difference, relative to their norm: large enough to keep rounding small,
    /// and small enough that few ReLUs switch.
    fn shift(self) -> f64 {
        match self {
            Self::F32 => 1e-3,
            Self::F64 => 1e-7,
        }
    }
}

/// The weights that are differentiated and moved: always the first ones of the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightScope {
    /// Class token, position embedding, patch embedding and block 0 of a ViT.
    FirstBlock,
    #[default]
    All,
}

impl WeightScope {
    /// Returns the number of weights of `layout` in scope.
    fn len(self, layout: &ParamLayout) -> usize {
        let is_late = |name: &str| name.starts_with("blocks.1.") || name == "norm.weight";
        match self {
            Self::All => layout.len(),
            Self::FirstBlock => layout.iter().find(|param| is_late(&param.name)).map_or(0, |param| param.range.start),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleOptions {
    pub scope: WeightScope,
    /// The statistics that batch norm uses.
    pub normalisation: Normalisation,
    pub precision: Precision,
}

impl Default for OracleOptions {
    fn default() -> Self {
        Self { scope: WeightScope::All, normalisation: Normalisation::Running, precision: Precision::F32 }
    }
}

/// Computes gradients of a [`Network`] at one state for attacks.
pub struct GradientOracle {
    network: Network,
    /// Engine and all weights in double precision, if requested.
    exact: Option<(Engine<f64>, Vec<f64>)>,
    state: ModelState,
    /// The weights in scope, which are the first of the flat vector.
    weights: Vec<f64>,
    normalisation: Normalisation,
}

/// The gradient at some images, with what [`GradientOracle::input_gradient_along`] needs.
pub struct GradientAt {
    gradient: Vec<f64>,
    images: Vec<f64>,
    labels: Vec<usize>,
    recording: Option<Recorded>,
}

enum Recorded {
    F32(Recording<f32>),
    F64(Recording<f64>),
}

impl GradientAt {
    /// Returns dl/d(weights in scope).
    pub fn gradient(&self) -> &[f64] {
        &self.gradient
    }
}

impl fmt::Debug for GradientOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = self.network.architecture();
        f.debug_struct("GradientOracle").field("architecture", &architecture).finish_non_exhaustive()
    }
}

impl Network {
    /// Creates an oracle of the network at `state`.
    ///
    /// # Errors
    /// The state belongs to another network, the device does not support the precision, or the scope is the first block
    /// of a network without blocks.
    pub fn oracle(&self, state: &ModelState, options: OracleOptions) -> Result<GradientOracle, ModelError> {
        self.check_state(state)?;
        let OracleOptions { scope, normalisation, precision } = options;
        let architecture = self.architecture();
        if precision == Precision::F64 && self.engine().is_none() {
            return Err(ModelError::NoF64 { device: "GPU".to_owned() });
        }
        if scope == WeightScope::FirstBlock && !matches!(architecture, Architecture::Vit(_)) {
            return Err(ModelError::NoFirstBlock { architecture });
        }
        Ok(GradientOracle {
            network: self.clone(),
            exact: (precision == Precision::F64).then(|| (Engine::new(architecture), wide(&state.weights))),
            state: state.clone(),
            weights: wide(&state.weights[..scope.len(self.layout())]),
            normalisation,
        })
    }
}

impl GradientOracle {
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the weights in scope: the first values of the flat vector.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Computes dl/d(weights in scope) for `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]`.
    ///
    /// # Errors
    /// Those of a [step](Network::loss_and_gradient).
    pub async fn gradient(&self, images: &[f64], labels: &[usize]) -> Result<GradientAt, ModelError> {
        let wanted = self.weights.len();
        self.network.check_images(images, labels.len())?;
        self.network.check_labels(labels)?;
        let recording = match &self.exact {
            Some((engine, all)) => engine.record(all, images, labels, wanted).map(Recorded::F64),
            None => self
                .network
                .engine()
                .and_then(|engine| engine.record(&self.state.weights, &narrow(images), labels, wanted))
                .map(Recorded::F32),
        };
        let gradient = match &recording {
            Some(Recorded::F32(recording)) => wide(&recording.gradient),
            Some(Recorded::F64(recording)) => recording.gradient.clone(),
            None => {
                let wanted = Wanted { weights: wanted, images: false };
                self.differentiate(&self.weights, images, labels, wanted).await?.gradient
            }
        };
        check_gradient(self.network.layout(), &gradient)?;
        Ok(GradientAt { gradient, images: images.to_vec(), labels: labels.to_vec(), recording })
    }

    /// Returns d<gradient, `direction`>/d(images) at the images of `at`, which must come from this oracle: the change
    /// of the gradient with respect to the images as the weights move along `direction`, which has one value per weight
    /// in scope.
    ///
    /// A ViT on the CPU computes it exactly, by forward mode over reverse mode. All other cases use a central
    /// difference: the weights move in both directions by 1e-3 of their norm in f32, and by 1e-7 of it in f64. With all
    /// weights in scope, this takes as many matrix products as the exact derivative.
    ///
    /// # Errors
    /// Those of a [step](Network::loss_and_gradient), or the direction has another length.
    pub async fn input_gradient_along(&self, at: &GradientAt, direction: &[f64]) -> Result<Vec<f64>, ModelError> {
        if direction.len() != self.weights.len() {
            return Err(ModelError::DirectionLength { given: direction.len(), expected: self.weights.len() });
        }
        let length = norm(direction);
        if length == 0.0 {
            return Ok(vec![0.0; at.images.len()]);
        }
        let exact = match (&at.recording, &self.exact, self.network.engine()) {
            (Some(Recorded::F64(recording)), Some((engine, all)), _) => {
                Some(engine.input_slope_along(all, recording, direction))
            }
            (Some(Recorded::F32(recording)), _, Some(engine)) => {
                // Scale to length 1, so that all values fit into f32.
                let unit: Vec<f32> = direction.iter().map(|&along| (along / length) as f32).collect();
                let slope = engine.input_slope_along(&self.state.weights, recording, &unit);
                Some(slope.iter().map(|&slope| length * f64::from(slope)).collect())
            }
            _ => None,
        };
        let slope = match exact {
            Some(slope) => slope,
            None => self.difference_along(at, direction, length).await?,
        };
        check_finite("gradient of the images", &slope)?;
        Ok(slope)
    }

    /// Computes the same with central differences, along a direction of this length.
    async fn difference_along(&self, at: &GradientAt, direction: &[f64], length: f64) -> Result<Vec<f64>, ModelError> {
        let precision = if self.exact.is_some() { Precision::F64 } else { Precision::F32 };
        let step = precision.shift() * norm(&self.weights) / length;
        let forwards = self.input_gradient_at(at, direction, step).await?;
        let backwards = self.input_gradient_at(at, direction, -step).await?;
        Ok(forwards.iter().zip(&backwards).map(|(forwards, backwards)| (forwards - backwards) / (2.0 * step)).collect())
    }

    /// Computes dl/d(images) at w + `step` `direction`.
    async fn input_gradient_at(&self, at: &GradientAt, direction: &[f64], step: f64) -> Result<Vec<f64>, ModelError> {
        let weights: Vec<f64> =
            self.weights.iter().zip(direction).map(|(weight, along)| weight + step * along).collect();
        let wanted = Wanted { weights: 0, images: true };
        Ok(self.differentiate(&weights, &at.images, &at.labels, wanted).await?.images)
    }

    /// Differentiates at these `weights` in scope, in the oracle's precision.
    async fn differentiate(
        &self,
        weights: &[f64],
        images: &[f64],
        labels: &[usize],
        wanted: Wanted,
    ) -> Result<Differentiated<f64>, ModelError> {
        let found = match &self.exact {
            Some((engine, all)) => {
                let all = [weights, &all[weights.len()..]].concat();
                let statistics = wide(&self.state.statistics);
                engine.differentiate(&all, &statistics, images, labels, self.normalisation, wanted)
            }
            None => {
                let mut state = self.state.clone();
                for (to, &weight) in state.weights.iter_mut().zip(weights) {
                    *to = weight as f32;
                }
                let images = narrow(images);
                let found = self.network.differentiate(&state, &images, labels, self.normalisation, wanted).await?;
                Differentiated {
                    loss: f64::from(found.loss),
                    gradient: wide(&found.gradient),
                    images: wide(&found.images),
                    statistics: Vec::new(),
                }
            }
        };
        check_finite("loss", &[found.loss])?;
        Ok(found)
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}
