use std::{fmt, str::FromStr};

use super::NumberParameter;
use crate::text::words;

/// The papers' Gaussian mechanism: clip to an L2 norm of S_f, then add N(0, (S_f sigma)^2) to each value.
///
/// FLRSP's Table 1 uses delta = 0.5 and does not clip, which guarantees nothing meaningful. This type clips by default;
/// an accountant computes the actual guarantee. `unclipped` instead of `clip` adds the paper's noise without clipping,
/// and gives no guarantee.
///
/// With `per=picture` it is DP-SGD (Abadi et al. 2016): each picture's gradient is clipped to S_f, their sum gets the
/// noise, and the update is that divided by the number of pictures. The guarantee is then of each picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianNoise {
    epsilon: f64,
    delta: f64,
    sensitivity: f64,
    is_clipped: bool,
    unit: NoiseUnit,
}

/// What is clipped, and so what the guarantee is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoiseUnit {
    /// A client's whole update.
    #[default]
    Update,
    /// The gradient of each picture.
    Picture,
}

words!(NoiseUnit {
    Update = "update",
    Picture = "picture",
}, UnknownNoiseUnit, "there is no unit {name:?} of noise; write {words}", " or ");

/// Key of S_f in the string form, with and without clipping.
const SENSITIVITY: [&str; 2] = ["clip", "unclipped"];

/// A parameter that is out of range or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNoiseError {
    #[error("{key}: \"{given}\" is not valid; give a number {range}")]
    Value { key: &'static str, given: String, range: &'static str },
    #[error(
        "there is no parameter \"{0}\"; write eps=4,delta=1e-5,clip=0.5, or unclipped=0.5 for noise without clipping, and \
         per=picture to clip each picture's gradient"
    )]
    Key(String),
    #[error(transparent)]
    Unit(#[from] UnknownNoiseUnit),
    #[error("per=picture clips each picture's gradient; give clip={0} instead of unclipped={0}")]
    Unclipped(String),
}

impl GaussianNoise {
    pub(super) const PARAMETERS: [NumberParameter; 3] = [
        NumberParameter { key: "eps", symbol: "ε", title: "epsilon asked of one round" },
        NumberParameter { key: "delta", symbol: "δ", title: "delta asked of one round" },
        NumberParameter { key: "clip", symbol: "clip S_f", title: "S_f, the length to which an update is shortened" },
    ];

    /// Noise with clipping to S_f = `clip`.
    ///
    /// # Errors
    /// Epsilon or S_f is not above 0, or delta is not between 0 and 1.
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
        Ok(Self { epsilon, delta, sensitivity: clip, is_clipped: true, unit: NoiseUnit::Update })
    }

    /// The same noise on each picture's clipped gradient.
    #[must_use]
    pub fn per_picture(self) -> Self {
        Self { is_clipped: true, unit: NoiseUnit::Picture, ..self }
    }

    /// What one of `clients` adds so that the sum of theirs has this noise: a standard deviation of 1 / sqrt(clients).
    #[must_use]
    pub fn shared_by(self, clients: usize) -> Self {
        Self { epsilon: self.epsilon * (clients.max(1) as f64).sqrt(), ..self }
    }

    /// What this noise does to a mean of `pictures` gradients that were clipped one by one: it is no longer clipped, and
    /// the deviation is divided by their number. Noise of whole updates stays as it is.
    #[must_use]
    pub fn of_mean(self, pictures: u32) -> Self {
        match self.unit {
            NoiseUnit::Update => self,
            NoiseUnit::Picture => {
                let sensitivity = self.sensitivity / f64::from(pictures.max(1));
                Self { sensitivity, is_clipped: false, unit: NoiseUnit::Update, ..self }
            }
        }
    }

    pub fn unit(&self) -> NoiseUnit {
        self.unit
    }

    /// S_f, if the gradient of each picture is clipped to it.
    pub fn clip_of_picture(&self) -> Option<f64> {
        (self.unit == NoiseUnit::Picture).then_some(self.sensitivity)
    }

    /// The same noise without clipping.
    #[must_use]
    pub fn unclipped(self) -> Self {
        Self { is_clipped: false, ..self }
    }

    /// The epsilon requested for one round.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// S_f.
    pub fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    /// S_f, if updates are clipped to it.
    pub fn clip(&self) -> Option<f64> {
        self.is_clipped.then_some(self.sensitivity)
    }

    pub fn sensitivity_key(&self) -> &'static str {
        SENSITIVITY[usize::from(!self.is_clipped)]
    }

    /// sigma = sqrt(2 ln(1.25 / delta)) / epsilon, in units of S_f.
    pub fn sigma(&self) -> f64 {
        (2.0 * (1.25 / self.delta).ln()).sqrt() / self.epsilon
    }

    /// Standard deviation of the noise on each value.
    pub fn deviation(&self) -> f64 {
        self.sensitivity * self.sigma()
    }

    pub(super) fn phrase(&self) -> String {
        let bound = match (self.unit, self.is_clipped) {
            (NoiseUnit::Picture, _) => "each picture clipped to",
            (NoiseUnit::Update, true) => "clipped to",
            (NoiseUnit::Update, false) => "not clipped, S_f =",
        };
        format!("ε = {}, δ = {}, {bound} {}", self.epsilon, short(self.delta), self.sensitivity)
    }
}

