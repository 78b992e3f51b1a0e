//! The choice of a defence, and its one string form.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unmask_params::{ParamGroup, ParamLayout};

use crate::{Mask, MaskSeed, ProtectedUpdate, RateError, ZeroRate};

/// A defence, as the teacher chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Defence {
    /// The plain update leaves the device.
    #[default]
    None,
    /// The update of the position embedding is zeroed (APRIL, section 6).
    FixedPosition,
    /// Each value is dropped with probability R, under a mask of its own for each round and client (RBW; FLRSP under
    /// FedSGD).
    RandomBinary {
        /// Share of zeros R.
        rate: ZeroRate,
    },
}

impl Defence {
    /// Protects a plain update, `[P]` values in `layout` order.
    ///
    /// `seed` is used by [`Defence::RandomBinary`] alone; it must be fresh for each call.
    pub fn protect(self, layout: &ParamLayout, mut plain_update: Vec<f32>, seed: MaskSeed) -> ProtectedUpdate {
        match self {
            Self::None => ProtectedUpdate::Dense(plain_update),
            Self::FixedPosition => {
                for range in layout.group_ranges(ParamGroup::Position) {
                    if let Some(values) = plain_update.get_mut(range) {
                        values.fill(0.0);
                    }
                }
                ProtectedUpdate::Dense(plain_update)
            }
            Self::RandomBinary { rate } => {
                let mut kept =
                    Vec::with_capacity((plain_update.len() as f64 * (1.0 - rate.get()) * 1.02) as usize + 64);
                let mask = Mask::new(seed, rate, plain_update.len());
                for (values, (word, _)) in plain_update.chunks(64).zip(mask) {
                    let mut word = word;
                    while word != 0 {
                        kept.push(values[word.trailing_zeros() as usize]);
                        word &= word - 1;
                    }
                }
                ProtectedUpdate::Masked { seed, rate, kept }
            }
        }
    }
}

impl fmt::Display for Defence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::FixedPosition => f.write_str("fixed-position"),
            Self::RandomBinary { rate } => write!(f, "random-binary:{rate}"),
        }
    }
}

/// A string that names no defence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDefenceError {
    /// The part before the colon is unknown.
    #[error("unknown defence \"{0}\"; the defences are none, fixed-position and random-binary:R")]
    Name(String),
    /// The rate is missing or bad.
    #[error("random-binary: {0}")]
    Rate(#[from] RateError),
    /// Something follows a defence that takes nothing.
    #[error("{name} takes no parameter, but \"{surplus}\" follows it")]
    Surplus {
        /// The defence.
        name: &'static str,
        /// What follows.
        surplus: String,
    },
}

impl FromStr for Defence {
    type Err = ParseDefenceError;

    fn from_str(text: &str) -> Result<Self, ParseDefenceError> {
        let (name, parameter) = text.trim().split_once(':').map_or((text.trim(), None), |(n, p)| (n, Some(p)));
        let bare = |defence: Self, name| match parameter {
            None => Ok(defence),
            Some(surplus) => Err(ParseDefenceError::Surplus { name, surplus: surplus.to_owned() }),
        };
        match name {
            "none" => bare(Self::None, "none"),
            "fixed-position" => bare(Self::FixedPosition, "fixed-position"),
            "random-binary" => Ok(Self::RandomBinary { rate: parameter.unwrap_or_default().parse()? }),
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
    use unmask_params::{ModelSpec, Preset};

    use super::*;

    fn layout() -> ParamLayout {
        ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config())
    }

    fn plain(len: usize) -> Vec<f32> {
        (0..len).map(|i| i as f32 + 1.0).collect()
    }

    #[test]
    fn fixed_position_zeroes_that_and_nothing_else() {
        let layout = layout();
        let update =
            Defence::FixedPosition.protect(&layout, plain(layout.len()), MaskSeed([0; 32])).expand(layout.len());
        for param in &layout {
            let zeros = update.as_ref().unwrap()[param.range.clone()].iter().filter(|&&v| v == 0.0).count();
            assert_eq!(zeros, if param.name == "pos_embed" { param.range.len() } else { 0 }, "{}", param.name);
        }
    }

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        let error = |text: &str| text.parse::<Defence>().unwrap_err().to_string();
        assert!(error("masks").contains("unknown defence \"masks\""));
        assert!(error("random-binary").contains("\"\" is no share of zeros"));
        assert!(error("random-binary:1.5").contains("1.5 is no share of zeros"));
        assert!(error("none:3").contains("\"3\" follows"));
    }

    proptest! {
        #[test]
        fn string_form_round_trips(bits in 0u32..65536) {
            for defence in [Defence::None, Defence::FixedPosition, Defence::RandomBinary { rate: ZeroRate::from_bits(bits).unwrap() }] {
                prop_assert_eq!(defence.to_string().parse::<Defence>().unwrap(), defence);
            }
        }

        #[test]
        fn masked_update_is_the_plain_one_with_holes(seed in any::<[u8; 32]>(), bits in 0u32..65536, len in 0usize..500) {
            let rate = ZeroRate::from_bits(bits).unwrap();
            let plain = plain(len);
            let protect = || Defence::RandomBinary { rate }.protect(&layout(), plain.clone(), MaskSeed(seed));
            let update = protect();
            prop_assert_eq!(&update, &protect());
            let expanded = update.expand(len).unwrap();
            let mask: Vec<bool> = Mask::new(MaskSeed(seed), rate, len).entries().collect();
            for i in 0..len {
                prop_assert_eq!(expanded[i], if mask[i] { plain[i] } else { 0.0 });
            }
        }
    }
}
