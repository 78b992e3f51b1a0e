//! The choice of a defence, and its one string form.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{GaussianNoise, GroupRates, ParseNoiseError, ParseRatesError};

/// A defence, as the teacher chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Defence {
    /// The plain update leaves the device.
    #[default]
    None,
    /// The update of the position embedding is zeroed (APRIL, section 6).
    FixedPosition,
    /// Each value is dropped with its group's probability R, under a mask of its own for each round and client (RBW under
    /// FedSGD, FLRSP under both rules).
    RandomBinary {
        /// Shares of zeros R.
        rates: GroupRates,
    },
    /// The same under one common mask for all clients and rounds: the papers' counter-example, since what it drops is
    /// never trained.
    FrozenBinary {
        /// Shares of zeros R.
        rates: GroupRates,
    },
    /// Clipping and Gaussian noise.
    Gaussian(GaussianNoise),
    /// Embeddings multiplied by key matrices; the relay averages what it cannot read.
    Encrypted {
        /// What the relay knows of the model at the start.
        start: Start,
    },
}

/// How a room's encrypted model begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// A client encrypts the model that the relay made, which so knows plain text and cipher text of it.
    #[default]
    Plain,
    /// A client makes and encrypts a model that the relay never sees in the plain.
    Keyed,
}

impl Defence {
    /// The masks' rates, where there are masks.
    pub fn rates(&self) -> Option<&GroupRates> {
        match self {
            Self::RandomBinary { rates } | Self::FrozenBinary { rates } => Some(rates),
            _ => None,
        }
    }

    /// Whether the relay's weights are cipher text.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted { .. })
    }
}

impl fmt::Display for Defence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::FixedPosition => f.write_str("fixed-position"),
            Self::RandomBinary { rates } => write!(f, "random-binary:{rates}"),
            Self::FrozenBinary { rates } => write!(f, "frozen-binary:{rates}"),
            Self::Gaussian(noise) => write!(f, "gaussian:{noise}"),
            Self::Encrypted { start: Start::Plain } => f.write_str("encrypted"),
            Self::Encrypted { start: Start::Keyed } => f.write_str("encrypted:keyed"),
        }
    }
}

/// A string that names no defence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDefenceError {
    /// The part before the colon is unknown.
    #[error(
        "unknown defence \"{0}\"; the defences are none, fixed-position, random-binary:R, frozen-binary:R (or \
         random-binary:patch=R,pos=R,R), gaussian:eps=E,delta=D,clip=S, encrypted and encrypted:keyed"
    )]
    Name(String),
    /// A rate is missing or bad.
    #[error("{defence}: {problem}")]
    Rates {
        /// The defence.
        defence: &'static str,
        /// What is wrong with its rates.
        problem: ParseRatesError,
    },
    /// A parameter of the noise is bad.
    #[error("gaussian: {0}")]
    Noise(#[from] ParseNoiseError),
    /// Not a way to begin.
    #[error("encrypted: there is no start \"{0}\"; write encrypted for the plain start, or encrypted:keyed")]
    Start(String),
    /// Something follows a defence that takes nothing.
    #[error("{defence} takes no parameter, but \"{surplus}\" follows it")]
    Surplus {
        /// The defence.
        defence: &'static str,
        /// What follows.
        surplus: String,
    },
}

impl FromStr for Defence {
    type Err = ParseDefenceError;

    fn from_str(text: &str) -> Result<Self, ParseDefenceError> {
        let (name, parameters) = text.trim().split_once(':').map_or((text.trim(), None), |(n, p)| (n, Some(p)));
        let bare = |result: Self, defence| match parameters {
            None => Ok(result),
            Some(surplus) => Err(ParseDefenceError::Surplus { defence, surplus: surplus.to_owned() }),
        };
        let rates = |defence| {
            let rates = parameters.unwrap_or_default().parse::<GroupRates>();
            rates.map_err(|problem| ParseDefenceError::Rates { defence, problem })
        };
        match name {
            "none" => bare(Self::None, "none"),
            "fixed-position" => bare(Self::FixedPosition, "fixed-position"),
            "random-binary" => Ok(Self::RandomBinary { rates: rates("random-binary")? }),
            "frozen-binary" => Ok(Self::FrozenBinary { rates: rates("frozen-binary")? }),
            "gaussian" => Ok(Self::Gaussian(parameters.unwrap_or_default().parse()?)),
            "encrypted" => match parameters.map(str::trim) {
                None | Some("plain") => Ok(Self::Encrypted { start: Start::Plain }),
                Some("keyed") => Ok(Self::Encrypted { start: Start::Keyed }),
                Some(other) => Err(ParseDefenceError::Start(other.to_owned())),
            },
            _ => Err(ParseDefenceError::Name(name.to_owned())),
        }
    }
}

impl Serialize for Defence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Defence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("masks", "unknown defence \"masks\""),
            ("random-binary", "random-binary: \"\" is no share of zeros"),
            ("random-binary:1.5", "random-binary: 1.5 is no share of zeros"),
            ("frozen-binary:pos=0.5,bias=1,0.2", "frozen-binary: there is no parameter group \"bias\""),
            ("gaussian:eps=x", "gaussian: eps: \"x\""),
            ("encrypted:secret", "encrypted: there is no start \"secret\""),
            ("none:3", "\"3\" follows"),
        ] {
            let error = text.parse::<Defence>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn written_forms_are_read() {
        for text in [
            "none",
            "fixed-position",
            "random-binary:0.5",
            "random-binary:patch=0.95,pos=0.95,0.2",
            "frozen-binary:0.5",
            "gaussian:eps=4,delta=1e-5,clip=0.5",
            "encrypted",
            "encrypted:keyed",
        ] {
            assert_eq!(text.parse::<Defence>().unwrap().to_string(), text);
        }
        assert_eq!("encrypted:plain".parse::<Defence>().unwrap().to_string(), "encrypted");
        assert_eq!("gaussian".parse::<Defence>().unwrap(), Defence::Gaussian(GaussianNoise::default()));
    }

    proptest! {
        #[test]
        fn string_form_round_trips(bits in any::<[u16; 7]>()) {
            let rates = GroupRates::from_bits(bits);
            for defence in [Defence::RandomBinary { rates }, Defence::FrozenBinary { rates }] {
                prop_assert_eq!(defence.to_string().parse::<Defence>().unwrap(), defence);
            }
        }
    }
}
