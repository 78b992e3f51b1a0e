//! A mask held in memory, and operations that move values through it.

use crate::Mask;
use unmask_core::RateRun;

/// A drawn mask: one bit per parameter. Words follow the layout's runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DrawnMask {
    words: Vec<u64>,
    runs: Vec<RateRun>,
}

/// Above this number of kept entries per word, visiting every entry is cheaper than visiting only the kept ones.
const DENSE: u32 = 24;

impl DrawnMask {
    /// `mask` must not have yielded any word.
    pub(crate) fn new(mask: Mask) -> Self {
        let runs = mask.runs().to_vec();
        Self { words: mask.into_words(), runs }
    }

    pub(crate) fn kept(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns `(word, number of entries)` for each word, like the [`Mask`] that this was drawn from.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, usize)> + Clone {
        let entries = |run: &RateRun| {
            let len = run.len;
            (0..len).step_by(64).map(move |start| (len - start).min(64))
        };
        self.words.iter().copied().zip(self.runs.iter().flat_map(entries))
    }

    /// Returns, for each run, the expected share of kept values (above 0) and the number of values actually kept.
    pub(crate) fn kept_by_run(&self) -> impl Iterator<Item = (f64, usize)> {
        let mut words = self.words.iter();
        self.runs.iter().map(move |run| {
            let words = words.by_ref().take(run.len.div_ceil(64));
            (1.0 - run.rate.get(), words.map(|word| word.count_ones() as usize).sum())
        })
    }

    /// Removes the values that the mask drops from `values` `[P]`; keeps the order.
    pub(crate) fn keep(&self, values: &mut Vec<f32>) {
        let (mut start, mut kept) = (0, 0);
        self.for_each_word(|word, len| {
            // Kept values only move towards the front, so they never overwrite unread ones.
            match values[start..].first_chunk().copied() {
                Some(chunk) if len == 64 => {
                    values[kept..kept + 64].copy_from_slice(&compress(&chunk, word));
                    kept += word.count_ones() as usize;
                }
                _ => {
                    for lane in (0..len).filter(|lane| word >> lane & 1 == 1) {
                        values[kept] = values[start + lane];
                        kept += 1;
                    }
                }
            }
            start += len;
        });
        values.truncate(kept);
    }

    /// Writes each kept value to its place in `places` `[P]`.
    pub(crate) fn place(&self, kept: &[f32], places: &mut [f32]) {
        let mut kept = kept.iter();
        self.for_each_chunk(places, |word, places| {
            for_each_bit(word, &mut kept, |lane, value| places[lane] = value);
        });
    }

    /// Adds `weight` times each kept value to its place in `sums` `[P]`. All kept values must be finite.
    pub(crate) fn add(&self, kept: &[f32], weight: f32, sums: &mut [f32]) {
        let mut kept = kept;
        self.for_each_chunk(sums, |word, sums| {
            let count = word.count_ones();
            match (<&mut [f32; 64]>::try_from(&mut *sums), kept.first_chunk()) {
                (Ok(sums), Some(window)) if count > DENSE => add_word(word, window, weight, sums),
                _ => for_each_bit(word, &mut kept.iter(), |lane, value| sums[lane] += weight * value),
            }
            kept = kept.get(count as usize..).unwrap_or_default();
        });
    }

    fn for_each_word(&self, mut f: impl FnMut(u64, usize)) {
        let mut words = self.words.iter();
        for run in &self.runs {
            for (start, &word) in (0..run.len).step_by(64).zip(words.by_ref()) {
                f(word, (run.len - start).min(64));
            }
        }
    }

    fn for_each_chunk(&self, places: &mut [f32], mut f: impl FnMut(u64, &mut [f32])) {
        let (mut words, mut rest) = (self.words.as_slice(), places);
        for run in &self.runs {
            let (places, behind) = rest.split_at_mut(run.len.min(rest.len()));
            let (here, next) = words.split_at(run.len.div_ceil(64).min(words.len()));
            for (chunk, &word) in places.chunks_mut(64).zip(here) {
                f(word, chunk);
            }
            (words, rest) = (next, behind);
        }
    }
}

