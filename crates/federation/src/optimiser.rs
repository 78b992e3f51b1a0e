//! The server's step on the averaged gradient.

use std::{fmt, str::FromStr};

use crate::Aggregate;

/// Which step, and its learning rate eta per round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptimiserKind {
    /// w' = w - eta g, as in the papers.
    Sgd {
        /// eta.
        rate: f32,
    },
    /// Server-side Adam on the averaged gradient (FedOpt, Reddi et al. 2021): learns visibly in minutes.
    Adam {
        /// eta.
        rate: f32,
    },
}

impl fmt::Display for OptimiserKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sgd { rate } => write!(f, "sgd:{rate}"),
            Self::Adam { rate } => write!(f, "adam:{rate}"),
        }
    }
}

/// A string that names no optimiser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no optimiser; write sgd:RATE or adam:RATE with a rate above 0, such as adam:0.001")]
pub struct ParseOptimiserError(String);

impl FromStr for OptimiserKind {
    type Err = ParseOptimiserError;

    fn from_str(text: &str) -> Result<Self, ParseOptimiserError> {
        let error = || ParseOptimiserError(text.to_owned());
        let (name, rate) = text.split_once(':').ok_or_else(error)?;
        let rate: f32 = rate.parse().map_err(|_| error())?;
        match name {
            _ if !(rate.is_finite() && rate > 0.0) => Err(error()),
            "sgd" => Ok(Self::Sgd { rate }),
            "adam" => Ok(Self::Adam { rate }),
            _ => Err(error()),
        }
    }
}

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// An optimiser with its state.
#[derive(Debug, Clone)]
pub struct Optimiser {
    kind: OptimiserKind,
    steps: i32,
    /// Adam's first and second moment of each parameter; empty for SGD.
    moments: Vec<(f32, f32)>,
}

impl Optimiser {
    /// A fresh one.
    pub fn new(kind: OptimiserKind) -> Self {
        Self { kind, steps: 0, moments: Vec::new() }
    }

    /// Plain SGD.
    pub fn sgd(rate: f32) -> Self {
        Self::new(OptimiserKind::Sgd { rate })
    }

    /// Its kind and rate.
    pub fn kind(&self) -> OptimiserKind {
        self.kind
    }

    /// Eqs. 1 and 2: moves `weights` (`[P]`) against the mean gradient. A parameter nobody sent stays as it is, and so do
    /// its moments.
    pub fn step(&mut self, weights: &mut [f32], aggregate: &Aggregate) {
        self.steps += 1;
        let parameters = weights.len();
        let gradients = weights.iter_mut().zip(aggregate.mean());
        match self.kind {
            OptimiserKind::Sgd { rate } => {
                for (weight, gradient) in gradients {
                    if let Some(gradient) = gradient {
                        *weight -= rate * gradient;
                    }
                }
            }
            OptimiserKind::Adam { rate } => {
                let correction1 = 1.0 - BETA1.powi(self.steps);
                let correction2 = 1.0 - BETA2.powi(self.steps);
                self.moments.resize(parameters, (0.0, 0.0));
                for ((weight, gradient), (m, v)) in gradients.zip(&mut self.moments) {
                    if let Some(g) = gradient {
                        *m = BETA1 * *m + (1.0 - BETA1) * g;
                        *v = BETA2 * *v + (1.0 - BETA2) * g * g;
                        *weight -= rate * (*m / correction1) / ((*v / correction2).sqrt() + EPSILON);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_defence::ProtectedUpdate;

    use super::*;

    fn aggregate(values: &[f32]) -> Aggregate {
        let mut aggregate = Aggregate::new(values.len());
        aggregate.add(&ProtectedUpdate::Dense(values.to_vec())).unwrap();
        aggregate
    }

    /// By hand: step 1 moves by eta g/|g|; step 2, g = 0.5 then -1: m = .9*.05 - .1 = -.055, /.19; v = .999*.00025 + .001
    /// = .00124975, /.001999; 0.1 * -.2894737 / .7906900 = -.0366103.
    #[test]
    fn adam_by_hand() {
        let mut adam = Optimiser::new(OptimiserKind::Adam { rate: 0.1 });
        let mut weights = [1.0];
        adam.step(&mut weights, &aggregate(&[0.5]));
        assert!((weights[0] - 0.9).abs() < 1e-6, "{weights:?}");
        adam.step(&mut weights, &aggregate(&[-1.0]));
        assert!((weights[0] - (0.9 + 0.036_610_3)).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn adam_leaves_what_nobody_sends() {
        let mut adam = Optimiser::new(OptimiserKind::Adam { rate: 0.1 });
        let mut weights = [1.0, 2.0];
        adam.step(&mut weights, &aggregate(&[1.0, 0.0]));
        assert_eq!(weights[1], 2.0);
        let before = weights;
        adam.step(&mut weights, &Aggregate::new(2));
        assert_eq!(weights, before);
    }

    #[test]
    fn strings() {
        for text in ["sgd:0.1", "adam:0.001"] {
            assert_eq!(text.parse::<OptimiserKind>().unwrap().to_string(), text);
        }
        for text in ["adam", "sgd:-1", "sgd:nan", "lion:1"] {
            assert!(text.parse::<OptimiserKind>().unwrap_err().to_string().contains(text));
        }
    }
}
