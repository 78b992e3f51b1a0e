//! The defences that the papers compare.

use DefenceKind::{FixedPosition, FrozenMask, Noise, RandomMask};
use unmask_core::{Defence, ParseDefenceError, ZeroRate};

use crate::{
    error::ExperimentError,
    figure::{LineStyle, SeriesStyle},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefenceKind {
    None,
    RandomMask,
    FrozenMask,
    FixedPosition,
    Noise,
    Encryption,
}

/// A defence with its names in figures and files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ComparedDefence {
    /// Name in files.
    pub(crate) key: &'static str,
    /// Name in legends.
    pub(crate) name: &'static str,
    /// Label on an axis.
    pub(crate) label: &'static str,
    pub(crate) kind: DefenceKind,
    /// Colour of the line; stronger masks have later colours.
    pub(crate) colour: usize,
    /// Form on the command line.
    pub(crate) defence: &'static str,
}

type Entry = (&'static str, &'static str, &'static str, DefenceKind, usize, &'static str);

const fn compared((key, name, label, kind, colour, defence): Entry) -> ComparedDefence {
    ComparedDefence { key, name, label, kind, colour, defence }
}

pub(crate) const NONE: ComparedDefence = compared(("none", "no defence", "none", DefenceKind::None, 0, "none"));
pub(crate) const R02: ComparedDefence =
    compared(("r0.2", "random binary, R = 0.2", "R = 0.2", RandomMask, 1, "random-binary:0.2"));
pub(crate) const R05: ComparedDefence =
    compared(("r0.5", "random binary, R = 0.5", "R = 0.5", RandomMask, 2, "random-binary:0.5"));
const R07: ComparedDefence =
    compared(("r0.7", "random binary, R = 0.7", "R = 0.7", RandomMask, 2, "random-binary:0.7"));
pub(crate) const R08: ComparedDefence =
    compared(("r0.8", "random binary, R = 0.8", "R = 0.8", RandomMask, 3, "random-binary:0.8"));
const R09: ComparedDefence =
    compared(("r0.9", "random binary, R = 0.9", "R = 0.9", RandomMask, 3, "random-binary:0.9"));
pub(crate) const R095: ComparedDefence =
    compared(("r0.95", "random binary, R = 0.95", "R = 0.95", RandomMask, 4, "random-binary:0.95"));
const F02: ComparedDefence =
    compared(("f0.2", "frozen binary, R = 0.2", "R = 0.2", FrozenMask, 1, "frozen-binary:0.2"));
const F05: ComparedDefence =
    compared(("f0.5", "frozen binary, R = 0.5", "R = 0.5", FrozenMask, 2, "frozen-binary:0.5"));
const F08: ComparedDefence =
    compared(("f0.8", "frozen binary, R = 0.8", "R = 0.8", FrozenMask, 3, "frozen-binary:0.8"));
const FIXED: ComparedDefence = compared(("fixed", "fixed position", "fixed", FixedPosition, 5, "fixed-position"));
pub(crate) const EPS4: ComparedDefence =
    compared(("eps4", "noise, ε = 4", "ε = 4", Noise, 4, "gaussian:eps=4,delta=0.5,clip=0.5"));
const EPS2: ComparedDefence =
    compared(("eps2", "noise, ε = 2", "ε = 2", Noise, 3, "gaussian:eps=2,delta=0.5,clip=0.5"));
const EPS64: ComparedDefence =
    compared(("eps64", "noise, ε = 64", "ε = 64", Noise, 4, "gaussian:eps=64,delta=0.5,clip=0.5"));
const EPS1: ComparedDefence =
    compared(("eps1", "noise, ε = 1", "ε = 1", Noise, 5, "gaussian:eps=1,delta=0.5,clip=0.5"));
