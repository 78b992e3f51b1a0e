//! Defences: their string form, and the properties that other crates ask about.
//!
//! Only `unmask-defence` matches on the defence; rounds, attacks and pages use these properties.

mod noise;
mod rates;

use std::{fmt, str::FromStr};

pub use self::{
    noise::{GaussianNoise, NoiseUnit, ParseNoiseError, UnknownNoiseUnit},
    rates::{GroupRates, ParseRatesError, RateError, RateRun, ZeroRate},
};
use crate::{
    Architecture, ParamGroup,
    text::{named, serde_as_text, words},
};

/// A defence that the teacher can choose.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Defence {
    /// The client sends the plain update.
    #[default]
    None,
    /// The update of the position embedding is zeroed (APRIL, section 6).
    FixedPosition,
    /// Each value is dropped with its group's probability R. Every client draws a new mask in every round (RBW under
    /// FedSGD, FLRSP under both rules).
    RandomBinary { rates: GroupRates },
    /// The same with one mask for all clients and rounds: the papers' counter-example, since the dropped parameters are
    /// never trained.
    FrozenBinary { rates: GroupRates },
    /// Clipping and Gaussian noise.
    Gaussian(GaussianNoise),
    /// Embeddings multiplied by key matrices; the relay averages them without the key.
    Encrypted {
        /// How much the relay knows of the initial model.
        start: EncryptionStart,
    },
}

/// The start of a room's encrypted model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncryptionStart {
    /// A client encrypts a model that the relay made, so the relay knows both plain text and cipher text.
    #[default]
    Plain,
    /// A client makes and encrypts the model; the relay never sees the plain weights.
    Keyed,
}

words!(EncryptionStart {
    Plain = "plain",
    Keyed = "keyed",
}, UnknownEncryptionStart, "unknown start of an encrypted model {name:?}; write {words}", " or ");

/// A defence without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefenceKind {
    None,
    FixedPosition,
    RandomBinary,
    FrozenBinary,
    Gaussian,
    Encrypted,
}

named!(DefenceKind {
    None = "none",
    FixedPosition = "fixed-position",
    RandomBinary = "random-binary",
    FrozenBinary = "frozen-binary",
    Gaussian = "gaussian",
    Encrypted = "encrypted",
});

impl DefenceKind {
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::FixedPosition => "Fixed position",
            Self::RandomBinary => "Random binary weights",
            Self::FrozenBinary => "Frozen binary weights",
            Self::Gaussian => "Gaussian noise",
            Self::Encrypted => "Encrypted",
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Self::None => "Every value leaves the tab as it was computed.",
            Self::FixedPosition => "The position embedding is not trained: its update is withheld.",
            Self::RandomBinary => "Each tab drops each value with probability R, under a fresh mask in every round.",
            Self::FrozenBinary => {
                "One mask for all tabs and all rounds: the values that it drops are never trained. The papers’ \
                 counter-example."
            }
            Self::Gaussian => "Each tab shortens its update to length S_f and adds noise to every value.",
            Self::Encrypted => {
                "The embeddings are multiplied by keys made from a passphrase that stays in the tabs; the relay \
                 averages them unread."
            }
        }
    }

    /// The parameters that a person can set in a form.
    pub fn numbers(self) -> &'static [NumberParameter] {
        match self {
            Self::Gaussian => &GaussianNoise::PARAMETERS,
            _ => &[],
        }
    }
}

/// A numeric parameter of a defence, as a form shows it. The defence's parser checks the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberParameter {
    /// Key in the string form, such as `eps` in `gaussian:eps=4`.
    pub key: &'static str,
    /// Symbol in equations, such as `ε`.
    pub symbol: &'static str,
    pub title: &'static str,
}

/// The defence protects embeddings, but the model has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} protects embeddings, and {architecture} has none; choose another defence, or a ViT", kind.title())]
pub struct NoEmbeddings {
    pub kind: DefenceKind,
    pub architecture: Architecture,
}

/// The defence with its default parameters.
impl From<DefenceKind> for Defence {
    fn from(kind: DefenceKind) -> Self {
        let rates = GroupRates::uniform(ZeroRate::nearest(0.5));
        match kind {
            DefenceKind::None => Self::None,
            DefenceKind::FixedPosition => Self::FixedPosition,
            DefenceKind::RandomBinary => Self::RandomBinary { rates },
            DefenceKind::FrozenBinary => Self::FrozenBinary { rates },
            DefenceKind::Gaussian => Self::Gaussian(GaussianNoise::default()),
            DefenceKind::Encrypted => Self::Encrypted { start: EncryptionStart::default() },
        }
    }
}