/// Moves the values whose bit is set to the front, in order. The values after them are meaningless.
fn compress(values: &[f32; 64], word: u64) -> [f32; 64] {
    let mut compressed = [0.0; 64];
    let mut kept = 0;
    for (lane, value) in values.iter().enumerate() {
        compressed[kept & 63] = *value;
        kept += (word >> lane & 1) as usize;
    }
    compressed
}

fn for_each_bit<'a>(word: u64, kept: &mut impl Iterator<Item = &'a f32>, mut f: impl FnMut(usize, f32)) {
    let mut word = word;
    while word != 0
        && let Some(value) = kept.next()
    {
        f(word.trailing_zeros() as usize, *value);
        word &= word - 1;
    }
}

/// Adds eight entries at a time. A table maps each entry to one of the next eight kept values.
#[inline]
fn add_word(word: u64, kept: &[f32; 64], weight: f32, sums: &mut [f32; 64]) {
    let mut next = 0;
    for (byte, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = (word >> (8 * byte)) as usize & 0xff;
        let Some(window) = kept[next..].first_chunk::<8>() else { return };
        let (order, mask) = (&ORDER[bits], &MASK[bits]);
        // Plain loops over lanes: `array::map` is not inlined here, which halves the speed.
        let mut values = [0; 8];
        for lane in 0..8 {
            values[lane] = window[usize::from(order[lane] & 7)].to_bits();
        }
        for lane in 0..8 {
            sums[lane] += weight * f32::from_bits(values[lane] & mask[lane]);
        }
        next += bits.count_ones() as usize;
    }
}

/// For each byte of a mask and each of its lanes: the number of kept lanes before it.
static ORDER: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut lane, mut before) = (0, 0);
        while lane < 8 {
            table[bits][lane] = before;
            before += (bits >> lane & 1) as u8;
            lane += 1;
        }
        bits += 1;
    }
    table
};

/// For each byte of a mask: all bits set in the kept lanes.
static MASK: [[u32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut lane = 0;
        while lane < 8 {
            table[bits][lane] = if bits >> lane & 1 == 1 { u32::MAX } else { 0 };
            lane += 1;
        }
        bits += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Architecture, GroupRates, MaskSeed, VitPreset};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares with a loop over single entries, at every density and with runs that end in short words.
        #[test]
        fn values_go_where_the_mask_says(
            seed in any::<[u8; 32]>(),
            bits in any::<[u16; 7]>(),
            is_uniform in any::<bool>(),
            weight in 1u16..500,
        ) {
            let layout = Architecture::from(VitPreset::Pico).layout();
            let rates = GroupRates::from_bits(if is_uniform { [bits[0]; 7] } else { bits });
            let mask = || Mask::new(MaskSeed(seed), &rates, &layout);
            let drawn = DrawnMask::new(mask());
            let entries: Vec<bool> = mask().entries().collect();
            let values: Vec<f32> = (0..layout.len()).map(|i| ((i * 37 % 1001) as f32 - 500.0) / 7.0).collect();
            let background: Vec<f32> = (0..layout.len()).map(|i| i as f32 * 0.01).collect();
            let weight = f32::from(weight);

            let mut kept = values.clone();
            drawn.keep(&mut kept);
            let expected: Vec<f32> = values.iter().zip(&entries).filter(|(_, kept)| **kept).map(|(v, _)| *v).collect();
            prop_assert_eq!(drawn.kept(), expected.len());
            prop_assert!(drawn.words().eq(mask()));
            prop_assert_eq!(&kept, &expected);

            let (mut placed, mut sums) = (background.clone(), background.clone());
            drawn.place(&kept, &mut placed);
            drawn.add(&kept, weight, &mut sums);
            for i in 0..layout.len() {
                prop_assert_eq!(placed[i], if entries[i] { values[i] } else { background[i] });
                prop_assert_eq!(sums[i], background[i] + if entries[i] { weight * values[i] } else { 0.0 });
            }
        }
    }
}
