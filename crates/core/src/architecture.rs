//! Networks by name, and the state of a trained network.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    InitOptions, LenetConfig, LenetInit, ParamLayout, ResnetPreset, ResnetSpec, SizeError, VitConfig, VitPreset,
    init::{initial_resnet, initial_statistics},
    initial_lenet, initial_weights,
};

/// The network that a federation trains. Messages and files carry its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "ModelDescription", into = "ModelDescription")]
pub enum Architecture {
    Vit(VitConfig),
    Resnet(ResnetSpec),
    Lenet(LenetConfig),
}

/// A plain-text [`Architecture`] for messages and JSON: it can be reported even if the name is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelDescription {
    #[serde(rename = "model")]
    pub name: String,
    /// Whether block 0 is the one without norm and residuals that APRIL's closed form needs.
    pub april_block: bool,
    /// Classes of the head.
    pub classes: u16,
}

impl From<Architecture> for ModelDescription {
    fn from(architecture: Architecture) -> Self {
        Self {
            name: architecture.name().into_owned(),
            april_block: architecture.april_block(),
            classes: u16::try_from(architecture.classes()).unwrap_or(u16::MAX),
        }
    }
}

impl TryFrom<ModelDescription> for Architecture {
    type Error = UnknownArchitecture;

    fn try_from(
        ModelDescription { name, april_block, classes }: ModelDescription,
    ) -> Result<Self, UnknownArchitecture> {
        Ok(Self::named(&name, classes.into())?.with_april_block(april_block))
    }
}

/// The weights and running statistics of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelState {
    /// `[P]`, in the order of [`Architecture::layout`].
    pub weights: Vec<f32>,
    /// `[Q]`, in the order of [`Architecture::statistics`]: the moments that batch norm uses in evaluation. Empty for a
    /// network without batch norm.
    pub statistics: Vec<f32>,
}

impl ModelState {
    /// The state of a network without batch norm.
    pub fn from_weights(weights: Vec<f32>) -> Self {
        Self { weights, statistics: Vec::new() }
    }
}

/// Values that cannot be the network's running statistics.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatisticsError {
    #[error(
        "there are {given} running statistics, but the network has {expected}; use a state of this network (without \
         batch norm it has none)"
    )]
    Count { given: usize, expected: usize },
    #[error("{name} holds {value}: running statistics must be finite, and variances must not be below zero")]
    Value { name: String, value: f32 },
}

/// The April block was requested for a network without transformer blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{architecture} has no transformer block to change; leave --april-block out, or choose a ViT")]
pub struct NoTransformerBlock {
    architecture: Architecture,
}

/// A name that no network has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownArchitecture {
    #[error(
        "unknown model \"{name}\"; the models are {}, and any name such as vit_patch16_dim192_depth12_heads3_64",
        Architecture::names().collect::<Vec<_>>().join(", ")
    )]
    Name { name: String },
    #[error("there is no model \"{name}\": {reason}")]
    Size { name: String, reason: SizeError },
}

