//! What each attack sees under each defence, averaged over pictures and seeds.

use serde::{Deserialize, Serialize};
use unmask_core::{Defence, ThreatModel, Verdict};
use unmask_inversion::InferenceAttack;

use super::{MatrixRow, MatrixSettings};
use crate::accuracy::{mean, t_half_width};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixMean {
    pub attack: InferenceAttack,
    pub defence: Defence,
    #[serde(default, skip_serializing_if = "ThreatModel::is_honest")]
    pub threat: ThreatModel,
    /// Number of finished rows with each verdict.
    pub recognisable: usize,
    pub not_recognisable_by_this_attack: usize,
    pub cannot_tell: usize,
    /// Over the rows that have one.
    pub ssim: Option<Interval>,
    /// In dB.
    pub psnr: Option<Interval>,
}

/// A mean over seeds of the mean over pictures, with its 95 % interval: mean ± t s / sqrt(K) for K seeds, with
/// Student's t of K - 1 degrees of freedom and the standard deviation s of the seeds' means.
///
/// The interval covers other weights, masks, noise and starts for these pictures. It does not cover other pictures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    /// `None` for one seed, which has no spread.
    pub half_width: Option<f64>,
    /// Number of seeds with at least one value.
    pub seeds: usize,
}

impl Interval {
    fn of(seeds: &[Vec<f64>]) -> Option<Self> {
        let means: Vec<f64> = seeds.iter().filter(|values| !values.is_empty()).map(|values| mean(values)).collect();
        let count = means.len();
        let half_width = (count > 1).then(|| t_half_width(&means));
        (count > 0).then(|| Self { mean: mean(&means), half_width, seeds: count })
    }
}

/// Means in the order of the settings: threat model by threat model, attack by attack.
pub(super) fn means(settings: &MatrixSettings, rows: &[MatrixRow]) -> Vec<MatrixMean> {
    let MatrixSettings { attacks, defences, threats, .. } = settings;
    let pairs = attacks.iter().flat_map(|&attack| defences.iter().map(move |&defence| (attack, defence)));
    let all = threats.iter().flat_map(|&threat| pairs.clone().map(move |(attack, defence)| (threat, attack, defence)));
    all.map(|(threat, attack, defence)| one(settings, rows, threat, (attack, defence))).collect()
}

fn one(
    settings: &MatrixSettings,
    rows: &[MatrixRow],
    threat: ThreatModel,
    (attack, defence): (InferenceAttack, Defence),
) -> MatrixMean {
    let is_of = |row: &&MatrixRow| (row.threat, row.attack, row.defence) == (threat, attack, defence);
    let of_pair: Vec<&MatrixRow> = rows.iter().filter(is_of).collect();
    let count = |is: fn(&Verdict) -> bool| of_pair.iter().filter(|row| is(&row.verdict)).count();
    let interval = |value: fn(&MatrixRow) -> Option<f64>| {
        let of_seed = |seed| of_pair.iter().filter(|row| row.seed == seed).filter_map(|row| value(row)).collect();
        Interval::of(&settings.all_seeds().map(of_seed).collect::<Vec<Vec<f64>>>())
    };
    MatrixMean {
        attack,
        defence,
        threat,
        recognisable: count(|verdict| *verdict == Verdict::Recognisable),
        not_recognisable_by_this_attack: count(|verdict| *verdict == Verdict::NotRecognisableByThisAttack),
        cannot_tell: count(|verdict| matches!(verdict, Verdict::CannotTell(_))),
        ssim: interval(|row| row.ssim),
        psnr: interval(|row| row.psnr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means 0.2, 0.3 and 0.4: s = 0.1, t(2) = 4.303, so 4.303 x 0.1 / sqrt(3) = 0.2484.
    #[test]
    fn the_interval_is_students_over_the_seeds_means() {
        let interval = Interval::of(&[vec![0.1, 0.3], vec![0.3, 0.3], vec![0.35, 0.45]]).unwrap();
        assert!((interval.mean - 0.3).abs() < 1e-12 && interval.seeds == 3, "{interval:?}");
        assert!((interval.half_width.unwrap() - 0.2484).abs() < 1e-3, "{interval:?}");
        let one = Interval::of(&[vec![0.2, 0.4], Vec::new()]).unwrap();
        assert_eq!((one.half_width, one.seeds), (None, 1), "one seed shows no spread");
        assert_eq!(Interval::of(&[Vec::new()]), None);
    }
}