impl Default for GaussianNoise {
    fn default() -> Self {
        Self { epsilon: 4.0, delta: 1e-5, sensitivity: 0.5, is_clipped: true, unit: NoiseUnit::Update }
    }
}

impl fmt::Display for GaussianNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (delta, key) = (short(self.delta), self.sensitivity_key());
        write!(f, "eps={},delta={delta},{key}={}", self.epsilon, self.sensitivity)?;
        if self.unit == NoiseUnit::Picture { write!(f, ",per={}", self.unit) } else { Ok(()) }
    }
}

/// Formats delta as `0.5`, but `1e-5`.
fn short(delta: f64) -> String {
    if delta < 1e-3 { format!("{delta:e}") } else { delta.to_string() }
}

impl FromStr for GaussianNoise {
    type Err = ParseNoiseError;

    fn from_str(text: &str) -> Result<Self, ParseNoiseError> {
        let mut noise = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| ParseNoiseError::Key(part.trim().to_owned()))?;
            let (key, place) = match key.trim() {
                "per" => {
                    noise.unit = value.trim().parse()?;
                    continue;
                }
                "eps" => ("eps", &mut noise.epsilon),
                "delta" => ("delta", &mut noise.delta),
                key if SENSITIVITY.contains(&key) => {
                    noise.is_clipped = key == SENSITIVITY[0];
                    (noise.sensitivity_key(), &mut noise.sensitivity)
                }
                key => return Err(ParseNoiseError::Key(key.to_owned())),
            };
            let given = value.trim();
            let bad =
                |_| ParseNoiseError::Value { key, given: given.to_owned(), range: "such as 0.5, or 1e-5 for delta" };
            *place = given.parse().map_err(bad)?;
        }
        let checked = Self::new(noise.epsilon, noise.delta, noise.sensitivity)?;
        match (noise.unit, noise.is_clipped) {
            (NoiseUnit::Update, true) => Ok(checked),
            (NoiseUnit::Update, false) => Ok(checked.unclipped()),
            (NoiseUnit::Picture, true) => Ok(checked.per_picture()),
            (NoiseUnit::Picture, false) => Err(ParseNoiseError::Unclipped(noise.sensitivity.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// FLRSP Table 1: delta 0.5, S_f 0.5.
    #[test]
    fn deviations_are_those_of_the_paper() {
        for (epsilon, deviation) in [(1.0, 0.677), (2.0, 0.338), (4.0, 0.169)] {
            let noise = GaussianNoise::new(epsilon, 0.5, 0.5).unwrap();
            assert!((noise.deviation() - deviation).abs() < 5e-4, "{}", noise.deviation());
        }
    }

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("eps=0", "eps: \"0\""),
            ("eps=4,delta=1", "delta: \"1\""),
            ("clip=inf", "clip: \"inf\""),
            ("unclipped=many", "unclipped: \"many\""),
            ("eps=four", "eps: \"four\""),
            ("sigma=3", "no parameter \"sigma\""),
            ("per=pixel", "no unit \"pixel\" of noise; write update or picture"),
            ("unclipped=2,per=picture", "give clip=2"),
            ("4", "no parameter \"4\""),
        ] {
            let error = text.parse::<GaussianNoise>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn noise_of_a_mean_is_divided_by_its_pictures_and_shares_add_up() {
        let noise = GaussianNoise::default();
        assert_eq!(noise.of_mean(8), noise);
        let mean = noise.per_picture().of_mean(8);
        assert!((mean.deviation() * 8.0 - noise.deviation()).abs() < 1e-12 && mean.clip().is_none());
        assert!((noise.shared_by(9).deviation() * 3.0 - noise.deviation()).abs() < 1e-12);
        assert_eq!(noise.per_picture().shared_by(9).unit(), NoiseUnit::Picture);
    }

    proptest! {
        #[test]
        fn string_form_round_trips(epsilon in 1e-3f64..1e3, exponent in -12.0f64..-0.01, clip in 1e-6f64..1e6) {
            let noise = GaussianNoise::new(epsilon, 10f64.powf(exponent), clip).unwrap();
            for noise in [noise, noise.unclipped(), noise.per_picture()] {
                prop_assert_eq!(noise.to_string().parse::<GaussianNoise>().unwrap(), noise);
            }
        }
    }
}
