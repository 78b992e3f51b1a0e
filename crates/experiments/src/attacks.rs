//! Experiments that attack: how alike what comes out is to what went in.

mod findings;
mod panel;
mod panels;
mod pictures;
mod watched;
mod weights;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Knowledge};

pub(crate) use self::{
    panels::{cases, cost, run},
    watched::watched,
};
use crate::{accuracy::mean, catalogue::Scale, matrix::MatrixRow};

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
    /// Of mask, noise and start.
    #[serde(default)]
    pub(crate) seed: u64,
    /// 1 for identical pictures.
    pub(crate) ssim: f64,
    /// In dB, at most 99.
    pub(crate) psnr: f64,
    pub(crate) seconds: f64,
}

impl AttackResult {
    /// What a row shows that has a picture, of the defence with the key `case`.
    pub(crate) fn of(row: &MatrixRow, case: &str) -> Option<Self> {
        Some(Self {
            attack: row.attack.method()?,
            case: case.to_owned(),
            picture: row.image.clone(),
            seed: row.seed,
            ssim: row.ssim?,
            psnr: row.psnr?,
            seconds: row.seconds,
        })
    }
}

/// SSIM by picture, so that two attacks can be compared picture by picture: what came out of each that was `seen`, a mean where it
/// was attacked several times, and 0 for those with `nothing` to solve.
pub(crate) fn by_picture<'a>(
    seen: impl Iterator<Item = &'a AttackResult>,
    nothing: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, f64> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let nothing = nothing.map(|picture| (picture, 0.0));
    for (picture, ssim) in seen.map(|result| (result.picture.as_str(), result.ssim)).chain(nothing) {
        values.entry(picture).or_default().push(ssim);
    }
    values.into_iter().map(|(picture, values)| (picture, mean(&values))).collect()
}

/// Steps of a token matching that is to end in time.
pub(crate) fn matching_steps(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 3,
        Scale::Quick => 200,
        Scale::Small => 400,
        Scale::Paper => 2000,
    }
}
