//! The trade-off of a defence between accuracy and what attackers see: points measured during a lesson, and the curve
//! that ships with the program as `trade-off.json` (schema: `docs/schema/trade-off.json`).

use serde::{Deserialize, Serialize};

use crate::{AttackMethod, Defence, OptimiserKind, PictureAddress, SchemaVersion, text::words};

/// All points that were measured together, and their provenance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffCurve {
    #[serde(default)]
    pub schema_version: SchemaVersion<1>,
    pub provenance: CurveProvenance,
    pub setup: CurveSetup,
    /// Grouped by data set, in display order: no defence first, then masks by increasing rate.
    pub points: Vec<CurvePoint>,
}

/// Everything needed to repeat the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveProvenance {
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// Commit that the program was built from; absent outside a checkout.
    pub commit: Option<String>,
    /// Whether the checkout differed from the commit.
    pub has_local_changes: bool,
    /// Processor name as the system reports it, if it does.
    pub processor: Option<String>,
    /// Number of threads available.
    pub threads: usize,
    /// Wall-clock time, summed over all parts.
    pub seconds: f64,
    /// Seconds since 1970.
    pub finished: i64,
}

/// The setup that all points share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveSetup {
    pub model: String,
    pub clients: usize,
    /// Pictures per gradient in training. The attacked updates hold one picture.
    pub batch: u16,
    pub optimiser: OptimiserKind,
    /// Held-out pictures used to measure accuracy.
    pub test_pictures: usize,
    /// Number of attacked photographs; each has its own updates.
    pub photographs: usize,
    /// Updates of one photograph that the attack `rounds` gathers.
    pub gathered: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Training data: `generated` or `cifar10`.
    pub data: String,
    pub defence: Defence,
    /// Share of zeros R, if a mask has one for all parameters.
    pub rate: Option<f64>,
    /// Training rounds.
    pub rounds: u32,
    /// Accuracy of the trained models on held-out pictures, in [0, 1].
    pub accuracy: MeanInterval,
    /// SSIM of the best attacker's reconstruction, 1 for the photograph itself; absent if no attack had anything to
    /// solve.
    pub ssim: Option<MeanInterval>,
    /// The best attacker: the one with the largest mean in `attackers`.
    pub attacker: Option<AttackMethod>,
    /// Stage at which the best attacker saw most.
    pub stage: Option<ModelStage>,
    /// Seeds of the training runs.
    pub seeds: Vec<u64>,
    /// Every attacker at every stage, best first.
    pub attackers: Vec<CurveAttacker>,
}

/// A defence as measured during a lesson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffPoint {
    pub defence: Defence,
    /// Rounds run under this defence.
    pub rounds: u32,
    /// Share of held-out pictures classified correctly at the last measurement under this defence; absent before the
    /// first.
    pub accuracy: Option<f64>,
    /// SSIM of the best attacker's reconstruction; absent until one is scored.
    pub ssim: Option<f32>,
}

/// What masks cost and what they leak, as robots measure it beside a class: one model, one attack and one sample
/// photograph for all columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffColumns {
    /// Name of the model; its weights come with the program.
    pub model: String,
    pub robots: usize,
    pub test_pictures: usize,
    /// Accuracy of guessing, in [0, 1].
    pub chance: f64,
    /// Whether they were measured beside an earlier lesson.
    #[serde(default)]
    pub is_recorded: bool,
    /// By increasing share of zeros.
    pub columns: Vec<TradeOffColumn>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TradeOffColumn {
    pub defence: Defence,
    /// Rounds trained under this defence.
    pub rounds: u32,
    /// Share of test pictures named right after these rounds; absent until measured.
    pub accuracy: Option<f64>,
    /// SSIM of what an attacker who knows the mask reads from an update at the initial weights; absent until measured.
    pub ssim: Option<f32>,
    /// The attacker's picture as a `data:` address.
    pub picture: Option<PictureAddress>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveAttacker {
    pub attacker: AttackMethod,
    pub stage: ModelStage,
    pub ssim: MeanInterval,
    /// Number of seeds tried, counted up from the first.
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
    /// The interval of `half_width` around the mean, clamped to `least..=most`.
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
