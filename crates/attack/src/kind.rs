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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in AttackKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "magic".parse::<AttackKind>().unwrap_err();
        assert_eq!(error.to_string(), "unknown attack \"magic\"; the attacks are embedding, april");
    }
}
