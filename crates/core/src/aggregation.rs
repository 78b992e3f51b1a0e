//! How the relay combines the updates of a round.

use std::{fmt, str::FromStr};

use crate::{ParseSecureSumError, SecureSumSettings, text::serde_as_text};

/// How the relay averages a round's updates and treats outliers.
///
/// Written `mean`, `clipped`, `aligned`, `trimmed-mean:0.2`, `median` or `secure-sum:threshold=0.67,clip=1`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Aggregation {
    /// The papers' weighted mean.
    Mean,
    /// The weighted mean, with updates much larger than the rest scaled down to a multiple of the median norm.
    #[default]
    Clipped,
    /// Like `Clipped`, but without updates that point against the others: a norm bound cannot catch a gradient with
    /// flipped sign.
    Aligned,
    /// For each parameter the mean without the smallest and largest values (Yin et al. 2018); every update counts once.
    TrimmedMean {
        /// The share dropped at each end: at least 0 and below 0.5.
        share: f32,
    },
    /// The median of each parameter (Yin et al. 2018); every update counts once.
    Median,
    /// The mean of updates that the relay never sees: the clients mask them so that only their sum can be read (Bonawitz
    /// et al. 2017). Nobody can judge a single update; every update counts once.
    SecureSum(SecureSumSettings),
}

/// A string that names no aggregation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParseAggregationError {
    #[error(
        "\"{0}\" is not an aggregation; choose mean, clipped, aligned, trimmed-mean:0.2, median or secure-sum:clip=1"
    )]
    Name(String),
    #[error(transparent)]
    SecureSum(#[from] ParseSecureSumError),
    /// A share that leaves nothing to average.
    #[error(
        "trimmed-mean cannot drop a share of \"{0}\" at either end; give a number of at least 0 and below 0.5, such as \
         0.2"
    )]
    Share(String),
}

impl Aggregation {
    /// The name without parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Clipped => "clipped",
            Self::Aligned => "aligned",
            Self::TrimmedMean { .. } => "trimmed-mean",
            Self::Median => "median",
            Self::SecureSum(_) => "secure-sum",
        }
    }

    /// What a page calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mean => "Mean",
            Self::Clipped => "Clipped mean",
            Self::Aligned => "Aligned mean",
            Self::TrimmedMean { .. } => "Trimmed mean",
            Self::Median => "Median",
            Self::SecureSum(_) => "Secure sum",
        }
    }

    /// The secure sum, if the relay sees no single update.
    pub fn secure_sum(self) -> Option<SecureSumSettings> {
        if let Self::SecureSum(settings) = self { Some(settings) } else { None }
    }

    /// Extra memory in bytes, on top of the sums, for a round of `updates` updates with `parameters` values each.
    pub fn memory(self, parameters: usize, updates: usize) -> u64 {
        let each = match self {
            Self::Mean | Self::Clipped | Self::SecureSum(_) => 0,
            Self::TrimmedMean { .. } | Self::Median => 4,
            // Under FedAvg, comparing directions also needs the change of the weights.
            Self::Aligned => 8,
        };
        each * parameters as u64 * updates as u64
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Mean | Self::Clipped | Self::Aligned | Self::Median => Ok(()),
            Self::TrimmedMean { share } => write!(f, ":{share}"),
            Self::SecureSum(settings) => write!(f, ":{settings}"),
        }
    }
}

impl FromStr for Aggregation {
    type Err = ParseAggregationError;

    fn from_str(text: &str) -> Result<Self, ParseAggregationError> {
        let text = text.trim();
        if let Some(settings) = text.strip_prefix("secure-sum") {
            let settings = if settings.is_empty() { Some("") } else { settings.strip_prefix(':') };
            let settings = settings.ok_or_else(|| ParseAggregationError::Name(text.to_owned()))?;
            return Ok(Self::SecureSum(settings.parse()?));
        }
        match (text, text.strip_prefix("trimmed-mean:")) {
            ("mean", _) => Ok(Self::Mean),
            ("clipped", _) => Ok(Self::Clipped),
            ("aligned", _) => Ok(Self::Aligned),
            ("median", _) => Ok(Self::Median),
            (_, Some(share)) => share
                .parse()
                .ok()
                .filter(|value| (0.0..0.5).contains(value))
                .map(|share| Self::TrimmedMean { share })
                .ok_or_else(|| ParseAggregationError::Share(share.to_owned())),
            _ => Err(ParseAggregationError::Name(text.to_owned())),
        }
    }
}

serde_as_text!(Aggregation);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_written() {
        for text in [
            "mean",
            "clipped",
            "aligned",
            "trimmed-mean:0.2",
            "trimmed-mean:0",
            "median",
            "secure-sum:threshold=0.67",
            "secure-sum:threshold=0.8,clip=1.5",
        ] {
            assert_eq!(text.parse::<Aggregation>().unwrap().to_string(), text);
        }
        assert_eq!("secure-sum".parse::<Aggregation>().unwrap(), Aggregation::SecureSum(SecureSumSettings::default()));
    }

    #[test]
    fn bad_words_are_named() {
        let error = |text: &str| text.parse::<Aggregation>().unwrap_err().to_string();
        for name in ["krum", "secure-sums", "secure-sum,clip=1"] {
            assert!(error(name).starts_with(&format!("\"{name}\"")), "{}", error(name));
        }
        assert!(error("secure-sum:clip=0").contains("clip: \"0\" is no length"));
        for share in ["0.5", "-0.1", "NaN", "much", ""] {
            assert!(error(&format!("trimmed-mean:{share}")).contains(&format!("\"{share}\"")));
        }
    }

    #[test]
    fn only_what_compares_updates_holds_them() {
        assert_eq!(Aggregation::Clipped.memory(1000, 30), 0);
        assert_eq!(Aggregation::Aligned.memory(1000, 30), 240_000);
        assert_eq!(Aggregation::Median.memory(1000, 30), 120_000);
    }
}
