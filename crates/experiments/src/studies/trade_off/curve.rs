//! The points of the curve.

use unmask_core::{AttackMethod, CurveAttacker, CurvePoint, CurveSetup, Defence, MeanInterval, ModelStage};
use unmask_simulation::{Config, files::rounded};

use super::{
    leakage::Leaks,
    outcome::{DataOutcome, Outcome},
};
use crate::{
    accuracy::{Estimate, mean, t_half_width},
    defences::as_written,
    training::CaseRuns,
};

/// The settings shared by all points.
pub(super) fn setup(config: &Config, photographs: usize, gathered: usize, test_pictures: usize) -> CurveSetup {
    CurveSetup {
        model: config.model.clone(),
        clients: config.clients,
        batch: config.batch,
        optimiser: config.optimiser,
        test_pictures,
        photographs,
        gathered,
    }
}

pub(super) fn point(outcome: &Outcome<'_>, trained: &DataOutcome, defence: Defence, runs: &CaseRuns<'_>) -> CurvePoint {
    let of_case =
        |leaks: &[Leaks]| -> Vec<Leaks> { leaks.iter().filter(|leaks| leaks.case == runs.case.key).cloned().collect() };
    let attackers = attackers(&of_case(&outcome.initial), &of_case(&trained.leaks));
    let best = attackers.first();
    CurvePoint {
        data: trained.data.clone(),
        defence,
        rate: defence.rates().and_then(|rates| rates.single()).map(as_written),
        rounds: runs.runs.iter().map(|run| run.rounds).max().unwrap_or(0),
        accuracy: share(runs.accuracy()),
        ssim: best.map(|best| best.ssim),
        attacker: best.map(|best| best.attacker),
        stage: best.map(|best| best.stage),
        seeds: runs.runs.iter().map(|run| run.seed).collect(),
        attackers,
    }
}

fn share(Estimate { mean, half_width, .. }: Estimate) -> MeanInterval {
    to_places(MeanInterval::around(mean / 100.0, half_width / 100.0, 0.0, 1.0))
}

fn to_places(MeanInterval { mean, low, high }: MeanInterval) -> MeanInterval {
    let [mean, low, high] = [mean, low, high].map(|value| rounded(value, 4));
    MeanInterval { mean, low, high }
}

/// Every attacker at every stage that saw anything, best first.
pub(super) fn attackers(initial: &[Leaks], trained: &[Leaks]) -> Vec<CurveAttacker> {
    let mut attackers = Vec::new();
    for (stage, leaks) in [(ModelStage::Initial, initial), (ModelStage::Trained, trained)] {
        for attacker in AttackMethod::ALL {
            let by_seed: Vec<Vec<f64>> = leaks.iter().filter_map(|leaks| leaks.ssim(attacker)).collect();
            if let Some(ssim) = interval(&by_seed) {
                attackers.push(CurveAttacker { attacker, stage, ssim: to_places(ssim), seeds: by_seed.len() });
            }
        }
    }
    // The sort is stable: among equals the simpler attacker stays first.
    attackers.sort_by(|a, b| b.ssim.mean.total_cmp(&a.ssim.mean));
    attackers
}

/// The mean of an SSIM over seeds and photographs, with its 95 % interval; `None` without values.
///
/// The interval adds two errors in quadrature, like that of an accuracy: the error of the photographs, a sample of all
/// possible ones, and the error of the seeds, a sample of all weights, masks and noise. Both use Student's t. An error
/// with a sample of one is left out.
fn interval(by_seed: &[Vec<f64>]) -> Option<MeanInterval> {
    let photographs = by_seed.iter().map(Vec::len).min().filter(|&photographs| photographs > 0)?;
    let of_seeds: Vec<f64> = by_seed.iter().map(|values| mean(&values[..photographs])).collect();
    let of_photographs: Vec<f64> =
        (0..photographs).map(|at| mean(&by_seed.iter().map(|values| values[at]).collect::<Vec<_>>())).collect();
    let half_width = t_half_width(&of_photographs).hypot(t_half_width(&of_seeds));
    Some(MeanInterval::around(mean(&of_photographs), half_width, -1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacks::AttackResult;

    fn leaks(seed: u64, attack: AttackMethod, ssim: &[f64]) -> Leaks {
        let seen = |(number, &ssim): (usize, &f64)| AttackResult {
            attack,
            case: "none".to_owned(),
            picture: format!("picture {number}"),
            seed: 1,
            ssim,
            psnr: 20.0,
            seconds: 0.0,
        };
        Leaks {
            data: None,
            case: "none".to_owned(),
            seed,
            seen: ssim.iter().enumerate().map(seen).collect(),
            cannot: Vec::new(),
            seconds: 0.0,
        }
    }

    /// One seed with values 0.2, 0.3 and 0.4: s = 0.1, so 4.303 x 0.1 / sqrt(3) = 0.2484. A second seed with all values
    /// 0.1 higher has s = 0.0707 and adds 12.706 x 0.0707 / sqrt(2) = 0.6353 in quadrature.
    #[test]
    fn photographs_and_seeds_widen_the_interval() {
        let one = interval(&[vec![0.2, 0.3, 0.4]]).unwrap();
        assert!((one.mean - 0.3).abs() < 1e-12 && (one.high - 0.5484).abs() < 1e-3, "{one:?}");
        let two = interval(&[vec![-0.35, -0.25, -0.15], vec![-0.25, -0.15, -0.05]]).unwrap();
        let half_width = 0.2484_f64.hypot(0.6353);
        assert!((two.mean + 0.2).abs() < 1e-12 && (two.high - (half_width - 0.2)).abs() < 1e-3, "{two:?}");
        let wide = interval(&[vec![-0.4, -0.3], vec![0.2, 0.3]]).unwrap();
        assert_eq!((wide.low, wide.high), (-1.0, 1.0), "there is no SSIM beyond");
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[vec![0.25]]).map(|one| (one.low, one.high)), Some((0.25, 0.25)));
    }

    #[test]
    fn the_best_attacker_comes_first_whatever_it_knows_and_whenever_it_strikes() {
        use AttackMethod::{Embedding, EmbeddingAware, Rounds};
        let initial = [
            leaks(1, Embedding, &[0.1, 0.2]),
            leaks(1, EmbeddingAware, &[0.4, 0.6]),
            leaks(2, EmbeddingAware, &[0.3, 0.5]),
        ];
        let trained = [leaks(1, Rounds, &[0.9, 0.5])];
        let found = attackers(&initial, &trained);
        let order: Vec<_> = found.iter().map(|found| (found.attacker, found.stage, found.seeds)).collect();
        assert_eq!(
            order,
            [
                (Rounds, ModelStage::Trained, 1),
                (EmbeddingAware, ModelStage::Initial, 2),
                (Embedding, ModelStage::Initial, 1)
            ]
        );
        assert!((found[0].ssim.mean - 0.7).abs() < 1e-9 && (found[1].ssim.mean - 0.45).abs() < 1e-9);
    }
}
