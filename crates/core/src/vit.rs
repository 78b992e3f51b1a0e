//! Vision Transformers as in timm.

use std::{borrow::Cow, fmt, str::FromStr};

use crate::{
    Architecture, ParamLayout, SizeError, UnknownArchitecture,
    size::number,
    text::{named, serde_as_text},
};

/// A named ViT. Names follow timm where timm has the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VitPreset {
    /// 16 x 16 images, D 48, depth 2, heads 3: small enough for emulated WebGPU in tests.
    Pico,
    /// 32 x 32 images, D 96, depth 4, heads 3: the classroom's default.
    Nano,
    /// 32 x 32 images, D 192, depth 4, heads 3: the model for attack experiments.
    Lab,
    /// `Nano` with patches of 8 x 8 pixels: fewer patches than dimensions.
    NanoPatch8,
    /// `Lab` with patches of 8 x 8 pixels.
    LabPatch8,
    /// 224 x 224 images, D 192, depth 12, heads 3.
    Tiny,
    /// 224 x 224 images, D 384, depth 12, heads 6.
    Small,
    /// `Small` with patches of 32 x 32 pixels.
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
    #[error("{architecture} is not a ViT; choose one of {}", VitPreset::ALL.map(VitPreset::name).join(", "))]
    OtherKind { architecture: Architecture },
    #[error("{name} matches no preset; the presets are {}", VitPreset::ALL.map(VitPreset::name).join(", "))]
    NoPreset { name: String },
}

impl FromStr for VitPreset {
    type Err = UnknownVit;

    fn from_str(name: &str) -> Result<Self, UnknownVit> {
        match name.parse::<Architecture>()? {
            Architecture::Vit(config) => config.preset().ok_or_else(|| UnknownVit::NoPreset { name: name.to_owned() }),
            architecture => Err(UnknownVit::OtherKind { architecture }),
        }
    }
}

serde_as_text!(VitPreset);

/// The shape of a Vision Transformer. It determines all parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Classes of the head; 0 if there is no head.
    pub classes: usize,
    /// Whether block 0 lacks the LayerNorm before attention and both residuals: it computes `mlp(norm2(attn(x)))`.
    pub april_block: bool,
    /// Hidden width of the MLPs, if it is not 4 D.
    pub mlp: Option<u16>,
}

/// The preset's numbers, with ten classes and a standard pre-LN first block.
impl From<VitPreset> for VitConfig {
    fn from(preset: VitPreset) -> Self {
        let (image, patch, dim, depth, heads) = match preset {
            VitPreset::Pico => (16, 4, 48, 2, 3),
            VitPreset::Nano => (32, 4, 96, 4, 3),
            VitPreset::Lab => (32, 4, 192, 4, 3),
            VitPreset::NanoPatch8 => (32, 8, 96, 4, 3),
            VitPreset::LabPatch8 => (32, 8, 192, 4, 3),
            VitPreset::Tiny => (224, 16, 192, 12, 3),
            VitPreset::Small => (224, 16, 384, 12, 6),
            VitPreset::SmallPatch32 => (224, 32, 384, 12, 6),
        };
        Self { image, patch, dim, depth, heads, classes: 10, april_block: false, mlp: None }
    }
}

/// The words in a name such as `vit_patch16_dim192_depth12_heads3_64`.
const FORM: [&str; 4] = ["patch", "dim", "depth", "heads"];
/// The word before the hidden width of the MLPs, if it is not 4 D.
const MLP: &str = "mlp";

impl VitConfig {
    pub const CHANNELS: usize = 3;

    /// The same ViT with or without the block that APRIL's closed form needs.
    pub fn with_april_block(self, april_block: bool) -> Self {
        Self { april_block, ..self }
    }

    /// The preset with these numbers; neither the first block nor the number of classes matters.
    pub fn preset(&self) -> Option<VitPreset> {
        let Self { classes, april_block, .. } = *self;
        VitPreset::ALL.into_iter().find(|&preset| Self { classes, april_block, ..preset.into() } == *self)
    }

