//! The order in which a client sees its pictures.

use rand::seq::SliceRandom;

use crate::seeds::Seeds;

/// A client's shard, in a different order on each pass.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    client: usize,
    /// Indices into the training pictures, ascending; at least one.
    shard: Vec<usize>,
}

impl Order {
    pub(crate) fn new(client: usize, shard: Vec<usize>) -> Self {
        Self { client, shard }
    }

    pub(crate) fn pass(&self, seeds: Seeds, pass: u64) -> Vec<usize> {
        let mut order = self.shard.clone();
        order.shuffle(&mut seeds.rng("order", pass, self.client));
        order
    }

    /// Number of complete passes before batch `round`, counted from 0.
    pub(crate) fn passes(&self, round: u32, batch: usize) -> u64 {
        u64::from(round) * batch as u64 / self.shard.len().max(1) as u64
    }

    /// The pictures of batch `round`, counted from 0. Passes follow each other without a break: all batches have the
    /// same size, and a batch may end one pass and begin the next.
    pub(crate) fn batch(&self, seeds: Seeds, round: u32, batch: usize) -> Vec<usize> {
        let first = u64::from(round) * batch as u64;
        let mut pictures = Vec::with_capacity(batch);
        let mut pass = self.passes(round, batch);
        let mut skip = (first % self.shard.len() as u64) as usize;
        while pictures.len() < batch {
            let left = batch - pictures.len();
            pictures.extend(self.pass(seeds, pass).into_iter().skip(skip).take(left));
            (pass, skip) = (pass + 1, 0);
        }
        pictures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After a whole number of passes, every picture was seen once per pass.
        #[test]
        fn batches_are_the_passes_cut_up(len in 1usize..40, batch in 1usize..50, passes in 1u64..5, seed: u64) {
            let (order, seeds) = (Order::new(3, (10..10 + len).collect()), Seeds(seed));
            let passed: Vec<usize> = (0..passes).flat_map(|pass| order.pass(seeds, pass)).collect();
            let rounds = passed.len().div_ceil(batch) as u32;
            let batched: Vec<usize> = (0..rounds).flat_map(|round| order.batch(seeds, round, batch)).collect();
            prop_assert_eq!(batched.len(), rounds as usize * batch);
            prop_assert_eq!(&batched[..passed.len()], &passed);
            let mut first = order.pass(seeds, 0);
            first.sort_unstable();
            prop_assert_eq!(first, (10..10 + len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn passes_and_clients_and_seeds_differ() {
        let order = |client| Order::new(client, (0..50).collect());
        let first = order(0).pass(Seeds(1), 0);
        assert_eq!(first, order(0).pass(Seeds(1), 0));
        for other in [order(0).pass(Seeds(1), 1), order(1).pass(Seeds(1), 0), order(0).pass(Seeds(2), 0)] {
            assert_ne!(first, other);
        }
    }
}
