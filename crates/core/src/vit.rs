//! Vision Transformers, as timm builds them.

use std::{fmt, str::FromStr};

use crate::{
    Architecture, ParamLayout, UnknownArchitecture,
    text::{named, serde_as_text},
};

/// A ViT by name; timm's name where timm has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VitPreset {
    /// 16 x 16 images, D 48, depth 2, heads 3: small enough for emulated WebGPU in tests.
    Pico,
    /// 32 x 32 images, D 96, depth 4, heads 3: the classroom's default.
    Nano,
    /// 32 x 32 images, D 192, depth 4, heads 3: the attacks' laboratory.
    Lab,
    /// The default with patches of 8 x 8 pixels: fewer patches than dimensions.
    NanoPatch8,
    /// The laboratory with patches of 8 x 8 pixels.
    LabPatch8,
    /// 224 x 224 images, D 192, depth 12, heads 3.
    Tiny,
    /// 224 x 224 images, D 384, depth 12, heads 6.
    Small,
    /// The same with patches of 32 x 32 pixels.
    SmallPatch32,
}

named!(VitPreset {
    Pico = "vit_pico_patch4_16",
    Nano = "vit_nano_patch4_32",
    Lab = "vit_lab_patch4_32",
    NanoPatch8 = "vit_nano_patch8_32",
    LabPatch8 = "vit_lab_patch8_32",
    Tiny = "vit_tiny_patch16_224",
    Small = "vit_small_patch16_224",
    SmallPatch32 = "vit_small_patch32_224",
});

impl fmt::Display for VitPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVit {
    #[error(transparent)]
    Unknown(#[from] UnknownArchitecture),
    #[error("{architecture} is no Vision Transformer; those are {}", VitPreset::ALL.map(VitPreset::name).join(", "))]
    OtherKind { architecture: Architecture },
}

impl FromStr for VitPreset {
    type Err = UnknownVit;

    fn from_str(name: &str) -> Result<Self, UnknownVit> {
        match name.parse::<Architecture>()? {
            Architecture::Vit(spec) => Ok(spec.preset),
            architecture => Err(UnknownVit::OtherKind { architecture }),
        }
    }
}

serde_as_text!(VitPreset);

/// Everything that decides a ViT's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VitSpec {
    pub preset: VitPreset,
    /// Whether block 0 is the norm-free, residual-free one that APRIL's closed form needs.
    pub april_block: bool,
    pub classes: usize,
}

impl VitSpec {
    /// A standard pre-LN ViT with ten classes.
    pub fn new(preset: VitPreset) -> Self {
        Self { preset, april_block: false, classes: 10 }
    }

    /// The same ViT with the block APRIL's closed form needs, or without.
    pub fn with_april_block(self, april_block: bool) -> Self {
        Self { april_block, ..self }
    }

    pub fn config(self) -> VitConfig {
        let (image, patch, dim, depth, heads) = match self.preset {
            VitPreset::Pico => (16, 4, 48, 2, 3),
            VitPreset::Nano => (32, 4, 96, 4, 3),
            VitPreset::Lab => (32, 4, 192, 4, 3),
            VitPreset::NanoPatch8 => (32, 8, 96, 4, 3),
            VitPreset::LabPatch8 => (32, 8, 192, 4, 3),
            VitPreset::Tiny => (224, 16, 192, 12, 3),
            VitPreset::Small => (224, 16, 384, 12, 6),
            VitPreset::SmallPatch32 => (224, 32, 384, 12, 6),
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
    pub classes: usize,
    /// Whether block 0 has neither the LayerNorm before attention nor a residual: it is `mlp(norm2(attn(x)))`.
    pub april_block: bool,
}

impl VitConfig {
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

impl ParamLayout {
    pub fn vit(config: &VitConfig) -> Self {
        let VitConfig { patch, dim, classes, .. } = *config;
        let mut layout = Self::empty();
        layout.push("cls_token".into(), &[1, 1, dim]);
        layout.push("pos_embed".into(), &[1, config.tokens(), dim]);
        layout.push("patch_embed.proj.weight".into(), &[dim, VitConfig::CHANNELS, patch, patch]);
        layout.push("patch_embed.proj.bias".into(), &[dim]);
        for block in 0..config.depth {
            let mut push = |suffix: &str, shape: &[usize]| layout.push(format!("blocks.{block}.{suffix}"), shape);
            if config.has_norm1(block) {
                push("norm1.weight", &[dim]);
                push("norm1.bias", &[dim]);
            }
            push("attn.qkv.weight", &[3 * dim, dim]);
            push("attn.qkv.bias", &[3 * dim]);
            push("attn.proj.weight", &[dim, dim]);
            push("attn.proj.bias", &[dim]);
            push("norm2.weight", &[dim]);
            push("norm2.bias", &[dim]);
            push("mlp.fc1.weight", &[config.mlp_dim(), dim]);
            push("mlp.fc1.bias", &[config.mlp_dim()]);
            push("mlp.fc2.weight", &[dim, config.mlp_dim()]);
            push("mlp.fc2.bias", &[dim]);
        }
        layout.push("norm.weight".into(), &[dim]);
        layout.push("norm.bias".into(), &[dim]);
        layout.push("head.weight".into(), &[classes, dim]);
        layout.push("head.bias".into(), &[classes]);
        layout
    }
}