/// Noise as FLRSP prints it: without clipping.
pub(crate) const EPS4_PRINTED: ComparedDefence = compared((
    "eps4-printed",
    "noise as printed, ε = 4",
    "ε = 4, no clip",
    Noise,
    4,
    "gaussian:eps=4,delta=0.5,unclipped=0.5",
));
const EPS2_PRINTED: ComparedDefence = compared((
    "eps2-printed",
    "noise as printed, ε = 2",
    "ε = 2, no clip",
    Noise,
    3,
    "gaussian:eps=2,delta=0.5,unclipped=0.5",
));
pub(crate) const EPS1_PRINTED: ComparedDefence = compared((
    "eps1-printed",
    "noise as printed, ε = 1",
    "ε = 1, no clip",
    Noise,
    5,
    "gaussian:eps=1,delta=0.5,unclipped=0.5",
));
const EPS4_PRINTED_SMALL_DELTA: ComparedDefence = compared((
    "eps4-delta-1e-5-printed",
    "noise as printed, ε = 4, δ = 1e-5",
    "δ = 1e-5, no clip",
    Noise,
    4,
    "gaussian:eps=4,delta=1e-5,unclipped=0.5",
));
/// Noise with the same total as the paper's: rate x deviation x sqrt(rounds) equals that of SGD at rate 0.0001 over ten
/// epochs in 3125 rounds with S_f = 0.5. Here SGD steps at up to 0.3 for 40 rounds by the schedule of `resnet-fedsgd`.
pub(crate) const EPS4_MATCHED: ComparedDefence = compared((
    "eps4-matched",
    "noise matched to the paper's sum, ε = 4",
    "ε = 4, matched",
    Noise,
    4,
    "gaussian:eps=4,delta=0.5,unclipped=0.0023",
));
pub(crate) const EPS1_MATCHED: ComparedDefence = compared((
    "eps1-matched",
    "noise matched to the paper's sum, ε = 1",
    "ε = 1, matched",
    Noise,
    5,
    "gaussian:eps=1,delta=0.5,unclipped=0.0023",
));
/// Many zeros in the two layers that APRIL reads, few elsewhere.
pub(crate) const R08_EMBEDDINGS: ComparedDefence = compared((
    "r0.8-embeddings",
    "random binary, R = 0.8 on embeddings, 0.2 elsewhere",
    "0.8, 0.2",
    RandomMask,
    3,
    "random-binary:patch=0.8,pos=0.8,0.2",
));
pub(crate) const R0: ComparedDefence =
    compared(("r0", "random binary, R = 0", "R = 0", RandomMask, 1, "random-binary:0"));
pub(crate) const ENCRYPTED: ComparedDefence =
    compared(("encrypted", "encrypted", "encrypted", DefenceKind::Encryption, 5, "encrypted"));

/// The defences that RBW Fig. 5 and FLRSP Fig. 4 compare.
pub(crate) static ALL: [ComparedDefence; 10] = [NONE, R02, R05, R08, F02, F05, F08, FIXED, EPS4, EPS1];

/// The defences that FLRSP Figs. 5 to 7 and 9 to 12 compare.
pub(crate) static MASKS_AND_NOISE: [ComparedDefence; 7] = [NONE, R02, R05, R08, EPS4, EPS2, EPS1];

/// FLRSP's noise as it prints it.
pub(crate) const PRINTED: [ComparedDefence; 3] = [EPS4_PRINTED, EPS2_PRINTED, EPS1_PRINTED];

/// The attacked defences, in the order of the figures.
pub(crate) static ATTACKED: [ComparedDefence; 14] = [
    NONE,
    R02,
    R05,
    R08,
    R08_EMBEDDINGS,
    FIXED,
    EPS4,
    EPS2,
    EPS1,
    EPS4_PRINTED,
    EPS2_PRINTED,
    EPS1_PRINTED,
    EPS4_PRINTED_SMALL_DELTA,
    ENCRYPTED,
];

/// The defences that RBW Fig. 6 and FLRSP Fig. 13 compare.
pub(crate) static UPDATED: [ComparedDefence; 8] = [NONE, FIXED, R02, R05, R08, F02, F05, F08];

/// The defences with both accuracy and leakage measured: masks in the order of R, then the others.
pub(crate) static TRADE_OFF: [ComparedDefence; 10] = [NONE, R02, R05, R07, R08, R09, R095, FIXED, EPS64, EPS4];

/// The subset that there is time for on photographs.
pub(crate) static TRADE_OFF_IN_SHORT: [ComparedDefence; 3] = [NONE, R05, R095];

/// The masks that a lesson compares.
pub(crate) static TRADE_OFF_LIVE: [ComparedDefence; 4] = [NONE, R05, R08, R095];

impl ComparedDefence {
    pub(crate) fn style(&self) -> SeriesStyle {
        let line = match self.kind {
            DefenceKind::None | RandomMask => LineStyle::Solid,
            FrozenMask | FixedPosition | DefenceKind::Encryption => LineStyle::Dashed,
            Noise => LineStyle::Dotted,
        };
        SeriesStyle { colour: self.colour, line }
    }

    pub(crate) fn parsed(&self) -> Result<Defence, ExperimentError> {
        let refused = |error: ParseDefenceError| ExperimentError::Attack {
            what: self.defence.to_owned(),
            reason: error.to_string(),
        };
        self.defence.parse().map_err(refused)
    }

    /// Whether each round drops new random entries, so that an attacker may know which.
    pub(crate) fn is_mask(&self) -> bool {
        self.kind == RandomMask
    }
}

/// The rate in decimal form; a mask stores it in 65536ths.
pub(crate) fn as_written(rate: ZeroRate) -> f64 {
    rate.to_string().parse().unwrap_or_else(|_| rate.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_that_people_write() {
        assert_eq!(as_written(ZeroRate::nearest(0.95)), 0.95);
        assert_eq!(as_written(ZeroRate::nearest(0.7)), 0.7);
    }
}
