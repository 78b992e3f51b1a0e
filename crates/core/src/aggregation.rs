//! How a round's updates become one.

use std::{fmt, str::FromStr};

use crate::text::serde_as_text;

/// How the relay averages the updates of a round, and what it does about one that stands out.
///
/// Written `mean`, `clipped`, `aligned`, `trimmed-mean:0.2` or `median`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Aggregation {
    /// The papers' weighted mean of the updates as they come.
    Mean,
    /// The weighted mean, with what is much larger than the others scaled down to a multiple of their median norm.
    #[default]
    Clipped,
    /// The same without the updates that point against the others: a gradient with its sign turned is as long as an honest
    /// one.
    Aligned,
    /// For each parameter the mean of the values that are left without the smallest and the largest ones (Yin et al. 2018);
    /// every update counts once.
    TrimmedMean {
        /// The share dropped at either end, of at least 0 and below 0.5.
        share: f32,
    },
    /// For each parameter the median of the values (Yin et al. 2018); every update counts once.
    Median,
}

/// A string that names no aggregation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseAggregationError {
    /// An unknown name.
    #[error("\"{0}\" is no way to average updates; choose mean, clipped, aligned, trimmed-mean:0.2 or median")]
    Name(String),
    /// A share that leaves nothing to average.
    #[error(
        "trimmed-mean cannot drop a share of \"{0}\" at either end; give a number of at least 0 and below 0.5, such as 0.2"
    )]
    Share(String),
}

impl Aggregation {
    /// Whether it takes each parameter's values by their size, so that every update counts once.
    pub fn sorts_values(self) -> bool {
        matches!(self, Self::TrimmedMean { .. } | Self::Median)
    }

    /// Whether a much larger update than the others is scaled down to a multiple of their median norm.
    pub fn bounds_norms(self) -> bool {
        matches!(self, Self::Clipped | Self::Aligned)
    }

    /// Bytes that a round of `updates` updates of `parameters` values holds besides the sums.
    pub fn memory(self, parameters: usize, updates: usize) -> u64 {
        let each = match self {
            Self::Mean | Self::Clipped => 0,
            Self::TrimmedMean { .. } | Self::Median => 4,
            // Under FedAvg what they change the weights by as well.
            Self::Aligned => 8,
        };
        each * parameters as u64 * updates as u64
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Clipped => f.write_str("clipped"),
            Self::Aligned => f.write_str("aligned"),
            Self::TrimmedMean { share } => write!(f, "trimmed-mean:{share}"),
            Self::Median => f.write_str("median"),
        }
    }
}

impl FromStr for Aggregation {
    type Err = ParseAggregationError;

    fn from_str(text: &str) -> Result<Self, ParseAggregationError> {
        let text = text.trim();
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
        for text in ["mean", "clipped", "aligned", "trimmed-mean:0.2", "trimmed-mean:0", "median"] {
            assert_eq!(text.parse::<Aggregation>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_words_are_named() {
        let error = |text: &str| text.parse::<Aggregation>().unwrap_err().to_string();
        assert!(error("krum").starts_with("\"krum\""));
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
