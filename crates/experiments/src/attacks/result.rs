//! What an attack made of a picture.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::AttackMethod;

use crate::{accuracy::mean, catalogue::Scale, matrix::MatrixRow};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttackResult {
    pub(crate) attack: AttackMethod,
    /// Key of the defence.
    pub(crate) case: String,
    pub(crate) picture: String,
    /// Seed of mask, noise and start.
    #[serde(default)]
    pub(crate) seed: u64,
    pub(crate) ssim: f64,
    /// In dB, at most 99.
    pub(crate) psnr: f64,
    pub(crate) seconds: f64,
}

impl AttackResult {
    /// The result in a row under the defence with the key `case`; `None` for a row without a picture.
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

/// SSIM by picture, so that two attacks can be compared picture by picture: the mean over the `seen` results of a
/// picture, where each entry in `nothing` (the attack had nothing to solve) counts as 0.
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

/// Steps of a token matching that must finish in reasonable time.
pub(crate) fn matching_steps(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 3,
        Scale::Quick => 200,
        Scale::Small => 400,
        Scale::Paper => 2000,
    }
}
