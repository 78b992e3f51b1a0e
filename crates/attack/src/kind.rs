//! The attacks by name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A closed-form attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttackKind {
    /// Embedding inversion: any ViT with a learned position embedding.
    Embedding,
    /// APRIL: needs a first block without LayerNorm before attention and without residual.
    April,
}

pub(crate) const POSITION: &str = "pos_embed";
pub(crate) const PATCH_WEIGHT: &str = "patch_embed.proj.weight";
pub(crate) const PATCH_BIAS: &str = "patch_embed.proj.bias";
pub(crate) const HEAD_WEIGHT: &str = "head.weight";
pub(crate) const HEAD_BIAS: &str = "head.bias";
pub(crate) const CLASS_TOKEN: &str = "cls_token";
pub(crate) const NORM_WEIGHT: &str = "blocks.0.norm1.weight";
pub(crate) const NORM_BIAS: &str = "blocks.0.norm1.bias";
pub(crate) const QKV: &str = "blocks.0.attn.qkv.weight";

impl AttackKind {
    /// All attacks, in the order they are shown.
    pub const ALL: [Self; 2] = [Self::Embedding, Self::April];

    /// The name used at every border: command line, wire, files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::April => "april",
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match self {
            Self::Embedding => "Embedding inversion",
            Self::April => "APRIL",
        }
    }

    /// One sentence for the audience on how the attack works.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Embedding => {
                "The first layer only mixes pixels linearly, so the gradients of the patch and position embeddings form \
                 linear equations with the private picture as the only unknown, and the relay solves them."
            }
            Self::April => {
                "If the first attention block has no normalisation and no shortcut, its gradients and the gradient of \
                 the position embedding form linear equations for what entered it, and from there the way back to the \
                 pixels is one more step."
            }
        }
    }

    /// timm names of the gradients the attack reads.
    pub fn gradients(self) -> &'static [&'static str] {
        match self {
            Self::Embedding => &[POSITION, PATCH_WEIGHT],
            Self::April => &[POSITION, QKV],
        }
    }

    /// timm names of the weights the attack reads.
    pub fn weights(self) -> &'static [&'static str] {
        match self {
            Self::Embedding => &[],
            Self::April => &[POSITION, PATCH_WEIGHT, PATCH_BIAS, QKV],
        }
    }
}

impl fmt::Display for AttackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`AttackKind::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", AttackKind::ALL.map(AttackKind::name).join(", "))]
pub struct UnknownAttack {
    /// What was given.
    pub name: String,
}

impl FromStr for AttackKind {
    type Err = UnknownAttack;

    fn from_str(name: &str) -> Result<Self, UnknownAttack> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownAttack { name: name.to_owned() })
    }
}

/// What the attacker makes of the entries that a mask dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knowledge {
    /// Takes their zeros for values, as the attackers do that the papers tested.
    Naive,
    /// Knows which entries were dropped, as the papers' threat model allows, and treats them as unknowns.
    Aware,
}

/// An attack as it is named at every border: what is solved, and what is made of dropped entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Attack {
    /// The equations.
    pub kind: AttackKind,
    /// Whether the mask is known.
    pub knowledge: Knowledge,
}

impl Attack {
    /// All attacks, each naive one before its mask-aware twin.
    pub const ALL: [Self; 4] = [
        Self::naive(AttackKind::Embedding),
        Self::aware(AttackKind::Embedding),
        Self::naive(AttackKind::April),
        Self::aware(AttackKind::April),
    ];

    /// The attack that takes dropped entries for zeros.
    pub const fn naive(kind: AttackKind) -> Self {
        Self { kind, knowledge: Knowledge::Naive }
    }

    /// The attack that knows the mask.
    pub const fn aware(kind: AttackKind) -> Self {
        Self { kind, knowledge: Knowledge::Aware }
    }

    /// The name used at every border: command line, wire, files.
    pub fn name(self) -> &'static str {
        match (self.kind, self.knowledge) {
            (kind, Knowledge::Naive) => kind.name(),
            (AttackKind::Embedding, Knowledge::Aware) => "embedding-aware",
            (AttackKind::April, Knowledge::Aware) => "april-aware",
        }
    }

    /// The name a person reads.
    pub fn title(self) -> &'static str {
        match (self.kind, self.knowledge) {
            (kind, Knowledge::Naive) => kind.title(),
            (AttackKind::Embedding, Knowledge::Aware) => "Embedding inversion that knows the mask",
            (AttackKind::April, Knowledge::Aware) => "APRIL that knows the mask",
        }
    }

    /// One sentence for the audience on how the attack works.
    pub fn explanation(self) -> &'static str {
        match (self.kind, self.knowledge) {
            (kind, Knowledge::Naive) => kind.explanation(),
            (AttackKind::Embedding, Knowledge::Aware) => {
                "The relay knows which entries were dropped, so it solves the same equations with the dropped entries as \
                 further unknowns: in turns for them and for the picture, of all pictures that fit a smooth one."
            }
            (AttackKind::April, Knowledge::Aware) => {
                "The rows of the position embedding's gradient are mixtures of the rows of a matrix that the attention \
                 weights' gradient gives away, so that dropped entries can be filled in before APRIL's equations are \
                 solved."
            }
        }
    }

    /// timm names of the gradients the attack reads.
    pub fn gradients(self) -> &'static [&'static str] {
        match (self.kind, self.knowledge) {
            (AttackKind::Embedding, Knowledge::Aware) => &[POSITION, PATCH_WEIGHT, PATCH_BIAS],
            (kind, _) => kind.gradients(),
        }
    }

    /// timm names of the weights the attack reads.
    pub fn weights(self) -> &'static [&'static str] {
        self.kind.weights()
    }
}

impl From<AttackKind> for Attack {
    fn from(kind: AttackKind) -> Self {
        Self::naive(kind)
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Attack> for String {
    fn from(attack: Attack) -> Self {
        attack.name().to_owned()
    }
}

/// A name that is none of [`Attack::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown attack \"{name}\"; the attacks are {}", Attack::ALL.map(Attack::name).join(", "))]
pub struct UnknownAttackName {
    /// What was given.
    pub name: String,
}

impl FromStr for Attack {
    type Err = UnknownAttackName;

    fn from_str(name: &str) -> Result<Self, UnknownAttackName> {
        let found = Self::ALL.into_iter().find(|attack| attack.name() == name);
        found.ok_or_else(|| UnknownAttackName { name: name.to_owned() })
    }
}

impl TryFrom<String> for Attack {
    type Error = UnknownAttackName;

    fn try_from(name: String) -> Result<Self, UnknownAttackName> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in AttackKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for attack in Attack::ALL {
            assert_eq!(attack.to_string().parse(), Ok(attack));
        }
        for kind in AttackKind::ALL {
            assert_eq!(kind.name().parse(), Ok(Attack::naive(kind)), "the papers' attacks keep their names");
        }
        let error = "magic".parse::<Attack>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown attack \"magic\"; the attacks are embedding, embedding-aware, april, april-aware"
        );
        let error = "magic".parse::<AttackKind>().unwrap_err();
        assert_eq!(error.to_string(), "unknown attack \"magic\"; the attacks are embedding, april");
    }
}
