//! What clients do to their updates before they add them up, and how the sum becomes a mean.

use unmask_core::{Defence, GaussianNoise, ParamLayout, SecureSumSettings, UpdateForm};
use unmask_defence::{Mask, ProtectedUpdate, clip_factor};

use crate::{FixedPoint, FixedPointError, MOST_CLIENTS};

/// Standard deviations of noise beyond which a value would be refused: about once in 10^23 values.
const NOISE_IN_BOUND: f64 = 10.0;

/// Low bits of each integer that count the clients which kept the value.
const COUNT_BITS: u32 = 6;
const COUNT: u32 = (1 << COUNT_BITS) - 1;
const _: () = assert!(MOST_CLIENTS <= COUNT as usize);

/// The numbers on which all clients of a sum and the relay agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SumEncoding {
    settings: SecureSumSettings,
    defence: Defence,
    fixed: FixedPoint,
}

/// What a sum says about the updates in it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanOfSum {
    /// `[P]`: of each parameter, the mean over the clients that kept its value.
    pub values: Vec<f32>,
    /// `[P]`: how many clients kept the value, if they drew masks; `None` if all kept all.
    pub kept: Option<Vec<u8>>,
}

impl SumEncoding {
    /// For up to `clients` clients. Of Gaussian noise, each of them adds a standard deviation of 1 / sqrt(`sharers`), so
    /// that the updates of `sharers` clients carry the whole; other clients may leave or be in league with the relay.
    ///
    /// Under random masks each integer also counts: its low bits are 1 where the client kept the value. The sum then has the
    /// number of clients behind each value, and nobody learns whose mask kept which.
    ///
    /// # Errors
    /// No sum has such a bound.
    pub fn new(
        settings: SecureSumSettings,
        defence: Defence,
        clients: usize,
        sharers: usize,
    ) -> Result<Self, FixedPointError> {
        let shared = |noise: &GaussianNoise| Defence::Gaussian(noise.shared_by(sharers.max(1)));
        let defence = defence.noise().map_or(defence, shared);
        let free = if defence.rates().is_some() { COUNT_BITS } else { 0 };
        Ok(Self { settings, defence, fixed: FixedPoint::above(free, bound(settings, defence), clients)? })
    }

    /// The defence of each client: its share of the noise.
    pub fn defence(&self) -> Defence {
        self.defence
    }

    /// A client's `update` of `layout`, or its change from `reference` `[P]`, clipped and as whole numbers `[P]`. The seed of
    /// its mask stays with the client.
    ///
    /// # Errors
    /// A value is not finite or beyond the bound.
    pub fn encode(
        &self,
        update: ProtectedUpdate,
        layout: &ParamLayout,
        reference: Option<&[f32]>,
    ) -> Result<Vec<u32>, FixedPointError> {
        let ProtectedUpdate { form, mut values } = update;
        let mask = match form {
            UpdateForm::Masked { seed, rates } => Some(Mask::new(seed, &rates, layout)),
            UpdateForm::Dense | UpdateForm::Encrypted { .. } => None,
        };
        let kept: Option<Vec<bool>> = mask.map(|mask| mask.entries().collect());
        if let Some(kept) = &kept {
            // A masked update has only the values that it kept. The others count as the reference, which is no change.
            let dropped = |at: usize| reference.map_or(0.0, |reference| reference[at]);
            let mut sent = values.into_iter();
            let whole = kept.iter().enumerate();
            values = whole.map(|(at, kept)| kept.then(|| sent.next()).flatten().unwrap_or(dropped(at))).collect();
        }
        if let Some(reference) = reference {
            values.iter_mut().zip(reference).for_each(|(value, reference)| *value -= reference);
        }
        if let Some(clip) = self.settings.clip {
            let factor = clip_factor(&values, clip);
            values.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
        }
        let mut encoded = self.fixed.encode(&values)?;
        encoded.iter_mut().zip(kept.iter().flatten()).for_each(|(value, kept)| *value |= u32::from(*kept));
        Ok(encoded)
    }

    /// The mean of `clients` clients' values, whose `sum` `[P]` is known. Every client counts alike.
    ///
    /// # Errors
    /// Clipped values do not add up to that.
    pub fn mean(&self, sum: &[u32], clients: usize, reference: Option<&[f32]>) -> Result<MeanOfSum, FixedPointError> {
        let kept = match self.defence.rates() {
            Some(_) => Some(counts(sum, clients)?),
            None => None,
        };
        let behind = |at: usize| kept.as_ref().map_or(clients, |kept| usize::from(kept[at]));
        let mut values = self.fixed.decode_each(sum, behind)?;
        values.iter_mut().enumerate().for_each(|(at, value)| *value /= behind(at).max(1) as f32);
        if let Some(reference) = reference {
            values.iter_mut().zip(reference).for_each(|(value, reference)| *value += reference);
        }
        Ok(MeanOfSum { values, kept })
    }
}