    /// The preset's name, or a name made of the numbers: `vit_patch16_dim192_depth12_heads3_64` takes images of 64 x 64
    /// pixels, and `vit_patch16_dim192_depth12_heads3_mlp384_64` has MLPs of another width than 4 D.
    pub fn name(&self) -> Cow<'static, str> {
        let Self { image, patch, dim, depth, heads, mlp, .. } = *self;
        let mlp = mlp.map(|mlp| format!("_{MLP}{mlp}")).unwrap_or_default();
        self.preset().map_or_else(
            || format!("vit_patch{patch}_dim{dim}_depth{depth}_heads{heads}{mlp}_{image}").into(),
            |preset| preset.name().into(),
        )
    }

    /// Parses a name made of numbers as a ten-class ViT; `None` if the name has another form.
    pub(crate) fn numbered(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("vit_")?.split('_');
        let [patch, dim, depth, heads] = FORM.map(|word| number(parts.next()?.strip_prefix(word)?));
        let mut last = parts.next()?;
        let mut mlp = None;
        if let Some(width) = last.strip_prefix(MLP) {
            (mlp, last) = (Some(u16::try_from(number(width)?).ok()?), parts.next()?);
        }
        let image = number(last);
        let config = Self {
            image: image?,
            patch: patch?,
            dim: dim?,
            depth: depth?,
            heads: heads?,
            classes: 10,
            april_block: false,
            mlp: mlp.filter(|mlp| dim.is_none_or(|dim| Some(usize::from(*mlp)) != dim.checked_mul(4))),
        };
        parts.next().is_none().then_some(config)
    }

    /// Checks that a ViT can have these numbers.
    ///
    /// # Errors
    /// [`SizeError`] names the invalid number.
    pub fn check(&self) -> Result<(), SizeError> {
        let Self { image, patch, dim, depth, heads, classes, .. } = *self;
        SizeError::range("image", image, 1, 1024)?;
        SizeError::range("patch", patch, 1, image)?;
        SizeError::range("dim", dim, 1, 8192)?;
        SizeError::range("depth", depth, 1, 128)?;
        SizeError::range("heads", heads, 1, dim)?;
        SizeError::range("mlp", self.mlp_dim(), 1, 32_768)?;
        SizeError::range("classes", classes, 0, u16::MAX.into())?;
        if !image.is_multiple_of(patch) {
            return Err(SizeError::Patches { image, patch });
        }
        if !dim.is_multiple_of(heads) {
            return Err(SizeError::Heads { dim, heads });
        }
        Ok(())
    }

    /// Number of parameters P. Unlike the layout's length, it cannot overflow on a 32-bit machine.
    pub(crate) fn parameters(&self) -> u64 {
        let numbers = [self.dim, self.depth, self.classes, self.mlp_dim()];
        let [dim, depth, classes, mlp] = numbers.map(|number| number as u64);
        let first_norms = depth - u64::from(self.april_block && self.depth > 0);
        let block = 4 * dim * dim + 7 * dim + 2 * dim * mlp + mlp;
        let embeddings = dim * (1 + self.tokens() as u64 + self.patch_len() as u64 + 1);
        embeddings + depth * block + 2 * dim * first_norms + 2 * dim + classes * (dim + 1)
    }

    /// Patches along one side.
    pub fn grid(&self) -> usize {
        self.image / self.patch
    }

    /// Number of patches S.
    pub fn patches(&self) -> usize {
        self.grid() * self.grid()
    }

    /// Number of tokens, S + 1: the class token comes first.
    pub fn tokens(&self) -> usize {
        self.patches() + 1
    }

    /// Values in a patch: L = 3 P P.
    pub fn patch_len(&self) -> usize {
        Self::CHANNELS * self.patch * self.patch
    }

    /// Hidden width of the MLPs.
    pub fn mlp_dim(&self) -> usize {
        self.mlp.map_or(4 * self.dim, usize::from)
    }

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
        if classes > 0 {
            layout.push("head.weight".into(), &[classes, dim]);
            layout.push("head.bias".into(), &[classes]);
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_the_layouts_length() {
        for preset in VitPreset::ALL {
            for april_block in [false, true] {
                for classes in [0, 10, 1000] {
                    let config = VitConfig { classes, april_block, ..preset.into() };
                    assert_eq!(config.parameters(), ParamLayout::vit(&config).len() as u64, "{config:?}");
                }
            }
        }
        let without = VitConfig { classes: 0, ..VitPreset::Pico.into() };
        assert!(ParamLayout::vit(&without).get("head.weight").is_none());
    }

    #[test]
    fn a_preset_is_a_name_for_some_numbers() {
        for preset in VitPreset::ALL {
            let config = VitConfig { classes: 7, april_block: true, ..preset.into() };
            assert_eq!((config.preset(), config.name()), (Some(preset), preset.name().into()));
            config.check().unwrap();
            assert_eq!(config.parameters(), ParamLayout::vit(&config).len() as u64);
            let narrow = VitConfig { mlp: Some(7), ..config };
            assert_eq!(narrow.parameters(), ParamLayout::vit(&narrow).len() as u64);
        }
        let tiny = VitConfig::numbered("vit_patch16_dim192_depth12_heads3_224").unwrap();
        assert_eq!(tiny.preset(), Some(VitPreset::Tiny));
        for other in
            ["vit_patch16_dim192_depth12_heads3", "vit_patch16_dim192_depth12_heads3_+224", "vit_tiny_patch16_224"]
        {
            assert_eq!(VitConfig::numbered(other), None, "{other}");
        }
        let error = "vit_patch16_dim192_depth12_heads3_64".parse::<VitPreset>().unwrap_err().to_string();
        assert!(error.contains("no preset"), "{error}");
    }

    proptest! {
        #[test]
        fn numbers_become_a_name_and_come_back(
            grid in 1_usize..64, patch in 1_usize..17, width in 1_usize..65, heads in 1_usize..17, depth in 1_usize..49,
            mlp in prop::option::of(1_u16..4096),
        ) {
            let mlp = mlp.filter(|mlp| usize::from(*mlp) != 4 * heads * width);
            let config = VitConfig {
                image: grid * patch, patch, dim: heads * width, depth, heads, classes: 10, april_block: false,
                mlp,
            };
            prop_assume!(config.preset().is_none());
            prop_assert_eq!(VitConfig::numbered(&config.name()), Some(config));
            prop_assert_eq!(config.check().is_ok(), config.image <= 1024);
        }
    }
}
