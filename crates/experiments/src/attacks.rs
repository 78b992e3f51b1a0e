//! Experiments that attack: how alike what comes out is to what went in.

mod findings;
mod resnet;
mod targets;
mod vit;
mod watched;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Knowledge};

pub(crate) use self::{
    resnet::{cases as resnet_cases, cost as resnet_cost, run as run_resnet},
    vit::{cases as vit_cases, run as run_vit},
    watched::watched,
};
use crate::catalogue::Scale;

/// An attacker as a person reads of one.
fn title(attacker: Knowledge) -> &'static str {
    match attacker {
        Knowledge::Naive => "takes what was dropped for zeros, as in the papers",
        Knowledge::Aware => "knows the mask",
    }
}

/// One attack on one picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttackResult {
    pub(crate) attack: AttackMethod,
    /// Key of the defence.
    pub(crate) case: String,
    pub(crate) picture: String,
    /// 1 for identical pictures.
    pub(crate) ssim: f64,
    /// In dB, at most 99.
    pub(crate) psnr: f64,
    pub(crate) seconds: f64,
}

/// SSIM by picture, so that two attacks can be compared picture by picture: what came out of each that was `seen`, and 0 for
/// those with `nothing` to solve.
pub(crate) fn by_picture<'a>(
    seen: impl Iterator<Item = &'a AttackResult>,
    nothing: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, f64> {
    let nothing = nothing.map(|picture| (picture, 0.0));
    nothing.chain(seen.map(|result| (result.picture.as_str(), result.ssim))).collect()
}

/// Steps of a token matching that is to end in time.
pub(crate) fn matching_steps(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 3,
        Scale::Small => 400,
        Scale::Paper => 2000,
    }
}

/// How many pictures are attacked, as in the papers.
fn pictures(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 2,
        Scale::Small | Scale::Paper => 15,
    }
}
