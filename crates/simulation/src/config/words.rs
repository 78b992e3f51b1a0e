//! Text forms of start, slice, schedule and mask period.

use std::{convert::Infallible, f64::consts::PI, fmt, ops::Range, path::PathBuf, str::FromStr};

use unmask_core::{InitialWeights, serde_as_text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartWeights {
    /// Drawn from the seed, or included in the program.
    Initial(InitialWeights),
    /// A file of tensors.
    File(PathBuf),
}

impl fmt::Display for StartWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial(weights) => write!(f, "{weights}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for StartWeights {
    type Err = Infallible;

    /// Takes any text that is not one of [`InitialWeights`] as a path.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::File(text.into()), Self::Initial))
    }
}

/// A contiguous range of the training pictures: `start..end`, without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a range of pictures; write START..END such as 0..40000, which excludes END")]
pub struct ParseSliceError(String);

impl Slice {
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl FromStr for Slice {
    type Err = ParseSliceError;

    fn from_str(text: &str) -> Result<Self, ParseSliceError> {
        let error = || ParseSliceError(text.to_owned());
        let (start, end) = text.split_once("..").ok_or_else(error)?;
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| error());
        let slice = Self { start: number(start)?, end: number(end)? };
        if slice.start < slice.end { Ok(slice) } else { Err(error()) }
    }
}

/// How the learning rate changes over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    #[default]
    Constant,
    /// A linear rise over `warmup` rounds, then a fall to 0 along half a cosine (Loshchilov and Hutter, 2017).
    Cosine {
        /// Number of rounds of the rise.
        warmup: u32,
    },
}

impl Schedule {
    /// The factor of the rate in round `round` of `rounds`, counted from 0.
    pub fn factor(self, round: u32, rounds: u32) -> f32 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine { warmup } if round < warmup => ((f64::from(round) + 1.0) / f64::from(warmup)) as f32,
            Self::Cosine { warmup } => {
                let fall = f64::from(rounds.saturating_sub(warmup).max(1));
                let done = f64::from(round.saturating_sub(warmup)) / fall;
                (0.5 * (1.0 + (PI * done.min(1.0)).cos())) as f32
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a schedule; write constant, or cosine:warmup=ROUNDS such as cosine:warmup=100")]
pub struct ParseScheduleError(String);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Cosine { warmup } => write!(f, "cosine:warmup={warmup}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, ParseScheduleError> {
        let error = || ParseScheduleError(text.to_owned());
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            None if text == "cosine" => Ok(Self::Cosine { warmup: 0 }),
            Some(("cosine", warmup)) => {
                let rounds = warmup.trim().strip_prefix("warmup=").ok_or_else(error)?;
                Ok(Self::Cosine { warmup: rounds.trim().parse().map_err(|_| error())? })
            }
            _ => Err(error()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaskPeriod {
    /// One round, as in FLRSP and in rooms.
    #[default]
    Round,
    /// One pass over the client's pictures, as in RBW.
    Epoch,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a mask period; write round or epoch")]
pub struct ParseMaskPeriodError(String);

impl fmt::Display for MaskPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Round => "round",
            Self::Epoch => "epoch",
        })
    }
}

impl FromStr for MaskPeriod {
    type Err = ParseMaskPeriodError;

    fn from_str(text: &str) -> Result<Self, ParseMaskPeriodError> {
        let known = [Self::Round, Self::Epoch].into_iter().find(|period| period.to_string() == text.trim());
        known.ok_or_else(|| ParseMaskPeriodError(text.to_owned()))
    }
}

serde_as_text!(StartWeights, Slice, Schedule, MaskPeriod);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosine_rises_evenly_and_falls_to_nothing() {
        let schedule = "cosine:warmup=4".parse::<Schedule>().unwrap();
        let factors: Vec<f32> = (0..12).map(|round| schedule.factor(round, 12)).collect();
        assert_eq!(factors[..5], [0.25, 0.5, 0.75, 1.0, 1.0]);
        assert!(factors[4..].windows(2).all(|pair| pair[1] < pair[0]), "{factors:?}");
        assert!((factors[8] - 0.5).abs() < 1e-6 && factors[11] < 0.05 && factors[11] > 0.0, "{factors:?}");
        assert_eq!(schedule.factor(99, 12), 0.0);
        assert_eq!(Schedule::Constant.factor(7, 12), 1.0);
    }

    #[test]
    fn written_forms_are_read() {
        for text in ["constant", "cosine:warmup=100"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!("0..40000".parse::<Slice>().unwrap().range(), 0..40000);
        for text in ["4..4", "5..2", "3", "-1..2", "1..x"] {
            assert!(text.parse::<Slice>().unwrap_err().to_string().contains("0..40000"), "{text}");
        }
        for text in ["linear", "cosine:4", "cosine:warmup=x", "constant:1"] {
            assert!(text.parse::<Schedule>().unwrap_err().to_string().contains("cosine:warmup=100"), "{text}");
        }
        for text in ["round", "epoch"] {
            assert_eq!(text.parse::<MaskPeriod>().unwrap().to_string(), text);
        }
        assert!("batch".parse::<MaskPeriod>().unwrap_err().to_string().ends_with("write round or epoch"));
        for text in ["scratch", "pretrained", "my/model.safetensors"] {
            assert_eq!(text.parse::<StartWeights>().unwrap().to_string(), text);
        }
    }
}
