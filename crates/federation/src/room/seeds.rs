//! Mask seeds that were used before.

use std::collections::{HashSet, VecDeque};

use unmask_core::MaskSeed;
use unmask_defence::FROZEN_SEED;

/// The newest seeds, which must not be used again. A client that repeats a seed reveals the same values in every round,
/// and two clients with the same seed drop the same values. Both happen within a few rounds, so it is enough to
/// remember a few hundred rounds of a full room, in at most 4 MB.
#[derive(Debug, Clone, Default)]
pub(super) struct UsedSeeds {
    known: HashSet<MaskSeed>,
    /// Seeds in order of arrival.
    order: VecDeque<MaskSeed>,
}

impl UsedSeeds {
    pub(super) const MOST: usize = 1 << 15;

    /// Whether a seed was used before. The common seed always counts as used.
    pub(super) fn contains(&self, seed: &MaskSeed) -> bool {
        *seed == FROZEN_SEED || self.known.contains(seed)
    }

    /// Seeds, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = MaskSeed> {
        self.order.iter().copied()
    }

    pub(super) fn insert(&mut self, seed: MaskSeed) {
        if self.contains(&seed) {
            return;
        }
        if self.order.len() == Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(seed);
        self.order.push_back(seed);
    }
}

/// Takes seeds, oldest first.
impl FromIterator<MaskSeed> for UsedSeeds {
    fn from_iter<I: IntoIterator<Item = MaskSeed>>(seeds: I) -> Self {
        let mut used = Self::default();
        seeds.into_iter().for_each(|seed| used.insert(seed));
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(number: usize) -> MaskSeed {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        MaskSeed(bytes)
    }

    #[test]
    fn only_the_newest_seeds_are_remembered() {
        let mut seeds = UsedSeeds::default();
        for number in 0..=UsedSeeds::MOST {
            assert!(!seeds.contains(&seed(number)));
            seeds.insert(seed(number));
            seeds.insert(seed(number));
        }
        assert!(!seeds.contains(&seed(0)), "the oldest one was dropped");
        assert!((1..=UsedSeeds::MOST).all(|number| seeds.contains(&seed(number))));
        assert_eq!((seeds.known.len(), seeds.order.len()), (UsedSeeds::MOST, UsedSeeds::MOST));
    }

    #[test]
    fn the_common_seed_is_nobody_s_own() {
        let mut seeds = UsedSeeds::default();
        seeds.insert(FROZEN_SEED);
        assert!(seeds.contains(&FROZEN_SEED) && seeds.order.is_empty());
    }
}
