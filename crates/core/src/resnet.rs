//! Residual networks as in torchvision and timm.

use std::borrow::Cow;

use crate::{ParamLayout, SizeError, size::number, text::named};

/// A named ResNet. Names follow torchvision and timm where they have the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResnetPreset {
    /// 32 x 32 images, a 3 x 3 stem, one block for each of three stages with 16, 32 and 64 channels: small enough to
    /// train on a laptop's CPU.
    Nano,
    /// 224 x 224 images, 2 basic blocks for each of 64, 128, 256 and 512 channels.
    Resnet18,
    /// 224 x 224 images, 3, 4, 6 and 3 basic blocks of 64, 128, 256 and 512 channels.
    Resnet34,
    /// 224 x 224 images, 3, 4, 6 and 3 bottlenecks of 64, 128, 256 and 512 channels; each outputs four times as many.
    Resnet50,
}

named!(ResnetPreset {
    Nano = "resnet_nano",
    Resnet18 = "resnet18",
    Resnet34 = "resnet34",
    Resnet50 = "resnet50",
});

/// The shape of a ResNet and of its images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResnetSpec {
    pub config: ResnetConfig,
    /// Classes of the head; 0 if there is no head.
    pub classes: usize,
    /// Image side in pixels. No parameter's shape depends on it, since the head averages over all positions.
    pub side: usize,
}

/// Ten classes, and the preset's usual image size.
impl From<ResnetPreset> for ResnetSpec {
    fn from(preset: ResnetPreset) -> Self {
        let side = match preset {
            ResnetPreset::Nano => 32,
            ResnetPreset::Resnet18 | ResnetPreset::Resnet34 | ResnetPreset::Resnet50 => 224,
        };
        Self { config: preset.config(), classes: 10, side }
    }
}

impl ResnetPreset {
    fn config(self) -> ResnetConfig {
        let classic = |block, [a, b, c, d]: [u16; ResnetConfig::STAGES]| ResnetConfig {
            stem: Stem::Seven,
            block,
            stages: [(64, a), (128, b), (256, c), (512, d)],
        };
        match self {
            Self::Nano => ResnetConfig {
                stem: Stem::Three,
                block: BlockKind::Basic,
                stages: [(16, 1), (32, 1), (64, 1), ResnetConfig::NO_STAGE],
            },
            Self::Resnet18 => classic(BlockKind::Basic, [2, 2, 2, 2]),
            Self::Resnet34 => classic(BlockKind::Basic, [3, 4, 6, 3]),
            Self::Resnet50 => classic(BlockKind::Bottleneck, [3, 4, 6, 3]),
        }
    }
}

impl ResnetSpec {
    /// The preset with these numbers; the number of classes does not matter.
    pub fn preset(&self) -> Option<ResnetPreset> {
        let is_it = |preset: &ResnetPreset| Self { classes: self.classes, ..(*preset).into() } == *self;
        ResnetPreset::ALL.into_iter().find(is_it)
    }