impl Architecture {
    /// The names of the presets: first Vision Transformers, then ResNets and LeNets, each from small to large.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let vits = VitPreset::ALL.into_iter().map(VitPreset::name);
        vits.chain(ResnetPreset::ALL.into_iter().map(ResnetPreset::name)).chain(LenetConfig::NAMES)
    }

    /// The network with this name and a head of `classes` classes. The name is a preset's or consists of numbers, such
    /// as `vit_patch16_dim192_depth12_heads3_64`.
    ///
    /// # Errors
    /// No network has the name, its numbers fit no network, or it has more than 2^28 parameters.
    pub fn named(name: &str, classes: usize) -> Result<Self, UnknownArchitecture> {
        let vit = VitPreset::ALL.into_iter().find(|preset| preset.name() == name).map(Self::from);
        let resnet = || ResnetPreset::ALL.into_iter().find(|preset| preset.name() == name).map(Self::from);
        let numbered =
            || VitConfig::numbered(name).map(Self::Vit).or_else(|| ResnetSpec::numbered(name).map(Self::Resnet));
        let lenet = || LenetConfig::numbered(name).map(Self::Lenet);
        let found = vit.or_else(resnet).or_else(numbered).or_else(lenet);
        let found = found.ok_or_else(|| UnknownArchitecture::Name { name: name.to_owned() })?.with_classes(classes);
        let sized = found.check().and_then(|()| SizeError::parameters(found.parameters()));
        sized.map_err(|reason| UnknownArchitecture::Size { name: name.to_owned(), reason })?;
        Ok(found)
    }

    /// The name on the command line, on the wire and in files: the preset's, or one made of the network's numbers.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Vit(config) => config.name(),
            Self::Resnet(spec) => spec.name(),
            Self::Lenet(config) => config.name().into(),
        }
    }

    /// Checks that a network can have these numbers.
    ///
    /// # Errors
    /// [`SizeError`] names the invalid number.
    pub fn check(self) -> Result<(), SizeError> {
        match self {
            Self::Vit(config) => config.check(),
            Self::Resnet(spec) => spec.check(),
            Self::Lenet(config) => config.check(),
        }
    }

    fn parameters(self) -> u64 {
        match self {
            Self::Vit(config) => config.parameters(),
            Self::Resnet(spec) => spec.parameters(),
            Self::Lenet(config) => config.parameters(),
        }
    }

    pub fn classes(self) -> usize {
        match self {
            Self::Vit(config) => config.classes,
            Self::Resnet(spec) => spec.classes,
            Self::Lenet(config) => config.classes,
        }
    }

    /// The same network with a head of `classes` classes.
    pub fn with_classes(self, classes: usize) -> Self {
        match self {
            Self::Vit(config) => Self::Vit(VitConfig { classes, ..config }),
            Self::Resnet(spec) => Self::Resnet(ResnetSpec { classes, ..spec }),
            Self::Lenet(config) => Self::Lenet(LenetConfig { classes, ..config }),
        }
    }

    /// Whether its first block is the one without norm and residuals that APRIL's closed form needs.
    pub fn april_block(self) -> bool {
        matches!(self, Self::Vit(VitConfig { april_block: true, .. }))
    }

    /// The same network with or without the block that APRIL's closed form needs. A convolutional network stays
    /// unchanged.
    pub fn with_april_block(self, april_block: bool) -> Self {
        match self {
            Self::Vit(config) => Self::Vit(config.with_april_block(april_block)),
            Self::Resnet(_) | Self::Lenet(_) => self,
        }
    }

    /// The same network with the block that APRIL's closed form needs, if requested.
    ///
    /// # Errors
    /// The block was requested for a convolutional network, which cannot have it.
    pub fn with_asked_april_block(self, is_asked: bool) -> Result<Self, NoTransformerBlock> {
        if is_asked && self.vit().is_none() {
            return Err(NoTransformerBlock { architecture: self });
        }
        Ok(self.with_april_block(is_asked || self.april_block()))
    }

    /// The shape of a ViT; `None` for a convolutional network.
    pub fn vit(self) -> Option<VitConfig> {
        match self {
            Self::Vit(config) => Some(config),
            Self::Resnet(_) | Self::Lenet(_) => None,
        }
    }

    /// Side of the square input images in pixels.
    pub fn side(self) -> usize {
        match self {
            Self::Vit(config) => config.image,
            Self::Resnet(spec) => spec.side,
            Self::Lenet(config) => config.side,
        }
    }

    /// The order of the flat weights and gradients, `[P]`.
    pub fn layout(self) -> ParamLayout {
        match self {
            Self::Vit(config) => ParamLayout::vit(&config),
            Self::Resnet(spec) => ParamLayout::resnet(&spec),
            Self::Lenet(config) => ParamLayout::lenet(&config),
        }
    }

    /// The order of batch norm's running statistics, `[Q]`; empty without batch norm.
    pub fn statistics(self) -> ParamLayout {
        match self {
            Self::Vit(_) | Self::Lenet(_) => ParamLayout::empty(),
            Self::Resnet(spec) => ParamLayout::resnet_statistics(&spec),
        }
    }

    /// Checks that `values` can be the network's running statistics.
    ///
    /// # Errors
    /// The number of values is wrong, a value is not finite, or a variance is below zero.
    pub fn check_statistics(self, values: &[f32]) -> Result<(), StatisticsError> {
        let layout = self.statistics();
        let (given, expected) = (values.len(), layout.len());
        if given != expected {
            return Err(StatisticsError::Count { given, expected });
        }
        for param in &layout {
            let is_variance = param.name.ends_with("running_var");
            let is_wrong = |value: &&f32| !value.is_finite() || (is_variance && **value < 0.0);
            if let Some(&value) = values[param.range.clone()].iter().find(is_wrong) {
                return Err(StatisticsError::Value { name: param.name.clone(), value });
            }
        }
        Ok(())
    }

    /// A fresh network drawn from `seed`; the same seed gives the same network.
    pub fn initial(self, seed: u64) -> ModelState {
        let weights = match self {
            Self::Vit(config) => initial_weights(&config, seed, InitOptions::default()),
            Self::Resnet(spec) => initial_resnet(&spec, seed),
            Self::Lenet(config) => initial_lenet(&config, seed, LenetInit::Usual),
        };
        ModelState { weights, statistics: initial_statistics(&self.statistics()) }
    }
}

