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
use crate::{catalogue::Scale, figure::Look};

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

    fn look(self) -> Look {
        match self {
            Self::Naive => Look::solid(1),
            Self::Aware => Look::solid(3),
        }
    }
}

/// What one attack made of one picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
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

/// A defence under attack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shield {
    pub(crate) key: &'static str,
    /// Below the axis.
    pub(crate) name: &'static str,
    /// As the command line has it.
    pub(crate) defence: &'static str,
    /// Whether it drops anything that an attacker could know of.
    pub(crate) is_mask: bool,
}

/// What FLRSP Figs. 8 to 12 compare.
pub(crate) static SHIELDS: [Shield; 6] = [
    Shield { key: "none", name: "none", defence: "none", is_mask: false },
    Shield { key: "r0.2", name: "R = 0.2", defence: "random-binary:0.2", is_mask: true },
    Shield { key: "r0.5", name: "R = 0.5", defence: "random-binary:0.5", is_mask: true },
    Shield { key: "r0.8", name: "R = 0.8", defence: "random-binary:0.8", is_mask: true },
    Shield { key: "eps4", name: "ε = 4", defence: "gaussian:eps=4,delta=0.5,clip=0.5", is_mask: false },
    Shield { key: "eps1", name: "ε = 1", defence: "gaussian:eps=1,delta=0.5,clip=0.5", is_mask: false },
];

/// How many pictures are attacked, as in the papers.
fn pictures(scale: Scale) -> usize {
    match scale {
        Scale::Tiny => 2,
        Scale::Small | Scale::Paper => 15,
    }
}
