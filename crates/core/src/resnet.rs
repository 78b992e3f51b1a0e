//! Residual networks of basic blocks, as torchvision and timm build them.

use crate::{ParamLayout, text::named};

/// A ResNet by name; torchvision's and timm's name where they have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResnetPreset {
    /// 32 x 32 images, one block a stage of 16, 32 and 64 channels behind a 3 x 3 stem: small enough to be trained on a
    /// laptop's processor.
    Nano,
    /// 224 x 224 images, 3, 4, 6 and 3 blocks of 64, 128, 256 and 512 channels.
    Resnet34,
}

named!(ResnetPreset {
    Nano = "resnet_nano",
    Resnet34 = "resnet34",
});

/// Everything that decides a ResNet's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResnetSpec {
    pub preset: ResnetPreset,
    pub classes: usize,
    /// Image side in pixels. It decides no parameter's shape, since the head averages over all places.
    pub side: usize,
}

impl ResnetSpec {
    /// Ten classes, and images of the side that the preset was made for.
    pub fn new(preset: ResnetPreset) -> Self {
        let side = match preset {
            ResnetPreset::Nano => 32,
            ResnetPreset::Resnet34 => 224,
        };
        Self { preset, classes: 10, side }
    }

    pub fn config(self) -> ResnetConfig {
        match self.preset {
            ResnetPreset::Nano => {
                ResnetConfig { stem: Stem { kernel: 3, stride: 1, pools: false }, stages: &[(16, 1), (32, 1), (64, 1)] }
            }
            ResnetPreset::Resnet34 => ResnetConfig {
                stem: Stem { kernel: 7, stride: 2, pools: true },
                stages: &[(64, 3), (128, 4), (256, 6), (512, 3)],
            },
        }
    }
}

/// What an image meets first: a convolution, batch norm, ReLU, and perhaps a 3 x 3 maximum of stride 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stem {
    /// Side of its filters; half of it, rounded down, is added on every side of the image.
    pub kernel: usize,
    pub stride: usize,
    /// Whether the maximum follows.
    pub pools: bool,
}

/// The shape of a residual network of basic blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResnetConfig {
    /// What comes before the stages; it gives as many channels as the first stage has.
    pub stem: Stem,
    /// Channels and number of blocks of each stage. Every stage but the first halves height and width.
    pub stages: &'static [(usize, usize)],
}

/// One basic block: two 3 x 3 convolutions with batch norm, added to what came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasicBlock {
    /// Stage, counted from 1 as in torchvision's `layer1`.
    pub stage: usize,
    /// Place in its stage, counted from 0.
    pub index: usize,
    /// Channels that come in.
    pub input: usize,
    /// Channels that go out.
    pub output: usize,
    /// Stride of its first convolution.
    pub stride: usize,
}

impl BasicBlock {
    /// Whether the shortcut is a 1 x 1 convolution with batch norm: what comes in has another shape than what goes out.
    pub fn has_downsample(&self) -> bool {
        self.stride != 1 || self.input != self.output
    }

    /// torchvision's name of the block, such as `layer2.0`.
    fn name(&self) -> String {
        format!("layer{}.{}", self.stage, self.index)
    }
}

impl ResnetConfig {
    pub fn stem_channels(&self) -> usize {
        self.stages.first().map_or(0, |&(channels, _)| channels)
    }

    /// Channels that reach the head.
    pub fn features(&self) -> usize {
        self.stages.last().map_or(0, |&(channels, _)| channels)
    }

    pub fn blocks(&self) -> impl Iterator<Item = BasicBlock> {
        let mut input = self.stem_channels();
        self.stages.iter().enumerate().flat_map(move |(stage, &(output, count))| {
            let before = std::mem::replace(&mut input, output);
            (0..count).map(move |index| BasicBlock {
                stage: stage + 1,
                index,
                input: if index == 0 { before } else { output },
                output,
                stride: if index == 0 && stage > 0 { 2 } else { 1 },
            })
        })
    }
}

impl ParamLayout {
    /// The layout of a ResNet's weights, in torchvision's state-dict order without the running statistics.
    pub fn resnet(spec: &ResnetSpec) -> Self {
        let config = spec.config();
        let mut layout = Self::empty();
        let normed = |layout: &mut Self, conv: String, norm: String, shape: [usize; 4]| {
            layout.push(format!("{conv}.weight"), &shape);
            layout.push(format!("{norm}.weight"), &shape[..1]);
            layout.push(format!("{norm}.bias"), &shape[..1]);
        };
        let (kernel, channels) = (config.stem.kernel, config.stem_channels());
        normed(&mut layout, "conv1".into(), "bn1".into(), [channels, CHANNELS, kernel, kernel]);
        for block in config.blocks() {
            let (name, BasicBlock { input, output, .. }) = (block.name(), block);
            normed(&mut layout, format!("{name}.conv1"), format!("{name}.bn1"), [output, input, 3, 3]);
            normed(&mut layout, format!("{name}.conv2"), format!("{name}.bn2"), [output, output, 3, 3]);
            if block.has_downsample() {
                let name = format!("{name}.downsample");
                normed(&mut layout, format!("{name}.0"), format!("{name}.1"), [output, input, 1, 1]);
            }
        }
        layout.push("fc.weight".into(), &[spec.classes, config.features()]);
        layout.push("fc.bias".into(), &[spec.classes]);
        layout
    }

    /// The layout of a ResNet's running statistics, `running_mean` and `running_var` of each batch norm in the order of
    /// [`ParamLayout::resnet`].
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

    /// Counts of torchvision's and timm's model of that name with ten classes, by `sum(p.numel() ...)` there.
    #[test]
    fn resnet34_has_torchvisions_parameters() {
        let spec = ResnetSpec::new(ResnetPreset::Resnet34);
        let layout = ParamLayout::resnet(&spec);
        assert_eq!(layout.len(), 21_289_802);
        assert_eq!(ParamLayout::resnet_statistics(&spec).len(), 17_024);
        let names: Vec<&str> = layout.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names[..4], ["conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight"]);
        assert_eq!(layout.get("layer2.0.downsample.0.weight").unwrap().shape, [128, 64, 1, 1]);
        assert!(layout.get("layer1.0.downsample.0.weight").is_none());
        assert_eq!(names[names.len() - 2..], ["fc.weight", "fc.bias"]);
    }

    #[test]
    fn every_parameter_has_its_group() {
        for preset in ResnetPreset::ALL {
            let layout = ParamLayout::resnet(&ResnetSpec::new(preset));
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
        assert!(ParamLayout::resnet(&ResnetSpec::new(ResnetPreset::Nano)).len() < 300_000);
    }
}
