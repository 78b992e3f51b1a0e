//! A network by name, and everything that a trained one is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    InitOptions, ModelSpec, ParamLayout, Preset, ResnetPreset, ResnetSpec,
    init::{initial_resnet, initial_statistics},
    initial_weights,
};

/// What a federation trains: a network by name, with its number of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// A Vision Transformer.
    Vit(ModelSpec),
    /// A residual network with batch norm.
    Resnet(ResnetSpec),
}

/// Everything that a trained network is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelState {
    /// `[P]`, in the order of [`Architecture::layout`].
    pub weights: Vec<f32>,
    /// `[Q]`, in the order of [`Architecture::statistics`]: what batch norm uses in place of a batch's own moments when
    /// the network is evaluated. Empty for a ViT.
    pub statistics: Vec<f32>,
}

/// A name that no network has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown model \"{name}\"; the models are {}", Architecture::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownArchitecture {
    /// What was given.
    pub name: String,
}

impl Architecture {
    /// The names of all networks: Vision Transformers first, each kind smallest first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Preset::ALL.into_iter().map(Preset::name).chain(ResnetPreset::ALL.into_iter().map(ResnetPreset::name))
    }

    /// The network of that name, with a head of `classes` classes.
    ///
    /// # Errors
    /// If no network has the name.
    pub fn named(name: &str, classes: usize) -> Result<Self, UnknownArchitecture> {
        let vit = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        let resnet = ResnetPreset::ALL.into_iter().find(|preset| preset.name() == name);
        let vit = vit.map(|preset| Self::Vit(ModelSpec { classes, ..ModelSpec::new(preset) }));
        let resnet = resnet.map(|preset| Self::Resnet(ResnetSpec { classes, ..ResnetSpec::new(preset) }));
        vit.or(resnet).ok_or_else(|| UnknownArchitecture { name: name.to_owned() })
    }

    /// The name used at every border: command line, configurations, files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vit(spec) => spec.preset.name(),
            Self::Resnet(spec) => spec.preset.name(),
        }
    }

    /// Number of classes of the head.
    pub fn classes(self) -> usize {
        match self {
            Self::Vit(spec) => spec.classes,
            Self::Resnet(spec) => spec.classes,
        }
    }

    /// The same network with a head of `classes` classes.
    pub fn with_classes(self, classes: usize) -> Self {
        match self {
            Self::Vit(spec) => Self::Vit(ModelSpec { classes, ..spec }),
            Self::Resnet(spec) => Self::Resnet(ResnetSpec { classes, ..spec }),
        }
    }

    /// Side of the square images it takes, in pixels.
    pub fn side(self) -> usize {
        match self {
            Self::Vit(spec) => spec.config().image,
            Self::Resnet(spec) => spec.side,
        }
    }

    /// The order of the flat weights and gradients, `[P]`.
    pub fn layout(self) -> ParamLayout {
        match self {
            Self::Vit(spec) => ParamLayout::vit(&spec.config()),
            Self::Resnet(spec) => ParamLayout::resnet(&spec),
        }
    }

    /// The order of batch norm's running statistics, `[Q]`; empty for a ViT, which has none.
    pub fn statistics(self) -> ParamLayout {
        match self {
            Self::Vit(_) => ParamLayout::empty(),
            Self::Resnet(spec) => ParamLayout::resnet_statistics(&spec),
        }
    }

    /// A fresh network, drawn from `seed`; the same seed gives the same one.
    pub fn initial(self, seed: u64) -> ModelState {
        let weights = match self {
            Self::Vit(spec) => initial_weights(&spec.config(), seed, InitOptions::default()),
            Self::Resnet(spec) => initial_resnet(&spec, seed),
        };
        ModelState { weights, statistics: initial_statistics(&self.statistics()) }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
        }
        let error = Architecture::named("resnet18", 10).unwrap_err().to_string();
        assert!(error.contains("\"resnet18\"") && error.contains("resnet_nano, resnet34"), "{error}");
    }

    #[test]
    fn a_fresh_state_fits_its_layouts() {
        for name in ["vit_pico_patch4_16", "resnet_nano"] {
            let architecture = Architecture::named(name, 10).unwrap();
            let state = architecture.initial(3);
            assert_eq!(state.weights.len(), architecture.layout().len());
            assert_eq!(state.statistics.len(), architecture.statistics().len());
            assert_eq!(state, architecture.initial(3));
            assert_ne!(state, architecture.initial(4));
        }
    }
}
