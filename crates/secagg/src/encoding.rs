//! What clients do to their updates before they add them up, and how the sum becomes a mean.

use unmask_core::{Defence, GaussianNoise, SecureSumSettings};
use unmask_defence::clip_factor;

use crate::{FixedPoint, FixedPointError};

/// Standard deviations of noise beyond which a value would be refused: about once in 10^23 values.
const NOISE_IN_BOUND: f64 = 10.0;

/// The numbers on which all clients of a sum and the relay agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SumEncoding {
    settings: SecureSumSettings,
    defence: Defence,
    fixed: FixedPoint,
}

impl SumEncoding {
    /// For up to `clients` clients. Of Gaussian noise, each of them adds a standard deviation of 1 / sqrt(`sharers`), so
    /// that the updates of `sharers` clients carry the whole; other clients may leave or be in league with the relay.
    ///
    /// # Errors
    /// No sum has such a bound.
    pub fn new(
        settings: SecureSumSettings,
        defence: Defence,
        clients: usize,
        sharers: usize,
    ) -> Result<Self, FixedPointError> {
        let shared = |noise: &GaussianNoise| Defence::Gaussian(noise.shared_by(sharers.max(1)));
        let defence = defence.noise().map_or(defence, shared);
        Ok(Self { settings, defence, fixed: FixedPoint::new(bound(settings, defence), clients)? })
    }

    /// The defence of each client: its share of the noise.
    pub fn defence(&self) -> Defence {
        self.defence
    }

    /// A client's protected `values` `[P]`, or their change from `reference` `[P]`, clipped and as whole numbers `[P]`.
    ///
    /// # Errors
    /// A value is not finite or beyond the bound.
    pub fn encode(&self, mut values: Vec<f32>, reference: Option<&[f32]>) -> Result<Vec<u32>, FixedPointError> {
        if let Some(reference) = reference {
            values.iter_mut().zip(reference).for_each(|(value, reference)| *value -= reference);
        }
        if let Some(clip) = self.settings.clip {
            let factor = clip_factor(&values, clip);
            values.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
        }
        self.fixed.encode(&values)
    }

    /// The mean `[P]` of `clients` clients' values, whose `sum` `[P]` is known. Every client counts alike.
    ///
    /// # Errors
    /// Clipped values do not add up to that.
    pub fn mean(&self, sum: &[u32], clients: usize, reference: Option<&[f32]>) -> Result<Vec<f32>, FixedPointError> {
        let mut mean = self.fixed.decode(sum, clients)?;
        mean.iter_mut().for_each(|value| *value /= clients as f32);
        if let Some(reference) = reference {
            mean.iter_mut().zip(reference).for_each(|(value, reference)| *value += reference);
        }
        Ok(mean)
    }
}

/// The largest value of one client. Rounding to f32 may lengthen a clipped update a little.
fn bound(settings: SecureSumSettings, defence: Defence) -> f64 {
    const ROUNDING: f64 = 1e-6;
    let length = |clip: f64| clip * (1.0 + ROUNDING);
    match defence.noise() {
        Some(noise) => length(noise.sensitivity()) + NOISE_IN_BOUND * noise.deviation(),
        None => length(settings.clip.unwrap_or(1.0)),
    }
}