/// How many clients kept each value, `[P]`.
fn counts(sum: &[u32], clients: usize) -> Result<Vec<u8>, FixedPointError> {
    let mut counts = Vec::with_capacity(sum.len());
    for (at, sum) in sum.iter().enumerate() {
        let kept = sum & COUNT;
        match u8::try_from(kept) {
            Ok(count) if usize::from(count) <= clients => counts.push(count),
            _ => return Err(FixedPointError::Count { at, kept, clients }),
        }
    }
    Ok(counts)
}

/// The largest value of one client. Rounding to f32 may lengthen a clipped update a little.
fn bound(settings: SecureSumSettings, defence: Defence) -> f64 {
    const ROUNDING: f64 = 1e-6;
    let length = |clip: f64| clip * (1.0 + ROUNDING);
    match defence.noise() {
        Some(noise) => length(noise.sensitivity()) + NOISE_IN_BOUND * noise.deviation(),
        None => length(settings.clip.unwrap_or(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Architecture, MaskSeed, VitPreset};
    use unmask_defence::{KeyMaterial, PlainUpdate, Protect};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The sum of masked updates has the mean over those who kept a value and their number, within the stated error, for
        /// gradients and for weights.
        #[test]
        fn masks_are_counted(clients in 1..=50_usize, rate in 0.0..0.95_f64, is_change in any::<bool>()) {
            let layout = Architecture::from(VitPreset::Pico).layout();
            let settings: SecureSumSettings = "clip=2".parse().unwrap();
            let defence: Defence = format!("random-binary:{rate}").parse().unwrap();
            let encoding = SumEncoding::new(settings, defence, clients, clients).unwrap();
            let start: Vec<f32> = (0..layout.len()).map(|at| (at as f32 * 0.7).cos()).collect();
            let reference = is_change.then_some(&start[..]);
            let (mut sum, mut exact) = (vec![0_u32; layout.len()], vec![(0.0_f64, 0_u8); layout.len()]);
            for client in 0..clients {
                let change = |at: usize| ((at * (client + 3)) as f32).sin() * 0.01;
                let values: Vec<f32> = match is_change {
                    true => start.iter().enumerate().map(|(at, start)| start + change(at)).collect(),
                    false => (0..layout.len()).map(change).collect(),
                };
                let keys = KeyMaterial { seed: MaskSeed([client as u8; 32]), cipher: None };
                let sent = defence.protect(&layout, PlainUpdate { values, reference }, keys).unwrap();
                let mask = Mask::new(keys.seed, defence.rates().unwrap(), &layout).entries().enumerate();
                for ((at, _), value) in mask.filter(|(_, kept)| *kept).zip(&sent.values) {
                    exact[at].0 += f64::from(*value) - reference.map_or(0.0, |start| f64::from(start[at]));
                    exact[at].1 += 1;
                }
                for (sum, value) in sum.iter_mut().zip(encoding.encode(sent, &layout, reference).unwrap()) {
                    *sum = sum.wrapping_add(value);
                }
            }
            let mean = encoding.mean(&sum, clients, reference).unwrap();
            let kept = mean.kept.unwrap();
            let allowed = encoding.fixed.error(clients) + 1e-6;
            for (at, (exact, count)) in exact.into_iter().enumerate() {
                prop_assert_eq!(kept[at], count);
                let exact = exact / f64::from(count.max(1)) + reference.map_or(0.0, |start| f64::from(start[at]));
                prop_assert!((f64::from(mean.values[at]) - exact).abs() <= allowed, "{} {}", mean.values[at], exact);
            }
        }
    }

    #[test]
    fn more_keepers_than_clients_are_refused() {
        let encoding = SumEncoding::new("clip=1".parse().unwrap(), "random-binary:0.5".parse().unwrap(), 3, 3).unwrap();
        let refused = |sum: [u32; 2]| encoding.mean(&sum, 3, None).unwrap_err().to_string();
        assert!(refused([3, 4]).starts_with("4 of 3 clients say that they kept value 1"), "{}", refused([3, 4]));
        // Nor may those that kept a value have more of it than they can.
        let two = ((2.1 * encoding.fixed.scale()) as u32) << COUNT_BITS;
        assert!(encoding.mean(&[two | 3, two | 2], 3, None).is_err());
        assert!(encoding.mean(&[two | 3, two | 3], 3, None).is_ok());
    }
}
