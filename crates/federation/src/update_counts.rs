//! Update counts of parameters (RBW Fig. 6, FLRSP Fig. 13).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{Defence, ParamGroup, ParamLayout, ZeroRate};

/// Most parameters counted individually; larger models are sampled evenly.
const MOST: usize = 1 << 21;

/// Per parameter, the number of rounds in which any update had its value, since the policy began.
#[derive(Debug, Clone)]
pub struct UpdateCounts {
    layout: Arc<ParamLayout>,
    defence: Defence,
    /// Every `stride`th parameter is counted.
    stride: usize,
    counts: Vec<u16>,
    rounds: u16,
    /// Per group, the probability that a parameter is updated f times, for f from 0 to the number of rounds.
    expected: [Vec<f64>; ParamGroup::ALL.len()],
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountsRecord {
    counts: Vec<u16>,
    rounds: u16,
    expected: [Vec<f64>; ParamGroup::ALL.len()],
}

/// Update counts of one parameter group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupCounts {
    pub group: ParamGroup,
    /// Share of zeros R, if there are masks.
    pub rate: Option<ZeroRate>,
    /// Number of parameters counted.
    pub parameters: usize,
    /// Entry f: number of parameters updated f times, for f from 0 to the number of rounds M.
    pub histogram: Vec<u32>,
    /// Entry f: expected share of parameters updated f times.
    pub expected: Vec<f64>,
}

/// A range of update counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountBin {
    /// Lowest update count in the bin.
    pub from: u32,
    /// Highest update count in the bin.
    pub to: u32,
    /// Share of the group's parameters.
    pub share: f64,
    /// Expected share.
    pub expected: f64,
}

impl UpdateCounts {
    pub fn new(layout: Arc<ParamLayout>, defence: Defence) -> Self {
        let stride = layout.len().div_ceil(MOST).max(1);
        let counts = vec![0; layout.len().div_ceil(stride)];
        Self { layout, defence, stride, counts, rounds: 0, expected: std::array::from_fn(|_| vec![1.0]) }
    }

    /// The same, continued after `rounds` rounds of `updates` updates each, of which `min_kept` had to have a
    /// parameter; `counts` are for the [counted](Self::counts) parameters. Surplus counts are dropped, missing ones are
    /// zero.
    #[must_use]
    pub fn resumed(mut self, counts: Vec<u16>, rounds: u32, updates: u32, min_kept: u32) -> Self {
        for (count, earlier) in self.counts.iter_mut().zip(counts) {
            *count = earlier;
        }
        for _ in 0..rounds.min(u16::MAX.into()) {
            self.end_round(updates, min_kept);
        }
        self
    }

    pub(crate) fn record_of(&self) -> CountsRecord {
        CountsRecord { counts: self.counts.clone(), rounds: self.rounds, expected: self.expected.clone() }
    }

    /// Counts that continue from a record; `None` if the record has another layout.
    pub(crate) fn from_record(layout: Arc<ParamLayout>, defence: Defence, record: CountsRecord) -> Option<Self> {
        let CountsRecord { counts, rounds, expected } = record;
        let fresh = Self::new(layout, defence);
        let numbers = usize::from(rounds) + 1;
        let fits = counts.len() == fresh.counts.len()
            && counts.iter().all(|&count| count <= rounds)
            && expected.iter().all(|expected| expected.len() == numbers);
        fits.then_some(Self { counts, rounds, expected, ..fresh })
    }

    /// Update counts of all parameters, or of an even sample in a large model.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// Number of rounds M counted: those that averaged at least one update.
    pub fn rounds(&self) -> u32 {
        self.rounds.into()
    }

    /// Number of parameters counted, if they are a sample.
    pub fn sampled(&self) -> Option<usize> {
        (self.stride > 1).then_some(self.counts.len())
    }

    /// Counting stops after this many rounds, when shares hardly change any more.
    fn is_full(&self) -> bool {
        self.rounds == u16::MAX
    }

    /// Counts `len` parameters from `start` on: bit `i` of `sent` says whether enough updates have parameter
    /// `start + i`.
    pub(crate) fn record(&mut self, start: usize, len: usize, sent: u64) {
        if self.is_full() {
            return;
        }
        let first = start.next_multiple_of(self.stride);
        let sampled = (first..start + len).step_by(self.stride);
        let begin = (first / self.stride).min(self.counts.len());
        for (count, parameter) in self.counts[begin..].iter_mut().zip(sampled) {
            *count += (sent >> (parameter - start) & 1) as u16;
        }
    }