    /// The preset's name, or a name made of the numbers, such as `resnet_basic_64x2_128x2_256x2_512x2_stem7_64`:
    /// channels x blocks of each stage, the side of the stem's filters, and the side of the images.
    pub fn name(&self) -> Cow<'static, str> {
        if let Some(preset) = self.preset() {
            return preset.name().into();
        }
        let stages: String = self.config.stages().map(|(channels, blocks)| format!("_{channels}x{blocks}")).collect();
        format!("resnet_{}{stages}_stem{}_{}", self.config.block.name(), self.config.stem.kernel(), self.side).into()
    }

    /// Parses a name made of numbers as a ten-class ResNet; `None` if the name has another form.
    pub(crate) fn numbered(name: &str) -> Option<Self> {
        let (block, parts) = name.strip_prefix("resnet_")?.split_once('_')?;
        let block = BlockKind::ALL.into_iter().find(|kind| kind.name() == block)?;
        let (parts, side) = parts.rsplit_once('_')?;
        let (parts, stem) = parts.rsplit_once("_stem")?;
        let stem = Stem::of_kernel(number(stem)?)?;
        let mut stages = [ResnetConfig::NO_STAGE; ResnetConfig::STAGES];
        let mut places = stages.iter_mut();
        for part in parts.split('_') {
            let (channels, blocks) = part.split_once('x')?;
            *places.next()? = (number(channels)?.try_into().ok()?, number(blocks)?.try_into().ok()?);
        }
        Some(Self { config: ResnetConfig { stem, block, stages }, classes: 10, side: number(side)? })
    }

    /// Checks that a ResNet can have these numbers.
    ///
    /// # Errors
    /// [`SizeError`] names the invalid number.
    pub fn check(&self) -> Result<(), SizeError> {
        SizeError::range("image", self.side, 1, 1024)?;
        SizeError::range("classes", self.classes, 0, u16::MAX.into())?;
        SizeError::range("the number of stages", self.config.stages().count(), 1, ResnetConfig::STAGES)?;
        for (channels, blocks) in self.config.stages.map(|(channels, blocks)| (channels.into(), blocks.into())) {
            SizeError::range("channels of a stage", channels, usize::from(blocks > 0), 2048)?;
            SizeError::range("blocks of a stage", blocks, usize::from(channels > 0), 64)?;
        }
        Ok(())
    }

    /// Number of parameters P. Unlike the layout's length, it cannot overflow on a 32-bit machine.
    pub(crate) fn parameters(&self) -> u64 {
        let conv = |[out, input, kernel]: [usize; 3]| (out * kernel * kernel) as u64 * input as u64 + 2 * out as u64;
        let stem = conv([self.config.stem_channels(), CHANNELS, self.config.stem.kernel()]);
        let blocks: u64 = self
            .config
            .blocks()
            .flat_map(|block| {
                let shortcut = block.has_downsample().then_some([block.output, block.input, 1]);
                block.convolutions().map(|convolution| convolution.shape).chain(shortcut)
            })
            .map(conv)
            .sum();
        stem + blocks + (self.classes * (self.config.features() + 1)) as u64
    }
}

/// The first layers: convolution, batch norm, ReLU, and optionally a 3 x 3 max pooling of stride 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stem {
    /// 3 x 3 filters of stride 1 without max pooling, for small images.
    Three,
    /// 7 x 7 filters of stride 2 with max pooling, as in torchvision.
    Seven,
}

impl Stem {
    pub const ALL: [Self; 2] = [Self::Three, Self::Seven];

    pub fn of_kernel(kernel: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|stem| stem.kernel() == kernel)
    }

    /// Side of the filters. Each side of the image is padded by half of it, rounded down.
    pub fn kernel(self) -> usize {
        match self {
            Self::Three => 3,
            Self::Seven => 7,
        }
    }

    pub fn stride(self) -> usize {
        match self {
            Self::Three => 1,
            Self::Seven => 2,
        }
    }

    /// Whether max pooling follows.
    pub fn pools(self) -> bool {
        self == Self::Seven
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Two 3 x 3 convolutions.
    Basic,
    /// 1 x 1, 3 x 3 and 1 x 1 convolutions; the last has four times as many channels. The second has the stride, as in
    /// torchvision and timm.
    Bottleneck,
}

named!(BlockKind {
    Basic = "basic",
    Bottleneck = "bottleneck",
});

impl BlockKind {
    /// Output channels of a block in a stage of `channels`.
    pub fn output(self, channels: usize) -> usize {
        match self {
            Self::Basic => channels,
            Self::Bottleneck => 4 * channels,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResnetConfig {
    /// The layers before the stages; they output as many channels as the first stage has.
    pub stem: Stem,
    pub block: BlockKind,
    /// Channels and number of blocks of each stage; unused entries are [`ResnetConfig::NO_STAGE`]. Every stage but the
    /// first halves height and width.
    pub stages: [(u16, u16); Self::STAGES],
}

/// A convolution without bias, followed by batch norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Output channels, input channels, and side of the filters.
    pub shape: [usize; 3],
    pub stride: usize,
}

/// A residual block: convolutions with batch norm, added to the block's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidualBlock {
    pub kind: BlockKind,
    /// Stage, counted from 1 as in torchvision's `layer1`.
    pub stage: usize,
    /// Position in the stage, counted from 0.
    pub index: usize,
    /// Input channels.
    pub input: usize,
    /// Channels inside the block.
    pub width: usize,
    /// Output channels.
    pub output: usize,
    /// Stride of the first 3 x 3 convolution.
    pub stride: usize,
}

impl ResidualBlock {
    /// The convolutions in order, without the shortcut's.
    pub fn convolutions(&self) -> impl Iterator<Item = Convolution> + use<> {
        let Self { kind, input, width, output, stride, .. } = *self;
        let convolution = |shape, stride| Convolution { shape, stride };
        match kind {
            BlockKind::Basic => vec![convolution([width, input, 3], stride), convolution([output, width, 3], 1)],
            BlockKind::Bottleneck => vec![
                convolution([width, input, 1], 1),
                convolution([width, width, 3], stride),
                convolution([output, width, 1], 1),
            ],
        }
        .into_iter()
    }

