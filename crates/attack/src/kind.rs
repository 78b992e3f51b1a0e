//! The closed forms and what they read.

use std::fmt;

use unmask_core::{AttackMethod as Method, Knowledge};

/// A closed-form attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::April => "april",
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

/// A closed form and what it makes of dropped entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// The closed form that solves a method from one update, if there is one.
    pub fn of(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|attack| Method::from(*attack) == method)
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

impl From<Attack> for Method {
    fn from(Attack { kind, knowledge }: Attack) -> Self {
        match (kind, knowledge) {
            (AttackKind::Embedding, Knowledge::Naive) => Self::Embedding,
            (AttackKind::Embedding, Knowledge::Aware) => Self::EmbeddingAware,
            (AttackKind::April, Knowledge::Naive) => Self::April,
            (AttackKind::April, Knowledge::Aware) => Self::AprilAware,
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Method::from(*self).name())
    }
}
