//! Clipping and Gaussian noise.

use std::{fmt, str::FromStr};

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::MaskSeed;

/// The Gaussian mechanism as the papers set it up: clip to an L2 norm of S_f, then add N(0, (S_f sigma)^2) to each value.
///
/// FLRSP's Table 1 uses delta = 0.5 and does not clip. That is no meaningful guarantee, so the update is clipped here, and
/// what really holds is for an accountant to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianNoise {
    epsilon: f64,
    delta: f64,
    clip: f64,
}

/// A parameter of the Gaussian mechanism that is out of range, or a string that names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNoiseError {
    /// Not a number, or one out of range.
    #[error("{key}: \"{given}\" will not do; give a number {range}")]
    Value {
        /// Which parameter.
        key: &'static str,
        /// What was given for it.
        given: String,
        /// What it may be.
        range: &'static str,
    },
    /// A parameter that there is not.
    #[error("there is no parameter \"{0}\"; write eps=4,delta=1e-5,clip=0.5")]
    Key(String),
}

impl GaussianNoise {
    /// `clip` is S_f.
    ///
    /// # Errors
    /// Unless epsilon and S_f are above 0 and delta between 0 and 1.
    pub fn new(epsilon: f64, delta: f64, clip: f64) -> Result<Self, ParseNoiseError> {
        let check = |key, value: f64, good: bool, range| {
            if good && value.is_finite() {
                Ok(())
            } else {
                Err(ParseNoiseError::Value { key, given: value.to_string(), range })
            }
        };
        check("eps", epsilon, epsilon > 0.0, "above 0, such as 4")?;
        check("delta", delta, delta > 0.0 && delta < 1.0, "between 0 and 1, such as 1e-5")?;
        check("clip", clip, clip > 0.0, "above 0, such as 0.5")?;
        Ok(Self { epsilon, delta, clip })
    }

    /// Epsilon as asked for, of one round alone.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Delta as asked for.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// S_f, the L2 norm to which an update is clipped.
    pub fn clip(&self) -> f64 {
        self.clip
    }

    /// sigma = sqrt(2 ln(1.25 / delta)) / epsilon, in units of S_f.
    pub fn sigma(&self) -> f64 {
        (2.0 * (1.25 / self.delta).ln()).sqrt() / self.epsilon
    }

    /// Standard deviation of the noise on each value.
    pub fn deviation(&self) -> f64 {
        self.clip * self.sigma()
    }

    /// Clips `update` to S_f and adds noise drawn from `seed`, which must stay on the device: who knows it can take the
    /// noise off again.
    pub(crate) fn apply(&self, update: &mut [f32], seed: MaskSeed) {
        let norm = update.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
        let scale = if norm > self.clip { self.clip / norm } else { 1.0 };
        let deviation = self.deviation();
        let mut rng = ChaCha20Rng::from_seed(seed.0);
        for value in update {
            let noise: f64 = StandardNormal.sample(&mut rng);
            *value = (f64::from(*value) * scale + deviation * noise) as f32;
        }
    }
}

impl Default for GaussianNoise {
    fn default() -> Self {
        Self { epsilon: 4.0, delta: 1e-5, clip: 0.5 }
    }
}

impl fmt::Display for GaussianNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epsilon, delta, clip } = self;
        if *delta < 1e-3 {
            write!(f, "eps={epsilon},delta={delta:e},clip={clip}")
        } else {
            write!(f, "eps={epsilon},delta={delta},clip={clip}")
        }
    }
}

impl FromStr for GaussianNoise {
    type Err = ParseNoiseError;

    fn from_str(text: &str) -> Result<Self, ParseNoiseError> {
        let mut noise = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| ParseNoiseError::Key(part.trim().to_owned()))?;
            let (key, place) = match key.trim() {
                "eps" => ("eps", &mut noise.epsilon),
                "delta" => ("delta", &mut noise.delta),
                "clip" => ("clip", &mut noise.clip),
                key => return Err(ParseNoiseError::Key(key.to_owned())),
            };
            let given = value.trim();
            let bad =
                |_| ParseNoiseError::Value { key, given: given.to_owned(), range: "such as 0.5, or 1e-5 for delta" };
            *place = given.parse().map_err(bad)?;
        }
        Self::new(noise.epsilon, noise.delta, noise.clip)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noised(noise: GaussianNoise, plain: &[f32], seed: u8) -> Vec<f32> {
        let mut update = plain.to_vec();
        noise.apply(&mut update, MaskSeed([seed; 32]));
        update
    }

    /// FLRSP Table 1: delta .5, S_f .5.
    #[test]
    fn deviations_are_those_of_the_paper() {
        for (epsilon, deviation) in [(1.0, 0.677), (2.0, 0.338), (4.0, 0.169)] {
            let noise = GaussianNoise::new(epsilon, 0.5, 0.5).unwrap();
            assert!((noise.deviation() - deviation).abs() < 5e-4, "{}", noise.deviation());
        }
    }

    /// Mean, variance, skewness and excess kurtosis of what is added, each within six of its standard errors.
    #[test]
    fn moments_are_those_of_the_normal_distribution() {
        let noise = GaussianNoise::new(2.0, 1e-5, 0.5).unwrap();
        let n = 400_000;
        let added = noised(noise, &vec![0.0; n], 3);
        let sd = noise.deviation();
        let moment = |power: i32| added.iter().map(|&v| (f64::from(v) / sd).powi(power)).sum::<f64>() / n as f64;
        let error = |variance: f64| 6.0 * (variance / n as f64).sqrt();
        assert!(moment(1).abs() < error(1.0));
        assert!((moment(2) - 1.0).abs() < error(2.0), "{}", moment(2));
        assert!(moment(3).abs() < error(15.0));
        assert!((moment(4) - 3.0).abs() < error(96.0), "{}", moment(4));
        let beyond = added.iter().filter(|v| f64::from(v.abs()) > 3.0 * sd).count() as f64;
        let expected: f64 = n as f64 * 0.002_699_8;
        assert!((beyond - expected).abs() < 6.0 * expected.sqrt(), "{beyond} beyond 3 sigma");
    }

    #[test]
    fn long_updates_are_clipped_and_short_ones_are_not() {
        let noise = GaussianNoise::new(1e9, 1e-5, 0.5).unwrap();
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((norm(&noised(noise, &[3.0, 4.0], 0)) - 0.5).abs() < 1e-6);
        assert!((norm(&noised(noise, &[0.03, 0.04], 0)) - 0.05).abs() < 1e-6);
        assert!(noised(noise, &[0.0; 4], 0).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn noise_depends_on_the_seed_alone() {
        let noise = GaussianNoise::default();
        assert_eq!(noised(noise, &[0.0; 100], 1), noised(noise, &[0.0; 100], 1));
        assert_ne!(noised(noise, &[0.0; 100], 1), noised(noise, &[0.0; 100], 2));
    }

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("eps=0", "eps: \"0\""),
            ("eps=4,delta=1", "delta: \"1\""),
            ("clip=inf", "clip: \"inf\""),
            ("eps=four", "eps: \"four\""),
            ("sigma=3", "no parameter \"sigma\""),
            ("4", "no parameter \"4\""),
        ] {
            let error = text.parse::<GaussianNoise>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn string_form_round_trips(epsilon in 1e-3f64..1e3, exponent in -12.0f64..-0.01, clip in 1e-6f64..1e6) {
            let noise = GaussianNoise::new(epsilon, 10f64.powf(exponent), clip).unwrap();
            prop_assert_eq!(noise.to_string().parse::<GaussianNoise>().unwrap(), noise);
        }
    }
}
