//! Random binary masks, drawn 64 entries at a time.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{GroupRates, MaskSeed, ParamLayout, RateRun, ZeroRate};

/// The mask B of one update, as a stream of words of up to 64 entries. Bit `i` of a word is its entry `i`; 1 means
/// kept.
///
/// Each word holds independent Bernoulli(1 - R) draws. Up to 64 lanes compare, bit by bit from the highest, a random
/// binary fraction with the keep probability; the first bit that differs decides a lane. All lanes are decided after
/// one random word at R = 0.5, after about seven words for most other rates, and after 16 at the latest. A run of
/// parameters with one rate ends with a short word.
#[derive(Debug, Clone)]
pub struct Mask {
    rng: ChaCha8Rng,
    runs: std::vec::IntoIter<RateRun>,
    /// Keep probability of the current run in 65536ths, 1 to 65536.
    keep: u32,
    remaining: usize,
}

impl Mask {
    pub fn new(seed: MaskSeed, rates: &GroupRates, layout: &ParamLayout) -> Self {
        Self::of_runs(seed, rates.runs(layout))
    }

    pub fn uniform(seed: MaskSeed, rate: ZeroRate, len: usize) -> Self {
        Self::of_runs(seed, vec![RateRun { rate, len }])
    }

    fn of_runs(seed: MaskSeed, runs: Vec<RateRun>) -> Self {
        Self { rng: ChaCha8Rng::from_seed(seed.0), runs: runs.into_iter(), keep: 65536, remaining: 0 }
    }

    /// Yields single entries; `true` means kept.
    pub fn entries(self) -> impl Iterator<Item = bool> {
        self.flat_map(|(word, len)| (0..len).map(move |lane| word >> lane & 1 == 1))
    }

    /// Returns the runs after the current one.
    pub(crate) fn runs(&self) -> &[RateRun] {
        self.runs.as_slice()
    }

    /// Collects all remaining words. A loop per run is faster than calling `next` for each word.
    pub(crate) fn into_words(mut self) -> Vec<u64> {
        let runs = self.runs().iter().map(|run| run.len.div_ceil(64)).sum::<usize>();
        let mut words = Vec::with_capacity(self.remaining.div_ceil(64) + runs);
        loop {
            while self.remaining >= 64 {
                words.push(draw(&mut self.rng, self.keep));
                self.remaining -= 64;
            }
            match self.next() {
                Some((word, _)) => words.push(word),
                None => return words,
            }
        }
    }
}

/// Draws 64 entries, each kept with probability `keep` / 65536.
#[inline]
fn draw(rng: &mut ChaCha8Rng, keep: u32) -> u64 {
    if keep == 65536 {
        return u64::MAX;
    }
    // A set bit in `random` means that the lane's fraction has a zero in this place.
    let (mut word, mut undecided) = (0, u64::MAX);
    for bit in (keep.trailing_zeros()..16).rev() {
        let random = rng.next_u64();
        if keep >> bit & 1 == 1 {
            word |= undecided & random;
            undecided &= !random;
        } else {
            undecided &= random;
        }
        if undecided == 0 {
            break;
        }
    }
    word
}

/// Yields `(word, number of valid entries)`. Bits beyond that number are zero.
impl Iterator for Mask {
    type Item = (u64, usize);

    fn next(&mut self) -> Option<(u64, usize)> {
        while self.remaining == 0 {
            let run = self.runs.next()?;
            self.keep = 65536 - u32::from(run.rate.bits());
            self.remaining = run.len;
        }
        let len = self.remaining.min(64);
        self.remaining -= len;
        Some((draw(&mut self.rng, self.keep) & (u64::MAX >> (64 - len)), len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Architecture, ParamGroup, VitPreset};

    use super::*;

    fn kept(seed: u8, rate: f64, len: usize) -> Vec<bool> {
        Mask::uniform(MaskSeed([seed; 32]), ZeroRate::new(rate).unwrap(), len).entries().collect()
    }

    /// The same seed must give these words natively and in the browser.
    #[test]
    fn words_are_fixed_by_the_seed() {
        let words: String = Mask::uniform(MaskSeed([7; 32]), ZeroRate::new(0.3).unwrap(), 1000)
            .map(|(word, _)| format!("{word:016x}\n"))
            .collect();
        assert_eq!(words, include_str!("../testdata/mask_words.txt"));
    }

    proptest! {
        #[test]
        fn share_of_zeros_is_the_rate(seed in any::<[u8; 32]>(), rate in 0.0f64..1.0) {
            let rate = ZeroRate::new(rate).unwrap();
            let n = 100_000;
            let zeros = Mask::uniform(MaskSeed(seed), rate, n).entries().filter(|kept| !kept).count();
            let sd = (n as f64 * rate.get() * (1.0 - rate.get())).sqrt();
            prop_assert!((zeros as f64 - n as f64 * rate.get()).abs() <= 6.0 * sd, "{zeros} zeros at {rate}");
        }

        #[test]
        fn lengths_are_prefixes(seed in any::<u8>(), len in 0usize..300) {
            prop_assert_eq!(&kept(seed, 0.5, 300)[..len], &kept(seed, 0.5, len)[..]);
        }
    }

    /// Every group's share of zeros is its own rate, and no group's mask depends on where another one ends.
    #[test]
    fn each_group_has_its_own_rate() {
        let layout = Architecture::from(VitPreset::Nano).layout();
        let rates: GroupRates = "patch=0.95,pos=0.9,attn=0.1,mlp=0.5,norm=0.7,0.3".parse().unwrap();
        let mask: Vec<bool> = Mask::new(MaskSeed([5; 32]), &rates, &layout).entries().collect();
        assert_eq!(mask.len(), layout.len());
        for group in ParamGroup::VIT {
            let (mut zeros, mut n) = (0.0, 0.0);
            for range in layout.group_ranges(group) {
                n += range.len() as f64;
                zeros += mask[range].iter().filter(|kept| !**kept).count() as f64;
            }
            let rate = rates.get(group).get();
            assert!((zeros - n * rate).abs() < 6.0 * (n * rate * (1.0 - rate)).sqrt(), "{group}: {zeros} of {n}");
        }
    }

    /// Masks of two seeds agree as often as independent draws: in a share R^2 + (1-R)^2 of the entries.
    #[test]
    fn seeds_are_independent() {
        let n = 200_000;
        for rate in [0.2, 0.5, 0.8] {
            let agree = kept(1, rate, n).iter().zip(kept(2, rate, n)).filter(|(a, b)| **a == *b).count() as f64;
            let expected: f64 = rate * rate + (1.0 - rate) * (1.0 - rate);
            let sd = (n as f64 * expected * (1.0 - expected)).sqrt();
            assert!((agree - n as f64 * expected).abs() < 6.0 * sd);
        }
    }

    #[test]
    fn entries_are_independent() {
        let n = 200_000;
        for lag in [1, 63, 64] {
            let mask = kept(3, 0.5, n + lag);
            let agree = (0..n).filter(|&i| mask[i] == mask[i + lag]).count() as f64;
            assert!((agree - n as f64 / 2.0).abs() < 6.0 * (n as f64 / 4.0).sqrt(), "lag {lag}: {agree}");
        }
    }

    #[test]
    fn zero_rate_keeps_everything() {
        assert!(kept(1, 0.0, 1000).into_iter().all(|kept| kept));
    }
}