impl Defence {
    pub fn kind(&self) -> DefenceKind {
        match self {
            Self::None => DefenceKind::None,
            Self::FixedPosition => DefenceKind::FixedPosition,
            Self::RandomBinary { .. } => DefenceKind::RandomBinary,
            Self::FrozenBinary { .. } => DefenceKind::FrozenBinary,
            Self::Gaussian(_) => DefenceKind::Gaussian,
            Self::Encrypted { .. } => DefenceKind::Encrypted,
        }
    }

    /// Checks that the defence applies to this model.
    ///
    /// # Errors
    /// The defence changes only embeddings, and the model has none.
    pub fn check(&self, architecture: Architecture) -> Result<(), NoEmbeddings> {
        let needs_embeddings = self.is_encrypted() || self.fixes(ParamGroup::Position);
        if needs_embeddings && architecture.vit().is_none() {
            return Err(NoEmbeddings { kind: self.kind(), architecture });
        }
        Ok(())
    }

    /// The mask's rates, if the defence drops values.
    pub fn rates(&self) -> Option<&GroupRates> {
        match self {
            Self::RandomBinary { rates } | Self::FrozenBinary { rates } => Some(rates),
            _ => None,
        }
    }

    /// The same defence with other rates, if it has rates.
    #[must_use]
    pub fn with_rates(self, rates: GroupRates) -> Self {
        match self {
            Self::RandomBinary { .. } => Self::RandomBinary { rates },
            Self::FrozenBinary { .. } => Self::FrozenBinary { rates },
            other => other,
        }
    }

    /// Whether each client draws a mask of its own.
    pub fn has_own_mask(&self) -> bool {
        matches!(self, Self::RandomBinary { .. })
    }

    /// Whether all clients and rounds share one mask.
    pub fn has_common_mask(&self) -> bool {
        matches!(self, Self::FrozenBinary { .. })
    }

    /// Whether parameters of this group are frozen: their gradients are zero, their weights come back unchanged.
    pub fn fixes(&self, group: ParamGroup) -> bool {
        *self == Self::FixedPosition && group == ParamGroup::Position
    }

    /// The noise added to every value, if any.
    pub fn noise(&self) -> Option<&GaussianNoise> {
        match self {
            Self::Gaussian(noise) => Some(noise),
            _ => None,
        }
    }

    /// The start of the encrypted model, if updates are encrypted.
    pub fn encryption(&self) -> Option<EncryptionStart> {
        match self {
            Self::Encrypted { start } => Some(*start),
            _ => None,
        }
    }

    pub fn is_encrypted(&self) -> bool {
        self.encryption().is_some()
    }

    /// The values of [`DefenceKind::numbers`], in the same order.
    pub fn numbers(&self) -> Vec<f64> {
        self.noise().map_or(Vec::new(), |noise| vec![noise.epsilon(), noise.delta(), noise.sensitivity()])
    }

    /// The defence as a phrase, such as `random binary weights, R = 0.5`.
    pub fn phrase(&self) -> String {
        match self {
            Self::None => "no defence".to_owned(),
            Self::FixedPosition => "fixed position".to_owned(),
            Self::RandomBinary { rates } => format!("random binary weights, {}", rates.phrase()),
            Self::FrozenBinary { rates } => format!("frozen binary weights, {}", rates.phrase()),
            Self::Gaussian(noise) => format!("Gaussian noise, {}", noise.phrase()),
            Self::Encrypted { start } => format!("encrypted, {start} start"),
        }
    }

    /// A short label for a curve, such as `R 0.5`.
    pub fn label(&self) -> String {
        let rate = |rates: &GroupRates| rates.single().map_or("by group".to_owned(), |rate| rate.to_string());
        match self {
            Self::None => "none".to_owned(),
            Self::FixedPosition => "fixed position".to_owned(),
            Self::RandomBinary { rates } => format!("R {}", rate(rates)),
            Self::FrozenBinary { rates } => format!("frozen R {}", rate(rates)),
            Self::Gaussian(noise) => format!("noise ε {}", noise.epsilon()),
            Self::Encrypted { start: EncryptionStart::Plain } => "encrypted".to_owned(),
            Self::Encrypted { start: EncryptionStart::Keyed } => "encrypted, keyed".to_owned(),
        }
    }
}