/// The classroom's default.
impl Default for Architecture {
    fn default() -> Self {
        Self::from(VitPreset::Nano)
    }
}

/// The preset with ten classes.
impl From<VitPreset> for Architecture {
    fn from(preset: VitPreset) -> Self {
        Self::Vit(preset.into())
    }
}

/// The preset with ten classes and its usual image size.
impl From<ResnetPreset> for Architecture {
    fn from(preset: ResnetPreset) -> Self {
        Self::Resnet(preset.into())
    }
}

/// Parses a name; the network has ten classes.
impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, UnknownArchitecture> {
        Self::named(name, 10)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_network_of_as_many_classes_as_asked_for() {
        for name in Architecture::names() {
            let architecture = Architecture::named(name, 7).unwrap();
            assert_eq!(architecture.to_string(), name);
            assert_eq!(architecture.classes(), 7);
            let head = architecture.layout().iter().last().unwrap().clone();
            assert_eq!(head.shape, [7]);
            let april = architecture.with_april_block(true);
            assert_eq!(ModelDescription::from(april).try_into(), Ok(april));
        }
        let error = Architecture::named("vgg16", 10).unwrap_err().to_string();
        assert!(
            error.contains("\"vgg16\"")
                && error.contains("resnet_nano, resnet18, resnet34")
                && error.contains("lenet_width12_32"),
            "{error}"
        );
    }

    /// The wire, the journal and checkpoints store an architecture by its name.
    #[test]
    fn a_network_of_any_numbers_survives_its_name() {
        for architecture in [
            Architecture::Vit(VitConfig { image: 64, classes: 1000, ..VitPreset::Tiny.into() }).with_april_block(true),
            Architecture::Resnet(ResnetSpec { side: 64, classes: 100, ..ResnetPreset::Resnet50.into() }),
            Architecture::Lenet(LenetConfig { width: 20, side: 16, classes: 3 }),
        ] {
            let description = ModelDescription::from(architecture);
            assert_eq!(Architecture::try_from(description), Ok(architecture));
            assert!(Architecture::names().all(|name| name != architecture.name()));
        }
    }

    #[test]
    fn absurd_numbers_are_refused_by_name_before_anything_is_reserved() {
        for (name, reason) in [
            ("vit_patch16_dim999999999_depth12_heads3_224", "dim is 999999999; give 1 to 8192"),
            ("vit_patch1_dim8192_depth128_heads8_1024", "the most is 268435456"),
            ("vit_patch1_dim8_depth1_heads1_999999999", "image is 999999999"),
            ("vit_patch0_dim8_depth1_heads1_16", "patch is 0"),
            ("vit_patch5_dim8_depth1_heads1_16", "choose a patch that divides 16"),
            ("vit_patch4_dim8_depth0_heads1_16", "depth is 0"),
            ("vit_patch4_dim8_depth1_heads3_16", "choose a number of heads that divides 8"),
            ("vit_patch4_dim99999999999999999999_depth1_heads3_16", "unknown model"),
            ("lenet_width4096_32", "width is 4096; give 1 to 2048"),
            ("lenet_width2048_1024", "the most is 268435456"),
            ("resnet_bottleneck_2048x64_2048x64_2048x64_2048x64_stem7_1024", "the most is 268435456"),
        ] {
            let error = Architecture::named(name, 10).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(reason), "{error}");
        }
        let error = Architecture::named("vit_nano_patch4_32", 70_000).unwrap_err().to_string();
        assert!(error.contains("classes is 70000"), "{error}");
    }

    #[test]
    fn a_fresh_state_fits_its_layouts() {
        for name in ["vit_pico_patch4_16", "resnet_nano", "lenet_width12_32"] {
            let architecture = Architecture::named(name, 10).unwrap();
            let state = architecture.initial(3);
            assert_eq!(state.weights.len(), architecture.layout().len());
            assert_eq!(state.statistics.len(), architecture.statistics().len());
            assert_eq!(state, architecture.initial(3));
            assert_ne!(state, architecture.initial(4));
        }
    }
}