    pub(crate) fn end_round(&mut self, updates: u32, min_kept: u32) {
        if self.is_full() {
            return;
        }
        self.rounds += 1;
        let rounds = usize::from(self.rounds);
        for (group, expected) in ParamGroup::ALL.into_iter().zip(&mut self.expected) {
            let zero_rate = self.defence.rates().map_or(0.0, |rates| rates.get(group).get());
            if self.defence.has_common_mask() {
                *expected = vec![0.0; rounds + 1];
                (expected[0], expected[rounds]) = (zero_rate, 1.0 - zero_rate);
            } else if self.defence.fixes(group) {
                expected.push(0.0);
            } else {
                count_one_more(expected, 1.0 - too_few(updates, min_kept, zero_rate));
            }
        }
    }

    /// Actual and expected update counts of each group in the model.
    pub fn groups(&self) -> Vec<GroupCounts> {
        let group_counts = |(group, expected): (ParamGroup, &Vec<f64>)| {
            let mut histogram = vec![0; usize::from(self.rounds) + 1];
            for range in self.layout.group_ranges(group) {
                for &count in &self.counts[range.start.div_ceil(self.stride)..range.end.div_ceil(self.stride)] {
                    histogram[usize::from(count)] += 1;
                }
            }
            GroupCounts {
                group,
                rate: self.defence.rates().map(|rates| rates.get(group)),
                parameters: histogram.iter().sum::<u32>() as usize,
                histogram,
                expected: expected.clone(),
            }
        };
        let groups = ParamGroup::ALL.into_iter().zip(&self.expected);
        groups.filter(|(group, _)| self.layout.has_group(*group)).map(group_counts).collect()
    }
}

/// The probability that fewer than `least` of `updates` masks keep a parameter, which each drops with probability R:
/// sum over k < least of C(N,k) (1-R)^k R^(N-k). For `least` = 1 it is R^N.
fn too_few(updates: u32, least: u32, zero_rate: f64) -> f64 {
    if updates < least {
        return 1.0;
    }
    let n = f64::from(updates);
    let (kept, dropped) = ((1.0 - zero_rate).ln(), zero_rate.ln());
    // Logarithms, since C(N,k) overflows in large federations. R = 0 gives minus infinity, and so probability 0.
    let mut ln_choose = 0.0;
    let more = (1..least).map(f64::from).map(|k| {
        ln_choose += ((n - k + 1.0) / k).ln();
        (ln_choose + k * kept + (n - k) * dropped).exp()
    });
    zero_rate.powf(n) + more.sum::<f64>()
}

/// Adds a round in which a parameter is updated with probability `p`: `1 - R^N` if N clients sent updates and one that
/// has it is enough. The number of updates has a Poisson binomial distribution.
///
/// With the same N in all M rounds this is G(f) = C(M,f) (1-R^N)^f (R^N)^(M-f). RBW Eq. 13 and FLRSP Eq. 16 print the
/// exponent N(1-f) instead, which is wrong: M - f rounds pass without an update, each with probability R^N.
fn count_one_more(distribution: &mut Vec<f64>, p: f64) {
    distribution.push(0.0);
    for f in (1..distribution.len()).rev() {
        distribution[f] = distribution[f] * (1.0 - p) + distribution[f - 1] * p;
    }
    distribution[0] *= 1.0 - p;
}

impl GroupCounts {
    /// Share of the group's parameters that were never updated.
    pub fn never(&self) -> f64 {
        self.share(0, 0)
    }

    /// Mean number of updates per parameter.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.histogram.iter().enumerate().map(|(f, &n)| f as f64 * f64::from(n)).sum();
        total / (self.parameters.max(1) as f64)
    }

    /// Actual and expected shares in at most `most` bins of equal width; only the last bin may be narrower.
    pub fn bins(&self, most: usize) -> Vec<CountBin> {
        let numbers = self.histogram.len();
        let bin = |from: usize, width: usize| {
            let to = (from + width).min(numbers) - 1;
            let expected = self.expected[from..=to].iter().sum();
            CountBin { from: from as u32, to: to as u32, share: self.share(from, to), expected }
        };
        let width = numbers.div_ceil(most.max(1));
        (0..numbers).step_by(width).map(|from| bin(from, width)).collect()
    }

    fn share(&self, from: usize, to: usize) -> f64 {
        let parameters: u32 = self.histogram[from..=to].iter().sum();
        f64::from(parameters) / (self.parameters.max(1) as f64)
    }
}
