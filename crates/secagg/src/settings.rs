//! The choice of a secure sum, as people write it.

use std::{fmt, str::FromStr};

use crate::{Threshold, UnknownThreshold};

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
}
