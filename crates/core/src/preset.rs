//! Named model sizes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A model size by name; timm's name where timm has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// 16 x 16 images, D 48, depth 2, heads 3: small enough for emulated WebGPU in tests.
    #[serde(rename = "vit_pico_patch4_16")]
    VitPicoPatch4_16,
    /// 32 x 32 images, D 96, depth 4, heads 3: the classroom's default.
    #[serde(rename = "vit_nano_patch4_32")]
    VitNanoPatch4_32,
    /// 32 x 32 images, D 192, depth 4, heads 3: the attacks' laboratory.
    #[serde(rename = "vit_lab_patch4_32")]
    VitLabPatch4_32,
    /// 224 x 224 images, D 192, depth 12, heads 3.
    #[serde(rename = "vit_tiny_patch16_224")]
    VitTinyPatch16_224,
    /// 224 x 224 images, D 384, depth 12, heads 6.
    #[serde(rename = "vit_small_patch16_224")]
    VitSmallPatch16_224,
}

impl Preset {
    /// All presets, smallest first.
    pub const ALL: [Self; 5] = [
        Self::VitPicoPatch4_16,
        Self::VitNanoPatch4_32,
        Self::VitLabPatch4_32,
        Self::VitTinyPatch16_224,
        Self::VitSmallPatch16_224,
    ];

    /// The name used at every border: command line, wire, files.
    pub fn name(self) -> &'static str {
        match self {
            Self::VitPicoPatch4_16 => "vit_pico_patch4_16",
            Self::VitNanoPatch4_32 => "vit_nano_patch4_32",
            Self::VitLabPatch4_32 => "vit_lab_patch4_32",
            Self::VitTinyPatch16_224 => "vit_tiny_patch16_224",
            Self::VitSmallPatch16_224 => "vit_small_patch16_224",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A preset name that is none of [`Preset::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown model \"{name}\"; the models are {}", Preset::ALL.map(Preset::name).join(", "))]
pub struct UnknownPreset {
    /// What was given.
    pub name: String,
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| UnknownPreset { name: name.to_owned() })
    }
}

/// Everything that decides a model's shape: what relay and clients must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelSpec {
    /// The size.
    pub preset: Preset,
    /// Whether block 0 is the norm-free, residual-free one that APRIL's closed form needs.
    pub april_block: bool,
    /// Number of classes of the head.
    pub classes: usize,
}

impl ModelSpec {
    /// A standard pre-LN ViT with ten classes.
    pub fn new(preset: Preset) -> Self {
        Self { preset, april_block: false, classes: 10 }
    }

    /// The same model with the block APRIL's closed form needs, or without.
    pub fn with_april_block(self, april_block: bool) -> Self {
        Self { april_block, ..self }
    }

    /// The numbers behind the name.
    pub fn config(self) -> VitConfig {
        let (image, patch, dim, depth, heads) = match self.preset {
            Preset::VitPicoPatch4_16 => (16, 4, 48, 2, 3),
            Preset::VitNanoPatch4_32 => (32, 4, 96, 4, 3),
            Preset::VitLabPatch4_32 => (32, 4, 192, 4, 3),
            Preset::VitTinyPatch16_224 => (224, 16, 192, 12, 3),
            Preset::VitSmallPatch16_224 => (224, 16, 384, 12, 6),
        };
        VitConfig { image, patch, dim, depth, heads, classes: self.classes, april_block: self.april_block }
    }
}

/// The shape of a Vision Transformer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VitConfig {
    /// Image side in pixels; images are square with [`VitConfig::CHANNELS`] channels.
    pub image: usize,
    /// Patch side P in pixels.
    pub patch: usize,
    /// Embedding dimension D.
    pub dim: usize,
    /// Number of transformer blocks.
    pub depth: usize,
    /// Attention heads; divides `dim`.
    pub heads: usize,
    /// Classes of the head.
    pub classes: usize,
    /// Whether block 0 has neither the LayerNorm before attention nor a residual: it is `mlp(norm2(attn(x)))`.
    pub april_block: bool,
}

impl VitConfig {
    /// Colour channels of an image.
    pub const CHANNELS: usize = 3;

    /// Patches along one side.
    pub fn grid(&self) -> usize {
        self.image / self.patch
    }

    /// Number of patches S.
    pub fn patches(&self) -> usize {
        self.grid() * self.grid()
    }

    /// Number of tokens S + 1: the class token comes first.
    pub fn tokens(&self) -> usize {
        self.patches() + 1
    }

    /// Values in a patch, L = 3 P P.
    pub fn patch_len(&self) -> usize {
        Self::CHANNELS * self.patch * self.patch
    }

    /// Hidden width of the MLP, 4 D.
    pub fn mlp_dim(&self) -> usize {
        4 * self.dim
    }

    /// Whether block `index` normalises before attention.
    pub fn has_norm1(&self, index: usize) -> bool {
        !(self.april_block && index == 0)
    }
}