    /// Whether the shortcut is a 1 x 1 convolution with batch norm, because input and output differ in shape.
    pub fn has_downsample(&self) -> bool {
        self.stride != 1 || self.input != self.output
    }

    /// torchvision's name for the block, such as `layer2.0`.
    fn name(&self) -> String {
        format!("layer{}.{}", self.stage, self.index)
    }
}

impl ResnetConfig {
    pub const STAGES: usize = 4;
    /// Marks an unused stage.
    pub const NO_STAGE: (u16, u16) = (0, 0);

    /// Channels and number of blocks of each used stage.
    pub fn stages(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        self.stages
            .into_iter()
            .take_while(|stage| *stage != Self::NO_STAGE)
            .map(|(channels, blocks)| (channels.into(), blocks.into()))
    }

    pub fn stem_channels(&self) -> usize {
        self.stages[0].0.into()
    }

    /// Input channels of the head.
    pub fn features(&self) -> usize {
        self.stages().last().map_or(0, |(channels, _)| self.block.output(channels))
    }

    pub fn blocks(&self) -> impl Iterator<Item = ResidualBlock> + use<> {
        let (kind, mut input) = (self.block, self.stem_channels());
        self.stages().enumerate().flat_map(move |(stage, (width, count))| {
            let output = kind.output(width);
            let before = std::mem::replace(&mut input, output);
            (0..count).map(move |index| ResidualBlock {
                kind,
                stage: stage + 1,
                index,
                input: if index == 0 { before } else { output },
                width,
                output,
                stride: if index == 0 && stage > 0 { 2 } else { 1 },
            })
        })
    }
}

impl ParamLayout {
    /// The layout of a ResNet's weights, in torchvision's state-dict order without the running statistics.
    pub fn resnet(spec: &ResnetSpec) -> Self {
        let config = spec.config;
        let mut layout = Self::empty();
        let normed = |layout: &mut Self, conv: String, norm: String, [out, input, kernel]: [usize; 3]| {
            layout.push(format!("{conv}.weight"), &[out, input, kernel, kernel]);
            layout.push(format!("{norm}.weight"), &[out]);
            layout.push(format!("{norm}.bias"), &[out]);
        };
        let stem = [config.stem_channels(), CHANNELS, config.stem.kernel()];
        normed(&mut layout, "conv1".into(), "bn1".into(), stem);
        for block in config.blocks() {
            let name = block.name();
            for (index, convolution) in (1..).zip(block.convolutions()) {
                normed(&mut layout, format!("{name}.conv{index}"), format!("{name}.bn{index}"), convolution.shape);
            }
            if block.has_downsample() {
                let name = format!("{name}.downsample");
                normed(&mut layout, format!("{name}.0"), format!("{name}.1"), [block.output, block.input, 1]);
            }
        }
        if spec.classes > 0 {
            layout.push("fc.weight".into(), &[spec.classes, config.features()]);
            layout.push("fc.bias".into(), &[spec.classes]);
        }
        layout
    }

