//! The defences that the papers compare.

use super::Case;
use crate::figure::{Look, Stroke};

/// Which kind of protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Random,
    Frozen,
    Fixed,
    Noise,
}

/// A defence as figures name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Protection {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Of the line: stronger masks have later colours.
    pub(super) colour: usize,
    /// As the command line has it.
    pub(super) defence: &'static str,
}

const fn random(key: &'static str, name: &'static str, colour: usize, defence: &'static str) -> Protection {
    Protection { key, name, kind: Kind::Random, colour, defence }
}

const fn frozen(key: &'static str, name: &'static str, colour: usize, defence: &'static str) -> Protection {
    Protection { key, name, kind: Kind::Frozen, colour, defence }
}

const fn noise(key: &'static str, name: &'static str, colour: usize, defence: &'static str) -> Protection {
    Protection { key, name, kind: Kind::Noise, colour, defence }
}

const NONE: Protection = Protection { key: "none", name: "no defence", kind: Kind::None, colour: 0, defence: "none" };
const R02: Protection = random("r0.2", "random binary, R = 0.2", 1, "random-binary:0.2");
const R05: Protection = random("r0.5", "random binary, R = 0.5", 2, "random-binary:0.5");
const R08: Protection = random("r0.8", "random binary, R = 0.8", 3, "random-binary:0.8");
const EPS4: Protection = noise("eps4", "noise, ε = 4", 4, "gaussian:eps=4,delta=0.5,clip=0.5");
const EPS1: Protection = noise("eps1", "noise, ε = 1", 5, "gaussian:eps=1,delta=0.5,clip=0.5");

/// All that RBW Fig. 5 and FLRSP Fig. 4 compare.
pub(super) const ALL: &[Protection] = &[
    NONE,
    R02,
    R05,
    R08,
    frozen("f0.2", "frozen binary, R = 0.2", 1, "frozen-binary:0.2"),
    frozen("f0.5", "frozen binary, R = 0.5", 2, "frozen-binary:0.5"),
    frozen("f0.8", "frozen binary, R = 0.8", 3, "frozen-binary:0.8"),
    Protection { key: "fixed", name: "fixed position", kind: Kind::Fixed, colour: 5, defence: "fixed-position" },
    EPS4,
    EPS1,
];

/// What FLRSP Figs. 5 and 6 compare.
pub(super) const MASKS_AND_NOISE: &[Protection] = &[NONE, R02, R05, R08, EPS4, EPS1];

impl Protection {
    /// The training under it.
    pub(super) fn case(&self) -> Case {
        let stroke = match self.kind {
            Kind::None | Kind::Random => Stroke::Solid,
            Kind::Frozen | Kind::Fixed => Stroke::Dashed,
            Kind::Noise => Stroke::Dotted,
        };
        Case {
            key: self.key.to_owned(),
            name: self.name.to_owned(),
            look: Look { colour: self.colour, stroke },
            set: vec![format!("defence={}", self.defence)],
        }
    }
}
