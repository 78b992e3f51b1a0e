//! The pictures that a room trains on, how shared ones are divided, and the initial weights of a model.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::text::{serde_as_text, words};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrainOn {
    /// Each client's own picture, which stays on its device.
    #[default]
    Private,
    /// Each client's shard of the room's public data set.
    Shared,
}

words!(TrainOn {
    Private = "private",
    Shared = "shared",
}, UnknownTrainOn, "rounds cannot train on {name:?} pictures; choose {words}", " or ");

/// The pictures of a round. Updates on two different divisions are never averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TrainingPictures {
    #[default]
    Private,
    /// Each client's shard of the room's data set.
    Shared {
        /// Number of the division into shards.
        shard: u32,
    },
}

impl TrainingPictures {
    pub fn train_on(self) -> TrainOn {
        match self {
            Self::Private => TrainOn::Private,
            Self::Shared { .. } => TrainOn::Shared,
        }
    }
}

/// How pictures are divided among clients.
///
/// Written `iid` or `dirichlet:0.5`, also in files.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Partition {
    /// Shuffled and dealt out, so that all clients see all classes equally.
    #[default]
    Iid,
    /// For each class, a draw from Dirichlet(alpha, ..., alpha) gives the clients' shares (Hsu, Qi, Brown, 2019): the
    /// smaller alpha, the fewer classes a client sees.
    Dirichlet {
        /// Concentration, from [`Partition::MIN_ALPHA`] to [`Partition::MAX_ALPHA`].
        alpha: f64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown partition \"{0}\"; write iid, or dirichlet:ALPHA with a number from {min} to {max} such as \
         dirichlet:0.5", min = Partition::MIN_ALPHA, max = Partition::MAX_ALPHA)]
pub struct ParsePartitionError(String);

impl Partition {
    /// The smallest alpha: each class goes to one client, so smaller numbers would change nothing.
    pub const MIN_ALPHA: f64 = 1e-6;
    /// The largest alpha: all shares are equal to four digits.
    pub const MAX_ALPHA: f64 = 1e6;
}

impl FromStr for Partition {
    type Err = ParsePartitionError;

    fn from_str(text: &str) -> Result<Self, ParsePartitionError> {
        let error = || ParsePartitionError(text.to_owned());
        match text.split_once(':') {
            None if text == "iid" => Ok(Self::Iid),
            Some(("dirichlet", alpha)) => {
                let alpha: f64 = alpha.parse().map_err(|_| error())?;
                let known = (Self::MIN_ALPHA..=Self::MAX_ALPHA).contains(&alpha);
                if known { Ok(Self::Dirichlet { alpha }) } else { Err(error()) }
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iid => f.write_str("iid"),
            Self::Dirichlet { alpha } => write!(f, "dirichlet:{alpha}"),
        }
    }
}

serde_as_text!(Partition);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialWeights {
    /// Random weights.
    #[default]
    Scratch,
    /// Weights from an earlier training.
    Pretrained,
}

words!(InitialWeights {
    Scratch = "scratch",
    Pretrained = "pretrained",
}, UnknownInitialWeights, "there are no initial weights {name:?}; write {words}", " or ");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms_are_read() {
        for text in ["iid", "dirichlet:0.3", "dirichlet:0.5", "dirichlet:10", "dirichlet:100"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
        for bad in
            ["", "even", "IID!", "dirichlet", "dirichlet:0", "dirichlet:-1", "dirichlet:nan", "dirichlet:inf", "iid:3"]
        {
            let error = bad.parse::<Partition>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{bad}\"")) && error.contains("dirichlet:0.5"), "{error}");
        }
    }

    #[test]
    fn words_are_read_and_others_named() {
        for weights in InitialWeights::ALL {
            assert_eq!(weights.to_string().parse(), Ok(weights));
        }
        assert!("zero".parse::<InitialWeights>().unwrap_err().to_string().ends_with("write scratch or pretrained"));
        for train_on in TrainOn::ALL {
            assert_eq!(train_on.to_string().parse(), Ok(train_on));
        }
        let error = "other".parse::<TrainOn>().unwrap_err().to_string();
        assert_eq!(error, "rounds cannot train on \"other\" pictures; choose private or shared");
    }
}
