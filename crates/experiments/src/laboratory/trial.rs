//! What can be tried on an update, and which tensors it reads.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unmask_attack::{
    Attack, AttackKind, LABEL_GRADIENTS, MEMBERSHIP_GRADIENTS, MEMBERSHIP_WEIGHTS, Method, RecoveredKey,
};
use unmask_core::ParamLayout;

/// An attack that makes a picture, or a question that is answered without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Trial {
    /// Recovering the picture.
    Picture(Method),
    /// Reading the labels off the head's gradient.
    Label,
    /// Telling whether a given picture was in the update.
    Membership,
}

impl Trial {
    /// All of them, those that make pictures first.
    pub fn all() -> Vec<Self> {
        Method::ALL.into_iter().map(Self::Picture).chain([Self::Label, Self::Membership]).collect()
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Picture(method) => method.name(),
            Self::Label => "label",
            Self::Membership => "membership",
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Self::Picture(method) => method.title(),
            Self::Label => "Label",
            Self::Membership => "Membership",
        }
    }

    /// The attack that makes a picture, if this is one.
    pub fn method(self) -> Option<Method> {
        match self {
            Self::Picture(method) => Some(method),
            Self::Label | Self::Membership => None,
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Trial> for String {
    fn from(trial: Trial) -> Self {
        trial.name().to_owned()
    }
}

/// A name that is none of [`Trial::all`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", Trial::all().into_iter().map(Trial::name).collect::<Vec<_>>().join(", "))]
pub struct UnknownTrial {
    /// What was given.
    pub name: String,
}

impl FromStr for Trial {
    type Err = UnknownTrial;

    fn from_str(name: &str) -> Result<Self, UnknownTrial> {
        let name = name.trim();
        let found = Self::all().into_iter().find(|trial| trial.name() == name);
        found.ok_or_else(|| UnknownTrial { name: name.to_owned() })
    }
}

impl TryFrom<String> for Trial {
    type Error = UnknownTrial;

    fn try_from(name: String) -> Result<Self, UnknownTrial> {
        name.parse()
    }
}

/// Tensors by timm's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Without these nothing works.
    pub required: Vec<String>,
    /// Used where they are there.
    pub optional: Vec<String>,
}

impl Wanted {
    fn new(required: &[&str], optional: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { required: owned(required), optional: owned(optional) }
    }

    /// Both together, each name once; what one of them requires is required.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.required.extend(other.required);
        self.optional.extend(other.optional);
        self.required.sort_unstable();
        self.required.dedup();
        self.optional.sort_unstable();
        self.optional.dedup();
        self.optional.retain(|name| !self.required.contains(name));
        self
    }
}

/// What a trial reads of a model and an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Of the update.
    pub gradients: Wanted,
    /// Of the weights at which it was taken.
    pub weights: Wanted,
}

impl Needs {
    /// What `trial` reads of a model of `layout`.
    pub fn of(trial: Trial, layout: &ParamLayout) -> Self {
        let names = |keep: &dyn Fn(&str) -> bool| -> Vec<String> {
            layout.iter().map(|param| param.name.clone()).filter(|name| keep(name)).collect()
        };
        let embeddings = AttackKind::Embedding.gradients();
        match trial {
            Trial::Picture(method) if method.is_search() => {
                let (required, optional): (Vec<_>, Vec<_>) = match method {
                    Method::Gradients | Method::GradientsAware => (names(&|_| true), Vec::new()),
                    Method::Jigsaw => {
                        (names(&|name| is_early(name) && name != POSITION), names(&|name| name == POSITION))
                    }
                    _ => (names(&is_early), Vec::new()),
                };
                let gradients = Wanted { required, optional }.and(Wanted::new(&[], LABEL_GRADIENTS));
                Self { gradients, weights: Wanted { required: names(&|_| true), optional: Vec::new() } }
            }
            Trial::Picture(Method::KnownStart) => {
                Self { gradients: Wanted::new(embeddings, &[]), weights: Wanted::new(&RecoveredKey::WEIGHTS, &[]) }
            }
            Trial::Picture(Method::Colluder) => {
                Self { gradients: Wanted::new(embeddings, &[]), weights: Wanted::default() }
            }
            Trial::Picture(method) => {
                let attack = Attack::of(method).unwrap_or(Attack::aware(AttackKind::Embedding));
                // What a closed form reads beyond its naive twin only sharpens the result.
                let needed = attack.kind.gradients();
                Self {
                    gradients: Wanted::new(needed, &[]).and(Wanted::new(&[], attack.gradients())),
                    weights: Wanted::new(attack.weights(), &[]),
                }
            }
            Trial::Label => {
                Self { gradients: Wanted::new(&LABEL_GRADIENTS[..1], LABEL_GRADIENTS), weights: Wanted::default() }
            }
            Trial::Membership => {
                let there = names(&|name| MEMBERSHIP_WEIGHTS.contains(&name));
                Self {
                    gradients: Wanted::new(&[], MEMBERSHIP_GRADIENTS),
                    weights: Wanted { required: Vec::new(), optional: there },
                }
            }
        }
    }

    /// The same where nothing of it is asked for that is not there.
    #[must_use]
    pub fn if_there(self) -> Self {
        let optional = |Wanted { mut required, optional }: Wanted| {
            required.extend(optional);
            Wanted { required: Vec::new(), optional: required }
        };
        Self { gradients: optional(self.gradients), weights: optional(self.weights) }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { gradients: self.gradients.and(other.gradients), weights: self.weights.and(other.weights) }
    }
}

const POSITION: &str = "pos_embed";

/// Whether a parameter lies in front of the second block, where token matching looks.
pub(crate) fn is_early(name: &str) -> bool {
    name == POSITION || name == "cls_token" || name.starts_with("patch_embed.") || name.starts_with("blocks.0.")
}

#[cfg(test)]
mod tests {
    use unmask_core::{ModelSpec, Preset};

    use super::*;

    #[test]
    fn names_round_trip() {
        for trial in Trial::all() {
            assert_eq!(trial.to_string().parse(), Ok(trial));
        }
        let error = "magic".parse::<Trial>().unwrap_err().to_string();
        assert!(error.starts_with("unknown attack \"magic\"; the attacks are embedding, embedding-aware"), "{error}");
        assert!(error.ends_with("label, membership"), "{error}");
    }

    /// Every name is one of the model's, with the April block and without.
    #[test]
    fn needs_are_parameters_of_the_model() {
        for april_block in [false, true] {
            let layout =
                ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).with_april_block(april_block).config());
            for trial in Trial::all() {
                let Needs { gradients, weights } = Needs::of(trial, &layout);
                for name in [gradients.required, gradients.optional, weights.required, weights.optional].concat() {
                    assert!(layout.get(&name).is_some(), "{trial}: {name}");
                }
            }
        }
    }

    #[test]
    fn matching_reads_up_to_the_first_block_and_the_head_if_it_is_there() {
        let layout = ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config());
        let needs = Needs::of(Trial::Picture(Method::Matching), &layout);
        assert!(needs.gradients.required.iter().all(|name| is_early(name)));
        assert_eq!(needs.gradients.optional, ["head.bias", "head.weight"]);
        assert_eq!(needs.weights.required.len(), layout.iter().count());
        let jigsaw = Needs::of(Trial::Picture(Method::Jigsaw), &layout);
        assert!(jigsaw.gradients.optional.contains(&POSITION.to_owned()));
    }
}
