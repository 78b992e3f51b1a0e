//! How often each parameter was updated (RBW Fig. 6, FLRSP Fig. 13).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{Defence, ParamGroup, ParamLayout, ZeroRate};

/// Most parameters that are counted one by one; of larger models an evenly spread sample is.
const MOST: usize = 1 << 21;

/// Per parameter, the number of rounds in which somebody's update had its value, since the policy began.
#[derive(Debug, Clone)]
pub struct UpdateCounts {
    layout: Arc<ParamLayout>,
    defence: Defence,
    /// Every `stride`th parameter is counted.
    stride: usize,
    counts: Vec<u16>,
    rounds: u16,
    /// Per group, the probability that a parameter is updated f times, f from 0 to the number of rounds.
    expected: [Vec<f64>; ParamGroup::ALL.len()],
}

/// [`UpdateCounts`] as they are written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountsRecord {
    counts: Vec<u16>,
    rounds: u16,
    expected: [Vec<f64>; ParamGroup::ALL.len()],
}

/// How often the parameters of one group were updated.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupCounts {
    pub group: ParamGroup,
    /// Its share of zeros R, where masks are used.
    pub rate: Option<ZeroRate>,
    /// How many of its parameters are counted.
    pub parameters: usize,
    /// Entry f: how many of them were updated f times; from 0 to M, the number of rounds.
    pub histogram: Vec<u32>,
    /// Entry f: the share of them expected there.
    pub expected: Vec<f64>,
}

/// Several numbers of updates taken together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountBin {
    /// The first number of updates in it.
    pub from: u32,
    /// The last one.
    pub to: u32,
    /// Share of the group's parameters in it.
    pub share: f64,
    /// Share expected in it.
    pub expected: f64,
}

impl UpdateCounts {
    /// No round yet, under this defence.
    pub fn new(layout: Arc<ParamLayout>, defence: Defence) -> Self {
        let stride = layout.len().div_ceil(MOST).max(1);
        let counts = vec![0; layout.len().div_ceil(stride)];
        Self { layout, defence, stride, counts, rounds: 0, expected: std::array::from_fn(|_| vec![1.0]) }
    }

    /// Counts that go on after `rounds` rounds of `updates` updates each, in which the parameters [counted](Self::counts)
    /// were updated that often. Counts of other parameters are cut off, and missing ones taken for zero.
    pub fn resumed(layout: Arc<ParamLayout>, defence: Defence, counts: Vec<u16>, rounds: u32, updates: u32) -> Self {
        let mut resumed = Self::new(layout, defence);
        for (count, earlier) in resumed.counts.iter_mut().zip(counts) {
            *count = earlier;
        }
        for _ in 0..rounds.min(u16::MAX.into()) {
            resumed.end_round(updates);
        }
        resumed
    }

    pub(crate) fn record_of(&self) -> CountsRecord {
        CountsRecord { counts: self.counts.clone(), rounds: self.rounds, expected: self.expected.clone() }
    }

    /// Counts that go on from a record; `None` where it is of another layout.
    pub(crate) fn from_record(layout: Arc<ParamLayout>, defence: Defence, record: CountsRecord) -> Option<Self> {
        let CountsRecord { counts, rounds, expected } = record;
        let fresh = Self::new(layout, defence);
        let numbers = usize::from(rounds) + 1;
        let fits = counts.len() == fresh.counts.len()
            && counts.iter().all(|&count| count <= rounds)
            && expected.iter().all(|expected| expected.len() == numbers);
        fits.then_some(Self { counts, rounds, expected, ..fresh })
    }

    /// How often each counted parameter was updated: of all of them, or of an evenly spread sample in a large model.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }

    /// Number of rounds M counted: those that averaged at least one update.
    pub fn rounds(&self) -> u32 {
        self.rounds.into()
    }

    /// How many parameters are counted, where these are not all but an evenly spread sample.
    pub fn sampled(&self) -> Option<usize> {
        (self.stride > 1).then_some(self.counts.len())
    }

    /// After so many rounds nothing more is counted: shares hardly change by then.
    fn is_full(&self) -> bool {
        self.rounds == u16::MAX
    }

    /// Counts `len` parameters from `start` on: bit `i` of `sent` says whether somebody sent parameter `start + i`.
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

    /// Ends a round of `updates` updates.
    pub(crate) fn end_round(&mut self, updates: u32) {
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
                count_one_more(expected, 1.0 - zero_rate.powf(updates.into()));
            }
        }
    }

    /// How often the parameters of each group that the model has were updated, and how often that is to be expected.
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

/// One more round, in which a parameter is updated with probability `p = 1 - R^N`, N clients having sent something: the
/// Poisson binomial distribution of the number of updates.
///
/// With the same N in all of M rounds this is G(f) = C(M,f) (1-R^N)^f (R^N)^(M-f). RBW Eq. 13 and FLRSP Eq. 16 print the
/// exponent N(1-f) in its place, which is wrong: M - f rounds pass without an update, each with probability R^N.
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

    /// Mean number of updates of a parameter.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.histogram.iter().enumerate().map(|(f, &n)| f as f64 * f64::from(n)).sum();
        total / (self.parameters.max(1) as f64)
    }

    /// The histogram and what is expected of it in at most `most` bins of the same width, the last of which may be
    /// narrower.
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
