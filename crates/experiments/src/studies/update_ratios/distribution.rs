//! Numbers of updates, and a test against G(f).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use unmask_federation::GroupCounts;

/// For all parameters together: how many were updated f times, for f from 0 to the number of rounds M.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UpdateHistogram {
    pub(super) histogram: Vec<u64>,
    /// G(f), as the room's panel computes it.
    pub(super) expected: Vec<f64>,
}

impl UpdateHistogram {
    /// Combines all groups, each with its own expectation.
    pub(super) fn of(groups: &[GroupCounts]) -> Self {
        let present: Vec<&GroupCounts> = groups.iter().filter(|group| group.parameters > 0).collect();
        let parameters: usize = present.iter().map(|group| group.parameters).sum();
        let counts = present.first().map_or(0, |group| group.expected.len());
        let sum = |f: usize| present.iter().map(|group| u64::from(group.histogram[f])).sum();
        let expect = |f: usize| {
            let of_group = |group: &&GroupCounts| group.parameters as f64 * group.expected[f];
            present.iter().map(of_group).sum::<f64>() / parameters as f64
        };
        Self { histogram: (0..counts).map(sum).collect(), expected: (0..counts).map(expect).collect() }
    }

    pub(super) fn rounds(&self) -> usize {
        self.histogram.len().saturating_sub(1)
    }

    pub(super) fn shares(&self) -> Vec<f64> {
        let all = self.histogram.iter().sum::<u64>().max(1) as f64;
        self.histogram.iter().map(|&count| count as f64 / all).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChiSquaredTest {
    /// Sum of (found - expected)^2 / expected.
    pub(super) statistic: f64,
    /// The 99 % quantile of the statistic if the expectation is true.
    pub(super) limit: f64,
}

/// The smallest expected count of a bin; smaller bins are merged.
const MIN_EXPECTED: f64 = 5.0;

/// Pearson's test of the counts against G(f). Neighbouring bins are merged until each has an expected count of at least
/// [`MIN_EXPECTED`].
pub(super) fn chi_squared_test(counts: &UpdateHistogram) -> ChiSquaredTest {
    let all = counts.histogram.iter().sum::<u64>() as f64;
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (&found, &expected) in counts.histogram.iter().zip(&counts.expected) {
        open = (open.0 + found as f64, open.1 + all * expected);
        if open.1 >= MIN_EXPECTED {
            bins.push(open);
            open = (0.0, 0.0);
        }
    }
    match bins.last_mut() {
        Some(last) => *last = (last.0 + open.0, last.1 + open.1),
        None => bins.push(open),
    }
    let statistic = bins.iter().map(|(found, expected)| (found - expected).powi(2) / expected.max(1e-300)).sum();
    ChiSquaredTest { statistic, limit: quantile(bins.len().saturating_sub(1).max(1)) }
}

/// The 99 % quantile of chi-squared; infinite for 0 degrees of freedom.
fn quantile(freedom: usize) -> f64 {
    ChiSquared::new(freedom as f64).map_or(f64::INFINITY, |chi_squared| chi_squared.inverse_cdf(0.99))
}

/// The sum over all f of the printed form C(M,f) (1-R^N)^f R^(N(1-f)).
pub(super) fn printed_sum(rounds: usize, clients: usize, rate: f64) -> f64 {
    let dropped = rate.powi(clients as i32);
    let mut choose = 1.0;
    (0..=rounds)
        .map(|f| {
            let term = choose * (1.0 - dropped).powi(f as i32) * dropped.powi(1 - f as i32);
            choose *= (rounds - f) as f64 / (f + 1) as f64;
            term
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles from a table: 6.635 (1), 23.209 (10), 50.892 (30).
    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, wanted) in [(1, 6.635), (10, 23.209), (30, 50.892)] {
            assert!((quantile(freedom) - wanted).abs() < 6e-4, "{freedom}: {}", quantile(freedom));
        }
    }

    #[test]
    fn counts_of_another_distribution_are_told_apart() {
        let expected = vec![0.25, 0.5, 0.25];
        let fits = |histogram: Vec<u64>| {
            let test = chi_squared_test(&UpdateHistogram { histogram, expected: expected.clone() });
            test.statistic <= test.limit
        };
        assert!(fits(vec![2500, 5000, 2500]) && fits(vec![2450, 5080, 2470]));
        assert!(!fits(vec![3000, 4500, 2500]));
    }

    /// With one round: R^N + (1 - R^N), which is 1 by chance. With two: R^N + 2 (1 - R^N) + (1 - R^N)^2 / R^N.
    #[test]
    fn the_printed_form_is_no_distribution() {
        assert!((printed_sum(1, 5, 0.5) - (1.0_f64 / 32.0 + 31.0 / 32.0)).abs() < 1e-12);
        let q = 1.0_f64 / 32.0;
        assert!((printed_sum(2, 5, 0.5) - (q + 2.0 * (1.0 - q) + (1.0 - q).powi(2) / q)).abs() < 1e-9);
    }
}
