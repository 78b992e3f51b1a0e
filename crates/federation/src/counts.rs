//! Total weight of the updates behind each parameter, from masks drawn again from their seeds.
//!
//! The relay keeps no array of these counts. When a round closes, all masks are drawn in parallel, up to 64 entries at
//! a time, and added bit-sliced: bit `i` of plane `k` is bit `k` of the count of entry `i`.

use unmask_defence::Mask;

/// Entries counted in one step.
pub(crate) const LANES: usize = 64;

/// Bit-sliced counts of up to 64 entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Planes(Vec<u64>);

impl Planes {
    /// Zero counts, with room for counts up to `most`.
    pub(crate) fn new(most: u32) -> Self {
        Self(vec![0; (u32::BITS - most.leading_zeros()) as usize])
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds `weight` to the count of every entry with its bit set in `word`, as a ripple-carry adder with 64 lanes. A
    /// carry out of the highest plane is lost, so counts must not exceed the limit given to [`new`](Self::new).
    fn add(&mut self, word: u64, weight: u32) {
        let mut weight = weight;
        while weight != 0 {
            let mut carry = word;
            for plane in self.0.iter_mut().skip(weight.trailing_zeros() as usize) {
                (*plane, carry) = (*plane ^ carry, *plane & carry);
                if carry == 0 {
                    break;
                }
            }
            weight &= weight - 1;
        }
    }

    /// Bit `i` says whether entry `i` has a count above zero.
    pub(crate) fn any(&self) -> u64 {
        self.0.iter().fold(0, |any, plane| any | plane)
    }

    /// Bit `i` says whether entry `i` has a count of at least `least`: the comparison of 64 numbers with one, from the
    /// lowest bit up.
    pub(crate) fn at_least(&self, least: u32) -> u64 {
        let bits = self.0.len();
        if least.checked_shr(bits as u32).unwrap_or(0) > 0 {
            return 0;
        }
        let is_less = self.0.iter().enumerate().fold(0, |is_less, (k, &plane)| match least >> k & 1 {
            0 => is_less & !plane,
            _ => is_less | !plane,
        });
        !is_less
    }

    /// Writes the counts of all 64 entries.
    pub(crate) fn write(&self, counts: &mut [f32; LANES]) {
        let mut sums = [0u32; LANES];
        // Eight planes form one byte of each count; a table spreads eight bits of a plane over eight such bytes.
        for (byte, planes) in self.0.chunks(8).enumerate() {
            for (group, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let spread = |(k, plane): (usize, &u64)| SPREAD[(plane >> (8 * group)) as usize & 0xff] << k;
                let packed: u64 = planes.iter().enumerate().map(spread).sum();
                for (sum, part) in sums.iter_mut().zip(packed.to_le_bytes()) {
                    *sum |= u32::from(part) << (8 * byte);
                }
            }
        }
        for (count, sum) in counts.iter_mut().zip(sums) {
            *count = sum as f32;
        }
    }
}

/// Maps bit `i` of the index to byte `i` of the entry.
static SPREAD: [u64; 256] = {
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut lane = 0;
        while lane < 8 {
            table[bits] |= ((bits as u64 >> lane) & 1) << (8 * lane);
            lane += 1;
        }
        bits += 1;
    }
    table
};

/// What stands behind a mask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Behind {
    /// Total weight of its updates.
    pub(crate) weight: u32,
    /// Their number.
    pub(crate) updates: u32,
}

/// Weighted masks over the same parameters, drawn in parallel.
#[derive(Debug)]
pub(crate) struct Tally {
    masks: Vec<(Mask, Behind)>,
    weights: Planes,
    /// Numbers of updates, if a parameter needs more than one.
    updates: Option<Planes>,
    min_kept: u32,
}

impl Tally {
    /// All `masks` must have the same layout and rates, so that their words line up. A parameter counts as sent if
    /// `min_kept` updates have it.
    pub(crate) fn new(masks: Vec<(Mask, Behind)>, min_kept: u32) -> Self {
        let total = |of: fn(&Behind) -> u32| masks.iter().fold(0u32, |total, (_, mask)| total.saturating_add(of(mask)));
        let weights = Planes::new(total(|mask| mask.weight));
        let updates = (min_kept > 1).then(|| Planes::new(total(|mask| mask.updates)));
        Self { masks, weights, updates, min_kept }
    }

    /// Weights of the next entries, which of them are sent, and their number; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(&Planes, u64, usize)> {
        self.weights.clear();
        self.updates.iter_mut().for_each(Planes::clear);
        let mut len = None;
        for (mask, behind) in &mut self.masks {
            let (word, entries) = mask.next()?;
            self.weights.add(word, behind.weight);
            self.updates.iter_mut().for_each(|updates| updates.add(word, behind.updates));
            len = Some(entries);
        }
        let sent = self.updates.as_ref().map_or_else(|| self.weights.any(), |updates| updates.at_least(self.min_kept));
        len.map(|len| (&self.weights, sent, len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn planes_count(words in vec((any::<u64>(), 1u32..100_000), 1..20), least in prop_oneof![0u32..20, any::<u32>()]) {
            let mut planes = Planes::new(words.iter().map(|(_, weight)| weight).sum());
            for (word, weight) in &words {
                planes.add(*word, *weight);
            }
            let mut counts = [0.0; LANES];
            planes.write(&mut counts);
            for (lane, count) in counts.into_iter().enumerate() {
                let expected: u32 = words.iter().map(|(word, weight)| (word >> lane & 1) as u32 * weight).sum();
                prop_assert_eq!(count, expected as f32);
                prop_assert_eq!(planes.any() >> lane & 1 == 1, expected > 0);
                for least in [least, expected, expected + 1] {
                    prop_assert_eq!(planes.at_least(least) >> lane & 1 == 1, expected >= least);
                }
            }
        }
    }
}
