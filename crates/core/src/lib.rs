//! Presets, the layout of the flat parameter vector, seeded initial weights, and the rule by which they are trained.
//!
//! Every crate that handles an update agrees on this one description of it. It is free of tensors, files and network,
//! so that the relay, the defences, the attacks and the browser page can read a flat `f32` vector without a deep
//! learning framework.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod architecture;
mod init;
mod layout;
mod preset;
mod resnet;
mod rule;

pub use architecture::{Architecture, ModelState, UnknownArchitecture};
pub use init::{InitOptions, initial_weights};
pub use layout::{Param, ParamGroup, ParamLayout, UnknownGroup};
pub use preset::{ModelSpec, Preset, UnknownPreset, VitConfig};
pub use resnet::{BasicBlock, ResnetConfig, ResnetPreset, ResnetSpec, Stem};
pub use rule::{ParseRuleError, Rule};