impl fmt::Display for Defence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            Self::None | Self::FixedPosition | Self::Encrypted { start: EncryptionStart::Plain } => Ok(()),
            Self::RandomBinary { rates } | Self::FrozenBinary { rates } => write!(f, ":{rates}"),
            Self::Gaussian(noise) => write!(f, ":{noise}"),
            Self::Encrypted { start } => write!(f, ":{start}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDefenceError {
    #[error(
        "unknown defence \"{0}\"; the defences are none, fixed-position, random-binary:R, frozen-binary:R (or \
         random-binary:patch=R,pos=R,R), gaussian:eps=E,delta=D,clip=S, encrypted and encrypted:keyed"
    )]
    Name(String),
    #[error("{defence}: {problem}")]
    Rates { defence: &'static str, problem: ParseRatesError },
    #[error("gaussian: {0}")]
    Noise(#[from] ParseNoiseError),
    #[error("encrypted: there is no start \"{0}\"; write encrypted for the plain start, or encrypted:keyed")]
    Start(String),
    #[error("{defence} takes no parameter, but \"{surplus}\" follows it")]
    Surplus { defence: &'static str, surplus: String },
}

impl FromStr for Defence {
    type Err = ParseDefenceError;

    fn from_str(text: &str) -> Result<Self, ParseDefenceError> {
        let (name, parameters) = text.trim().split_once(':').map_or((text.trim(), None), |(n, p)| (n, Some(p)));
        let kind = DefenceKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| ParseDefenceError::Name(name.to_owned()))?;
        let defence = kind.name();
        let bare = |result: Self| match parameters {
            None => Ok(result),
            Some(surplus) => Err(ParseDefenceError::Surplus { defence, surplus: surplus.to_owned() }),
        };
        let rates = || {
            let rates = parameters.unwrap_or_default().parse::<GroupRates>();
            rates.map_err(|problem| ParseDefenceError::Rates { defence, problem })
        };
        match kind {
            DefenceKind::None => bare(Self::None),
            DefenceKind::FixedPosition => bare(Self::FixedPosition),
            DefenceKind::RandomBinary => Ok(Self::RandomBinary { rates: rates()? }),
            DefenceKind::FrozenBinary => Ok(Self::FrozenBinary { rates: rates()? }),
            DefenceKind::Gaussian => Ok(Self::Gaussian(parameters.unwrap_or_default().parse()?)),
            DefenceKind::Encrypted => {
                let start = parameters.map_or(Ok(EncryptionStart::Plain), |start| start.trim().parse());
                let start = start.map_err(|unknown| ParseDefenceError::Start(unknown.name))?;
                Ok(Self::Encrypted { start })
            }
        }
    }
}

serde_as_text!(Defence);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("masks", "unknown defence \"masks\""),
            ("random-binary", "random-binary: \"\" is not a share of zeros"),
            ("random-binary:1.5", "random-binary: 1.5 is not a share of zeros"),
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
            "gaussian:eps=4,delta=0.5,unclipped=0.5",
            "encrypted",
            "encrypted:keyed",
        ] {
            assert_eq!(text.parse::<Defence>().unwrap().to_string(), text);
        }
        assert_eq!("encrypted:plain".parse::<Defence>().unwrap().to_string(), "encrypted");
        assert_eq!("gaussian".parse::<Defence>().unwrap(), Defence::Gaussian(GaussianNoise::default()));
    }

    #[test]
    fn defences_are_put_in_words() {
        for (form, phrase, label) in [
            ("none", "no defence", "none"),
            ("fixed-position", "fixed position", "fixed position"),
            ("random-binary:0.5", "random binary weights, R = 0.5", "R 0.5"),
            (
                "random-binary:patch=0.95,pos=0.95,head=0.5,0.2",
                "random binary weights, R = 0.2 but 0.95 for patch embedding and position embedding, 0.5 for head",
                "R by group",
            ),
            ("frozen-binary:0.8", "frozen binary weights, R = 0.8", "frozen R 0.8"),
            ("gaussian:eps=4,delta=1e-5,clip=0.5", "Gaussian noise, ε = 4, δ = 1e-5, clipped to 0.5", "noise ε 4"),
            (
                "gaussian:eps=4,delta=0.5,unclipped=0.5",
                "Gaussian noise, ε = 4, δ = 0.5, not clipped, S_f = 0.5",
                "noise ε 4",
            ),
            ("encrypted", "encrypted, plain start", "encrypted"),
            ("encrypted:keyed", "encrypted, keyed start", "encrypted, keyed"),
        ] {
            let defence: Defence = form.parse().unwrap();
            assert_eq!((defence.phrase().as_str(), defence.label().as_str()), (phrase, label));
        }
    }

    #[test]
    fn a_kind_is_that_of_its_default_and_has_as_many_numbers() {
        for kind in DefenceKind::ALL {
            let defence = Defence::from(kind);
            assert_eq!(defence.kind(), kind);
            let written: Vec<String> = kind
                .numbers()
                .iter()
                .zip(defence.numbers())
                .map(|(number, value)| format!("{}={value}", number.key))
                .collect();
            assert_eq!(defence.numbers().len(), kind.numbers().len());
            if !written.is_empty() {
                assert_eq!(format!("{}:{}", kind.name(), written.join(",")).parse(), Ok(defence));
            }
        }
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