    /// The layout of a ResNet's running statistics: `running_mean` and `running_var` of each batch norm, in the order
    /// of [`ParamLayout::resnet`].
    pub fn resnet_statistics(spec: &ResnetSpec) -> Self {
        let mut statistics = Self::empty();
        let weights = Self::resnet(spec);
        let norms = weights.iter().filter(|param| param.group == crate::ParamGroup::Norm);
        for (norm, shape) in norms.filter_map(|param| Some((param.name.strip_suffix(".weight")?, &param.shape))) {
            statistics.push(format!("{norm}.running_mean"), shape);
            statistics.push(format!("{norm}.running_var"), shape);
        }
        statistics
    }
}

const CHANNELS: usize = crate::VitConfig::CHANNELS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParamGroup;

    /// Counts are `sum(p.numel() ...)` of the torchvision and timm models of these names with ten classes.
    #[test]
    fn classic_presets_have_torchvisions_parameters() {
        for (preset, parameters, statistics) in [
            (ResnetPreset::Resnet18, 11_181_642, 9_600),
            (ResnetPreset::Resnet34, 21_289_802, 17_024),
            (ResnetPreset::Resnet50, 23_528_522, 53_120),
        ] {
            let spec = ResnetSpec::from(preset);
            assert_eq!(ParamLayout::resnet(&spec).len(), parameters, "{preset:?}");
            assert_eq!(ParamLayout::resnet_statistics(&spec).len(), statistics, "{preset:?}");
        }
        let layout = ParamLayout::resnet(&ResnetPreset::Resnet34.into());
        let names: Vec<&str> = layout.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names[..4], ["conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight"]);
        assert_eq!(layout.get("layer2.0.downsample.0.weight").unwrap().shape, [128, 64, 1, 1]);
        assert!(layout.get("layer1.0.downsample.0.weight").is_none());
        assert_eq!(names[names.len() - 2..], ["fc.weight", "fc.bias"]);
        let layout = ParamLayout::resnet(&ResnetPreset::Resnet50.into());
        assert_eq!(layout.get("layer1.0.downsample.0.weight").unwrap().shape, [256, 64, 1, 1]);
        assert_eq!(layout.get("layer4.2.conv3.weight").unwrap().shape, [2048, 512, 1, 1]);
    }

    #[test]
    fn every_parameter_has_its_group() {
        for preset in ResnetPreset::ALL {
            let layout = ParamLayout::resnet(&preset.into());
            for param in &layout {
                let expected = match param.shape.len() {
                    4 => ParamGroup::Conv,
                    _ if param.name.starts_with("fc.") => ParamGroup::Head,
                    _ => ParamGroup::Norm,
                };
                assert_eq!(param.group, expected, "{}", param.name);
            }
            assert!(!layout.has_group(ParamGroup::Patch));
        }
        assert!(ParamLayout::resnet(&ResnetPreset::Nano.into()).len() < 300_000);
    }

    #[test]
    fn a_name_is_a_presets_or_made_of_numbers() {
        for preset in ResnetPreset::ALL {
            let spec = ResnetSpec { classes: 3, ..preset.into() };
            assert_eq!((spec.preset(), spec.name()), (Some(preset), preset.name().into()));
            assert_eq!(spec.parameters(), ParamLayout::resnet(&spec).len() as u64);
            let other = ResnetSpec { side: 96, classes: 10, ..spec };
            assert_eq!(ResnetSpec::numbered(&other.name()), Some(other), "{}", other.name());
            other.check().unwrap();
        }
        let name = ResnetSpec { side: 64, ..ResnetPreset::Resnet18.into() }.name();
        assert_eq!(name, "resnet_basic_64x2_128x2_256x2_512x2_stem7_64");
        for wrong in
            ["resnet_basic_64x2_stem5_64", "resnet_basic_1x1_1x1_1x1_1x1_1x1_stem3_8", "resnet_wide_64x2_stem7_64"]
        {
            assert_eq!(ResnetSpec::numbered(wrong), None, "{wrong}");
        }
        for (name, what) in [
            ("resnet_basic_64x999_stem7_64", "blocks of a stage is 999"),
            ("resnet_bottleneck_9999x1_stem3_8", "channels of a stage is 9999"),
            ("resnet_basic_0x0_stem3_8", "number of stages is 0"),
        ] {
            let error = ResnetSpec::numbered(name).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
