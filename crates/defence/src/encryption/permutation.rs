//! E_b: a secret order of the patches.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

/// E_b without the class row: encrypted patch row `i` is plain patch row `source[i]`.
pub(super) struct PatchOrder {
    source: Zeroizing<Vec<usize>>,
}

impl PatchOrder {
    /// Draws a uniformly random order of `patches` = S rows (Fisher-Yates).
    pub(super) fn new(seed: &[u8; 32], patches: usize) -> Self {
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let mut source: Zeroizing<Vec<usize>> = Zeroizing::new((0..patches).collect());
        for last in (1..patches).rev() {
            source.swap(last, below(&mut rng, last as u64 + 1) as usize);
        }
        Self { source }
    }

    /// Computes E_b E for `rows` = E, `[1 + S, D]`. The first row, the class row, stays.
    pub(super) fn encrypt(&self, rows: &mut [f32]) {
        self.move_rows(rows, |encrypted, plain| (plain, encrypted));
    }

    /// Computes E_b^-1 E for `rows` = E, `[1 + S, D]`.
    pub(super) fn decrypt(&self, rows: &mut [f32]) {
        self.move_rows(rows, |encrypted, plain| (encrypted, plain));
    }

    /// `direction` maps a row's (encrypted, plain) places to (from, to).
    fn move_rows(&self, rows: &mut [f32], direction: impl Fn(usize, usize) -> (usize, usize)) {
        let dim = rows.len() / (self.source.len() + 1);
        let patches = &mut rows[dim..];
        let before = Zeroizing::new(patches.to_vec());
        for (encrypted, &plain) in self.source.iter().enumerate() {
            let (from, to) = direction(encrypted, plain);
            patches[to * dim..][..dim].copy_from_slice(&before[from * dim..][..dim]);
        }
    }
}

/// Draws a uniform number below `bound`, without modulo bias.
fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % bound;
    loop {
        let random = rng.next_u64();
        if random < fair {
            return random % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbered(patches: usize, dim: usize) -> Vec<f32> {
        (0..(patches + 1) * dim).map(|i| i as f32).collect()
    }

    proptest! {
        #[test]
        fn order_is_a_bijection_that_fixes_the_class_row(seed in any::<[u8; 32]>(), patches in 1usize..200, dim in 1usize..5) {
            let order = PatchOrder::new(&seed, patches);
            let plain = numbered(patches, dim);
            let mut values = plain.clone();
            order.encrypt(&mut values);
            prop_assert_eq!(&values[..dim], &plain[..dim]);
            let mut seen = vec![false; patches + 1];
            for row in values.chunks(dim) {
                let source = row[0] as usize / dim;
                prop_assert!(!std::mem::replace(&mut seen[source], true));
                prop_assert_eq!(row, &plain[source * dim..][..dim]);
            }
            order.decrypt(&mut values);
            prop_assert_eq!(values, plain);
        }
    }

    #[test]
    fn orders_are_equally_likely() {
        let n = 24_000;
        let mut counts = std::collections::HashMap::new();
        for index in 0u64..n {
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&index.to_le_bytes());
            *counts.entry(PatchOrder::new(&seed, 4).source.to_vec()).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let (mean, sd) = (n as f64 / 24.0, (n as f64 / 24.0 * 23.0 / 24.0).sqrt());
        for (order, count) in counts {
            assert!((f64::from(count) - mean).abs() < 5.0 * sd, "{order:?}: {count}");
        }
    }
}
