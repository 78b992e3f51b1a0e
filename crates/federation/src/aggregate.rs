//! Running sums of a round's updates.

use unmask_defence::{ProtectedUpdate, UpdateError};

/// Sums and counts of the updates of one round, added as they arrive, so that memory does not grow with the cohort.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    sums: Vec<f32>,
    counts: Vec<u32>,
    updates: u32,
}

impl Aggregate {
    /// Nothing received yet, for a model of `len` parameters.
    pub fn new(len: usize) -> Self {
        Self { sums: vec![0.0; len], counts: vec![0; len], updates: 0 }
    }

    /// Number of updates added.
    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// Adds an update; one that does not fit leaves the sums as they were.
    ///
    /// # Errors
    /// If it does not fit the model or has a value that is not finite.
    pub fn add(&mut self, update: &ProtectedUpdate) -> Result<(), UpdateError> {
        update.check(self.sums.len())?;
        update.accumulate(&mut self.sums, &mut self.counts);
        self.updates += 1;
        Ok(())
    }

    /// Eqs. 1 and 2, the part before the step: `[P]` values `sum_n B_n theta_n / sum_n B_n`, `None` where no client sent
    /// the value.
    pub fn mean(&self) -> impl Iterator<Item = Option<f32>> + '_ {
        self.sums.iter().zip(&self.counts).map(|(sum, &count)| (count > 0).then(|| sum / count as f32))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_defence::{Defence, MaskSeed, ZeroRate};
    use unmask_params::{ModelSpec, ParamLayout, Preset};

    use super::*;
    use crate::Optimiser;

    proptest! {
        /// Eq. 1 (R = 0) and Eq. 2 against a naive mean in f64 over explicit masks.
        #[test]
        fn agrees_with_a_naive_f64_mean(
            seeds in proptest::collection::vec(any::<[u8; 32]>(), 1..6),
            bits in 0u32..65536,
            len in 1usize..300,
            rate in 0.001f32..1.0,
        ) {
            let layout = ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config());
            let defence = Defence::RandomBinary { rate: ZeroRate::from_bits(bits).unwrap() };
            let value = |client: usize, i: usize| ((client * 31 + i * 17) % 101) as f32 / 50.0 - 1.0;
            let mut aggregate = Aggregate::new(len);
            let (mut sums, mut counts) = (vec![0f64; len], vec![0u32; len]);
            for (client, seed) in seeds.iter().enumerate() {
                let plain: Vec<f32> = (0..len).map(|i| value(client, i)).collect();
                let update = defence.protect(&layout, plain.clone(), MaskSeed(*seed));
                aggregate.add(&update).unwrap();
                let mask = unmask_defence::Mask::new(MaskSeed(*seed), ZeroRate::from_bits(bits).unwrap(), len);
                for (i, kept) in mask.entries().enumerate() {
                    sums[i] += f64::from(u8::from(kept)) * f64::from(plain[i]);
                    counts[i] += u32::from(kept);
                }
            }
            let before: Vec<f32> = (0..len).map(|i| i as f32 / 100.0).collect();
            let mut after = before.clone();
            Optimiser::sgd(rate).step(&mut after, &aggregate);
            for i in 0..len {
                let expected = if counts[i] == 0 {
                    f64::from(before[i])
                } else {
                    f64::from(before[i]) - f64::from(rate) * sums[i] / f64::from(counts[i])
                };
                prop_assert!((f64::from(after[i]) - expected).abs() < 1e-5, "{} is not {expected}", after[i]);
                prop_assert!(counts[i] > 0 || after[i].to_bits() == before[i].to_bits());
            }
        }
    }

    /// Eq. 2 is unbiased: over many masks its mean is the mean of the plain updates.
    #[test]
    fn masked_mean_is_unbiased() {
        let layout = ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config());
        let defence: Defence = "random-binary:0.5".parse().unwrap();
        let plain = [[1.0f32; 64], [3.0; 64]];
        let (mut total, mut count) = (0f64, 0f64);
        for trial in 0..2000u32 {
            let mut aggregate = Aggregate::new(64);
            for (client, values) in plain.iter().enumerate() {
                let mut seed = [client as u8; 32];
                seed[..4].copy_from_slice(&trial.to_le_bytes());
                aggregate.add(&defence.protect(&layout, values.to_vec(), MaskSeed(seed))).unwrap();
            }
            for mean in aggregate.mean().flatten() {
                total += f64::from(mean);
                count += 1.0;
            }
        }
        // Of values present 2/3 come from one client alone, so one entry's variance is 2/3.
        assert!((total / count - 2.0).abs() < 6.0 * (2.0 / 3.0 / count).sqrt(), "{}", total / count);
    }

    #[test]
    fn refused_update_changes_nothing() {
        let mut aggregate = Aggregate::new(3);
        aggregate.add(&ProtectedUpdate::Dense(vec![1.0, 2.0, 3.0])).unwrap();
        let before = aggregate.clone();
        assert!(aggregate.add(&ProtectedUpdate::Dense(vec![1.0, f32::INFINITY, 3.0])).is_err());
        assert!(aggregate.add(&ProtectedUpdate::Dense(vec![1.0])).is_err());
        assert_eq!(aggregate, before);
    }
}
