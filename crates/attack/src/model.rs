//! The model under attack, and timm's names for its tensors.

use unmask_core::{Architecture, LenetConfig, ParamLayout, ResnetSpec, VitConfig};

use crate::AttackError;

pub(crate) const POSITION: &str = "pos_embed";
pub(crate) const PATCH_WEIGHT: &str = "patch_embed.proj.weight";
pub(crate) const PATCH_BIAS: &str = "patch_embed.proj.bias";
pub(crate) const CLASS_TOKEN: &str = "cls_token";
pub(crate) const HEAD_BIAS: &str = "head.bias";
pub(crate) const QKV: &str = "blocks.0.attn.qkv.weight";

/// Determines the shapes of a model's tensors: those of an [`Architecture`], or of a ViT of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelShape {
    Vit(VitConfig),
    Resnet(ResnetSpec),
    Lenet(LenetConfig),
}

impl From<Architecture> for ModelShape {
    fn from(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Vit(config) => Self::Vit(config),
            Architecture::Resnet(spec) => Self::Resnet(spec),
            Architecture::Lenet(config) => Self::Lenet(config),
        }
    }
}

impl From<&VitConfig> for ModelShape {
    fn from(config: &VitConfig) -> Self {
        Self::Vit(*config)
    }
}

impl ModelShape {
    pub fn layout(self) -> ParamLayout {
        match self {
            Self::Vit(config) => ParamLayout::vit(&config),
            Self::Resnet(spec) => ParamLayout::resnet(&spec),
            Self::Lenet(config) => ParamLayout::lenet(&config),
        }
    }

    /// The configuration of a ViT.
    ///
    /// # Errors
    /// [`AttackError::NotVit`].
    pub fn vit(self) -> Result<VitConfig, AttackError> {
        match self {
            Self::Vit(config) => Ok(config),
            Self::Resnet(spec) => Err(AttackError::NotVit { architecture: Architecture::Resnet(spec) }),
            Self::Lenet(config) => Err(AttackError::NotVit { architecture: Architecture::Lenet(config) }),
        }
    }

    pub(crate) fn classes(self) -> usize {
        match self {
            Self::Vit(config) => config.classes,
            Self::Resnet(spec) => spec.classes,
            Self::Lenet(config) => config.classes,
        }
    }

    /// Names of the classification head's weight and bias.
    pub(crate) fn head(self) -> [&'static str; 2] {
        match self {
            Self::Vit(_) => ["head.weight", HEAD_BIAS],
            Self::Resnet(_) | Self::Lenet(_) => ["fc.weight", "fc.bias"],
        }
    }
}

/// The layout of a model without blocks: the embeddings come first, and encryption changes nothing else.
pub fn embeddings_layout(config: &VitConfig) -> ParamLayout {
    ParamLayout::vit(&VitConfig { depth: 0, ..*config })
}

/// Whether a parameter belongs to the embeddings or the first block, which token matching uses.
pub(crate) fn is_front(name: &str) -> bool {
    name == POSITION || name == CLASS_TOKEN || name.starts_with("patch_embed.") || name.starts_with("blocks.0.")
}
