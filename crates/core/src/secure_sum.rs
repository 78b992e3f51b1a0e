//! The choice of a secure sum (Bonawitz et al. 2017), as people write it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Architecture, Defence, text::serde_as_text};

/// The least share of the clients that must stay until the end, in (0.5, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Threshold {
    percent: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no threshold: give a share of the clients above 0.5 and up to 1, such as 0.67")]
pub struct UnknownThreshold(String);

impl Threshold {
    pub const TWO_THIRDS: Self = Self { percent: 67 };

    /// The number of clients of `all` that must stay.
    pub fn of(self, all: usize) -> usize {
        (all * usize::from(self.percent)).div_ceil(100)
    }
}

/// Two thirds.
impl Default for Threshold {
    fn default() -> Self {
        Self::TWO_THIRDS
    }
}

impl TryFrom<u8> for Threshold {
    type Error = UnknownThreshold;

    /// From a share in per cent.
    fn try_from(percent: u8) -> Result<Self, UnknownThreshold> {
        // With half of the clients, a relay could split them and get both secrets of a client.
        if (51..=100).contains(&percent) { Ok(Self { percent }) } else { Err(UnknownThreshold(format!("{percent} %"))) }
    }
}

impl From<Threshold> for u8 {
    fn from(threshold: Threshold) -> Self {
        threshold.percent
    }
}

impl FromStr for Threshold {
    type Err = UnknownThreshold;

    fn from_str(text: &str) -> Result<Self, UnknownThreshold> {
        let unknown = || UnknownThreshold(text.to_owned());
        let share: f64 = text.parse().map_err(|_| unknown())?;
        // 0.56 * 100 is a little more than 56.
        let percent = (share * 100.0 - 1e-9).ceil();
        if !(percent > 50.0 && percent <= 100.0) {
            return Err(unknown());
        }
        Self::try_from(percent as u8).map_err(|_| unknown())
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.percent) / 100.0).fmt(f)
    }
}

/// A secure sum, such as `threshold=0.67,clip=1`: how many of the clients must stay, and the length to which each of
/// them shortens its update.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SecureSumSettings {
    pub threshold: Threshold,
    /// L2 norm. `None` leaves it to the defence: Gaussian noise clips by itself.
    pub clip: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParseSecureSumError {
    #[error(transparent)]
    Threshold(#[from] UnknownThreshold),
    #[error("clip: \"{0}\" is no length; give a number above 0, such as 1")]
    Clip(String),
    #[error("a secure sum has no parameter \"{0}\"; write threshold=0.67,clip=1")]
    Key(String),
}

impl FromStr for SecureSumSettings {
    type Err = ParseSecureSumError;

    fn from_str(text: &str) -> Result<Self, ParseSecureSumError> {
        let mut settings = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| ParseSecureSumError::Key(part.to_owned()))?;
            let value = value.trim();
            match key.trim() {
                "threshold" => settings.threshold = value.parse()?,
                "clip" => {
                    let clip = value.parse().ok().filter(|clip: &f64| clip.is_finite() && *clip > 0.0);
                    settings.clip = Some(clip.ok_or_else(|| ParseSecureSumError::Clip(value.to_owned()))?);
                }
                key => return Err(ParseSecureSumError::Key(key.to_owned())),
            }
        }
        Ok(settings)
    }
}

impl fmt::Display for SecureSumSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "threshold={}", self.threshold)?;
        self.clip.map_or(Ok(()), |clip| write!(f, ",clip={clip}"))
    }
}

/// Why a secure sum does not fit what it should add up.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SecureSumError {
    #[error(
        "a secure sum adds up plain vectors, which the defence {0} does not send; choose none, fixed-position, random-binary \
         or gaussian with a clip, or leave the secure sum out"
    )]
    Defence(Defence),
    #[error(
        "a secure sum would send the running statistics of {0}'s batch norm as they are; choose a ViT, or leave the secure \
         sum out"
    )]
    Statistics(Architecture),
    #[error(
        "the secure sum \"{settings}\" {} with defence = \"{defence}\"; {}",
        if settings.clip.is_some() { "clips a second time" } else { "clips nothing" },
        if settings.clip.is_some() { "leave its clip out, the noise has one" } else { "add a length, such as clip=1" },
    )]
    Clip { settings: SecureSumSettings, defence: Defence },
}

impl SecureSumSettings {
    /// Updates of which a sum hides each from the others. With two, each has the other's as the sum less its own.
    pub const LEAST: u32 = 3;

    /// Checks that updates under `defence` are plain vectors with a bound on every value: the noise's own clip or, without
    /// noise, the sum's.
    ///
    /// # Errors
    /// [`SecureSumError`].
    pub fn check_defence(self, defence: Defence) -> Result<(), SecureSumError> {
        let clips_itself = match defence {
            Defence::None | Defence::FixedPosition | Defence::RandomBinary { .. } => false,
            Defence::Gaussian(noise) if noise.clip().is_some() => true,
            _ => return Err(SecureSumError::Defence(defence)),
        };
        if clips_itself == self.clip.is_some() {
            return Err(SecureSumError::Clip { settings: self, defence });
        }
        Ok(())
    }

    /// Checks that a client has nothing but its update to send.
    ///
    /// # Errors
    /// [`SecureSumError::Statistics`].
    pub fn check_model(self, architecture: Architecture) -> Result<(), SecureSumError> {
        let is_plain = architecture.statistics().is_empty();
        if is_plain { Ok(()) } else { Err(SecureSumError::Statistics(architecture)) }
    }
}

serde_as_text!(SecureSumSettings);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["threshold=0.67", "threshold=0.8,clip=1.5"] {
            assert_eq!(text.parse::<SecureSumSettings>().unwrap().to_string(), text);
        }
        assert_eq!("".parse::<SecureSumSettings>().unwrap(), SecureSumSettings::default());
        for (text, expected) in [
            ("threshold=0.5", "\"0.5\" is no threshold"),
            ("clip=-1", "clip: \"-1\" is no length"),
            ("clip=NaN", "clip: \"NaN\" is no length"),
            ("share=0.7", "no parameter \"share\"; write threshold=0.67,clip=1"),
            ("0.7", "no parameter \"0.7\""),
        ] {
            let error = text.parse::<SecureSumSettings>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_added_up_is_refused_in_words() {
        let clipped: SecureSumSettings = "clip=1".parse().unwrap();
        let refused = |settings: SecureSumSettings, defence: &str| {
            settings.check_defence(defence.parse().unwrap()).unwrap_err().to_string()
        };
        assert!(refused(clipped, "frozen-binary:0.5").contains("which the defence frozen-binary:0.5 does not send"));
        assert!(refused(clipped, "gaussian").contains("clips a second time"));
        assert!(refused(SecureSumSettings::default(), "none").contains("add a length, such as clip=1"));
        for (settings, defence) in [
            (clipped, "none"),
            (clipped, "random-binary:0.5"),
            (clipped, "fixed-position"),
            (Default::default(), "gaussian"),
        ] {
            settings.check_defence(defence.parse().unwrap()).unwrap();
        }
        assert!(clipped.check_model(crate::ResnetPreset::Nano.into()).is_err());
        clipped.check_model(crate::VitPreset::Nano.into()).unwrap();
    }
}
