//! Experiments that attack: how alike what comes out is to what went in.

mod findings;
mod resnet;
mod targets;
mod vit;

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    resnet::{cost as resnet_cost, run as run_resnet},
    vit::run as run_vit,
};
use crate::{catalogue::Scale, figure::SeriesStyle};

/// Whether the attacker takes a dropped entry for a value, or knows the mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Attacker {
    /// Dropped entries are zeros: whom the papers tested.
    Naive,
    /// Dropped entries are unknown.
    Aware,
}

impl Attacker {
    /// The name a person reads.
    fn title(self) -> &'static str {
        match self {
            Self::Naive => "takes what was dropped for zeros, as in the papers",
            Self::Aware => "knows the mask",
        }
    }

    fn style(self) -> SeriesStyle {
        match self {
            Self::Naive => SeriesStyle::solid(1),
            Self::Aware => SeriesStyle::solid(3),
        }
    }
}

/// One attack on one picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttackResult {
    /// The attack's name.
    pub(crate) attack: String,
    pub(crate) attacker: Attacker,
    /// Key of the defence.
    pub(crate) case: String,
    pub(crate) picture: String,
    /// 1 for identical pictures.
    pub(crate) ssim: f64,
    /// In dB, at most 99.
    pub(crate) psnr: f64,
    pub(crate) seconds: f64,
}

/// How many pictures are attacked, as in the papers.
fn pictures(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 2,
        Scale::Small | Scale::Paper => 15,
    }
}
