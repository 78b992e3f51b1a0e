//! Updates that are weights after local training.

use std::str::FromStr;

use serde::Serialize;
use unmask_attack::{Tensors, UpdateScale};
use unmask_tensors::TensorFile;

use crate::InversionError;

/// The local training of a FedAvg client, as on the command line: `rate=0.1,steps=4`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LocalTraining {
    rate: f64,
    steps: u32,
}

impl FromStr for LocalTraining {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" will not do; give the local rate and the steps, such as rate=0.1,steps=4");
        let (mut rate, mut steps) = (None, None);
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("rate", value)) => rate = value.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite()),
                Some(("steps", value)) => steps = value.parse().ok().filter(|steps| *steps > 0),
                _ => return Err(wrong()),
            }
        }
        Ok(Self { rate: rate.ok_or_else(wrong)?, steps: steps.ok_or_else(wrong)? })
    }
}

impl LocalTraining {
    /// Returns the mean gradient over the steps: (`before` - `after`) / (rate x steps).
    ///
    /// # Errors
    /// There are no weights before, or they are not close to those after.
    pub(crate) fn gradient(self, before: Option<&Tensors>, after: &Tensors) -> Result<Tensors, InversionError> {
        let before = before.ok_or(InversionError::NoWeightsBefore)?;
        Ok(after.decrease_from(before, UpdateScale::after(self.rate, self.steps()))?)
    }

    /// The product by which a difference of weights exceeds the mean gradient.
    pub(crate) fn scale(self) -> f64 {
        self.rate * f64::from(self.steps)
    }

    pub(super) fn steps(self) -> u64 {
        self.steps.into()
    }

    pub(crate) fn note(self) -> String {
        let Self { rate, steps } = self;
        let drift = match steps {
            1 => "the gradient of the only local step.",
            _ => {
                "the mean gradient over the steps. Only the first step was taken at the original weights, so no picture \
                 explains all of it."
            }
        };
        format!("The update is the weights before minus those after, divided by {rate} x {steps}: {drift}")
    }
}

/// Rejects weights where a gradient should be. `before` holds the weights that the client received, if known.
pub(crate) fn refuse_weights(
    update: &Tensors,
    before: Option<&Tensors>,
    file: &TensorFile,
) -> Result<(), InversionError> {
    let file = || file.to_string();
    match before {
        Some(before) if update.are_near(before) => Err(InversionError::NearWeights { file: file() }),
        _ if update.have_unit_norms() => Err(InversionError::UnitNorms { file: file() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_steps_are_both_needed_and_above_zero() {
        assert_eq!("rate=0.1,steps=4".parse(), Ok(LocalTraining { rate: 0.1, steps: 4 }));
        assert_eq!(" steps=1, rate=2".parse(), Ok(LocalTraining { rate: 2.0, steps: 1 }));
        for text in
            ["", "0.1", "rate=0.1", "steps=4", "rate=0,steps=1", "rate=nan,steps=1", "rate=1,steps=0", "lr=1,steps=1"]
        {
            let error = text.parse::<LocalTraining>().unwrap_err();
            assert!(error.contains("such as rate=0.1,steps=4"), "{error}");
        }
    }
}
