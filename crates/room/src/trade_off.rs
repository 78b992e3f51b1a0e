//! The class's own measurements of each defence: accuracy against leakage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Defence, TradeOffPoint};

use crate::scores::Scores;

/// Upper limit of defences kept; a further one replaces the one that ran first.
const MOST_DEFENCES: usize = 64;
/// Number of scores, the newest, behind the median of an attack under a defence.
const MOST_SCORES: usize = 25;

/// The points of the current model. The journal stores them as is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct TradeOff {
    /// In the order of their first rounds.
    points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Point {
    defence: Defence,
    rounds: u32,
    accuracy: Option<f64>,
    scores: BTreeMap<AttackMethod, Scores>,
}

impl TradeOff {
    pub(crate) fn ran(&mut self, defence: Defence) {
        let point = self.point(defence);
        point.rounds = point.rounds.saturating_add(1);
    }

    pub(crate) fn measured(&mut self, defence: Defence, accuracy: f64) {
        self.point(defence).accuracy = Some(accuracy);
    }

    /// Notes an attack's score in this round. A search is scored many times; its last score counts.
    pub(crate) fn scored(&mut self, defence: Defence, attack: AttackMethod, round: u32, ssim: f32) {
        self.point(defence).scores.entry(attack).or_default().push(round, ssim, MOST_SCORES);
    }

    pub(crate) fn clear(&mut self) {
        self.points.clear();
    }

    pub(crate) fn view(&self) -> Vec<TradeOffPoint> {
        // Scores and measurements may arrive before the defence's first round has closed.
        let ran = self.points.iter().filter(|point| point.rounds > 0);
        ran.map(|point| TradeOffPoint {
            defence: point.defence,
            rounds: point.rounds,
            accuracy: point.accuracy,
            ssim: point.scores.values().filter_map(Scores::median).max_by(f32::total_cmp),
        })
        .collect()
    }

    fn point(&mut self, defence: Defence) -> &mut Point {
        let at = self.points.iter().position(|point| point.defence == defence).unwrap_or_else(|| {
            if self.points.len() == MOST_DEFENCES {
                self.points.remove(0);
            }
            self.points.push(Point { defence, rounds: 0, accuracy: None, scores: BTreeMap::new() });
            self.points.len() - 1
        });
        &mut self.points[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(rate: &str) -> Defence {
        format!("random-binary:{rate}").parse().unwrap()
    }

    #[test]
    fn a_point_has_the_median_of_its_best_attacker() {
        let mut trade_off = TradeOff::default();
        let half = masked("0.5");
        for (round, naive, aware) in [(1, 0.1, 0.5), (2, 0.2, 0.9), (3, 0.1, 0.4)] {
            trade_off.scored(half, AttackMethod::Embedding, round, naive);
            trade_off.scored(half, AttackMethod::EmbeddingAware, round, aware);
            trade_off.ran(half);
        }
        trade_off.measured(half, 0.25);
        trade_off.measured(half, 0.3);
        let point = TradeOffPoint { defence: half, rounds: 3, accuracy: Some(0.3), ssim: Some(0.5) };
        assert_eq!(trade_off.view(), [point]);
        trade_off.clear();
        assert_eq!(trade_off.view(), []);
    }

    #[test]
    fn a_search_has_one_score_a_round_and_a_defence_without_scores_none() {
        let mut trade_off = TradeOff::default();
        trade_off.ran(Defence::None);
        let noisy = masked("0.9");
        for ssim in [0.1, 0.2, 0.7] {
            trade_off.scored(noisy, AttackMethod::MatchingAware, 2, ssim);
        }
        assert_eq!(trade_off.view().len(), 1, "no round has closed under it yet");
        trade_off.ran(noisy);
        let seen: Vec<Option<f32>> = trade_off.view().iter().map(|point| point.ssim).collect();
        assert_eq!(seen, [None, Some(0.7)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut trade_off = TradeOff::default();
        for rate in 1..=200 {
            let defence = masked(&format!("{}", f64::from(rate) / 256.0));
            for round in 0..100 {
                trade_off.scored(defence, AttackMethod::Embedding, round, 0.5);
            }
            trade_off.ran(defence);
        }
        assert_eq!(trade_off.points.len(), MOST_DEFENCES);
        assert!(
            trade_off.points.iter().all(|point| point.scores[&AttackMethod::Embedding].values().len() == MOST_SCORES)
        );
    }
}
