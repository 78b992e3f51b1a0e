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

/// Weighted masks over the same parameters, drawn in parallel.
#[derive(Debug)]
pub(crate) struct Tally {
    masks: Vec<(Mask, u32)>,
    planes: Planes,
}

impl Tally {
    /// All `masks` must have the same layout and rates, so that their words line up.
    pub(crate) fn new(masks: Vec<(Mask, u32)>) -> Self {
        let total = masks.iter().fold(0u32, |total, (_, weight)| total.saturating_add(*weight));
        Self { masks, planes: Planes::new(total) }
    }

    /// Counts of the next entries and their number; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(&Planes, usize)> {
        self.planes.clear();
        let mut len = None;
        for (mask, weight) in &mut self.masks {
            let (word, entries) = mask.next()?;
            self.planes.add(word, *weight);
            len = Some(entries);
        }
        len.map(|len| (&self.planes, len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn planes_count(words in proptest::collection::vec((any::<u64>(), 1u32..100_000), 1..20)) {
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
            }
        }
    }
}
