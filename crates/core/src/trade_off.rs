//! What a defence costs in accuracy beside what it leaves to see: what is measured while a lesson runs, and the curve that
//! comes with the program, as `trade-off.json` has it (`docs/schema/trade-off.json`).

use serde::{Deserialize, Serialize};

use crate::{AttackMethod, Defence, OptimiserKind, text::words};

/// All points that were measured together, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffCurve {
    pub provenance: CurveProvenance,
    pub setup: CurveSetup,
    /// By data set, in the order shown: no defence first, masks from the smallest rate on.
    pub points: Vec<CurvePoint>,
}

/// Enough to measure the curve again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveProvenance {
    pub command: String,
    /// Of the program.
    pub version: String,
    /// What the program was built from; absent outside a checkout.
    pub commit: Option<String>,
    /// Whether files differed from it.
    pub has_local_changes: bool,
    /// Its name as the system has it, where it has one.
    pub processor: Option<String>,
    /// Threads that were there to compute.
    pub threads: usize,
    /// By the clock, of all parts added up.
    pub seconds: f64,
    /// In seconds since 1970.
    pub finished: i64,
}

/// What all points share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveSetup {
    pub model: String,
    pub clients: usize,
    /// Pictures of one gradient while the model is trained. The attacked updates hold one.
    pub batch: u16,
    pub optimiser: OptimiserKind,
    /// Held-out pictures that an accuracy is measured on.
    pub test_pictures: usize,
    /// Photographs that were attacked, each in updates of its own.
    pub photographs: usize,
    /// Updates of one photograph that the attack `rounds` gathers.
    pub gathered: usize,
}

/// One defence on one data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// What the model was trained on: `generated` or `cifar10`.
    pub data: String,
    pub defence: Defence,
    /// Share of zeros R, where a mask has one for all parameters.
    pub rate: Option<f64>,
    /// That the model was trained for.
    pub rounds: u32,
    /// Of the trained models on held-out pictures, in [0, 1].
    pub accuracy: MeanInterval,
    /// Of what the best attacker makes of a photograph, 1 for the photograph itself; absent where no attack had anything to
    /// solve.
    pub ssim: Option<MeanInterval>,
    /// The best attacker: the one with the largest mean of all that follow.
    pub attacker: Option<AttackMethod>,
    /// Where it saw most.
    pub stage: Option<ModelStage>,
    /// Of the trainings.
    pub seeds: Vec<u64>,
    /// Every attacker at every stage, the best first.
    pub attackers: Vec<CurveAttacker>,
}

/// What was measured of one defence while a lesson runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffPoint {
    pub defence: Defence,
    /// Rounds that ran under it.
    pub rounds: u32,
    /// Share of held-out pictures that the model named right when it was last measured under it; absent before.
    pub accuracy: Option<f64>,
    /// Of what the best attacker makes of a picture; absent until one was scored.
    pub ssim: Option<f32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveAttacker {
    pub attacker: AttackMethod,
    pub stage: ModelStage,
    pub ssim: MeanInterval,
    /// How many seeds it was tried with, counted up from the first.
    pub seeds: usize,
}

/// A mean and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanInterval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// How far a model was trained when it was attacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelStage {
    /// At its initial weights.
    Initial,
    /// After the last round.
    Trained,
}

words!(ModelStage {
    Initial = "initial",
    Trained = "trained",
}, UnknownModelStage, "a model has no stage {name:?}; write {words}", " or ");

impl MeanInterval {
    /// `half_width` to either side of the mean, as far as a value can lie between `least` and `most`.
    #[must_use]
    pub fn around(mean: f64, half_width: f64, least: f64, most: f64) -> Self {
        Self { mean, low: (mean - half_width).max(least), high: (mean + half_width).min(most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_end_where_values_do() {
        let wide = MeanInterval::around(0.75, 0.5, -1.0, 1.0);
        assert_eq!((wide.low, wide.mean, wide.high), (0.25, 0.75, 1.0));
        assert_eq!(MeanInterval::around(0.25, 0.5, 0.0, 1.0).low, 0.0);
    }

    #[test]
    fn stages_are_read_as_they_are_written() {
        for stage in ModelStage::ALL {
            assert_eq!(stage.to_string().parse(), Ok(stage));
        }
        assert!("fresh".parse::<ModelStage>().unwrap_err().to_string().contains("initial or trained"));
    }
}
