//! Turns a plain update into the one that leaves the device.

use unmask_core::{Defence, GroupRates, MaskSeed, ParamLayout, UpdateForm};

use crate::{Cipher, KeyError, Mask, ProtectedUpdate, drawn::DrawnMask, noise::add_noise};

/// Seed of the one mask that frozen binary weights use for all clients and rounds.
pub const FROZEN_SEED: MaskSeed = MaskSeed([0x46; 32]);

/// The result of training. It must not leave the device unprotected.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainUpdate<'a> {
    /// `[P]` in layout order: the gradient theta_n under FedSGD, the client's weights W_n under FedAvg.
    pub values: Vec<f32>,
    /// Under FedAvg, the global weights w, `[P]`, from which the client started.
    pub reference: Option<&'a [f32]>,
}

/// The seed and the cipher that a defence uses.
#[derive(Debug, Clone, Copy)]
pub struct KeyMaterial<'a> {
    /// Fresh from the operating system for each call. Masks publish it; noise keeps it secret.
    pub seed: MaskSeed,
    /// The room's cipher, for [`Defence::Encrypted`].
    pub cipher: Option<&'a Cipher>,
}

/// The update could not be protected and must not leave the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtectError {
    #[error("{what} has {values} values, its layout has {expected}")]
    Length { what: &'static str, values: usize, expected: usize },
    #[error("the update cannot be encrypted without the room's passphrase")]
    NoKey,
    #[error(transparent)]
    Key(#[from] KeyError),
}

pub trait Protect {
    /// Protects a plain update of `layout`.
    ///
    /// Under FedAvg, fixed position sends the position embedding as received, so that its change is zero. Gaussian
    /// noise clips and blurs the change W_n - w, because weights have no bound (McMahan et al. 2018). Masks drop
    /// weights.
    ///
    /// # Errors
    /// If lengths do not match, or a required key is missing.
    fn protect(
        self,
        layout: &ParamLayout,
        plain_update: PlainUpdate<'_>,
        keys: KeyMaterial<'_>,
    ) -> Result<ProtectedUpdate, ProtectError>;
}

impl Protect for Defence {
    fn protect(
        self,
        layout: &ParamLayout,
        plain_update: PlainUpdate<'_>,
        keys: KeyMaterial<'_>,
    ) -> Result<ProtectedUpdate, ProtectError> {
        let PlainUpdate { mut values, reference } = plain_update;
        let expected = layout.len();
        for (what, len) in
            [("the update", values.len()), ("the global model", reference.map_or(expected, <[f32]>::len))]
        {
            if len != expected {
                return Err(ProtectError::Length { what, values: len, expected });
            }
        }
        Ok(match self {
            Self::None => ProtectedUpdate::dense(values),
            Self::FixedPosition => {
                for param in layout.iter().filter(|param| self.fixes(param.group)) {
                    let range = param.range.clone();
                    match reference {
                        Some(reference) => values[range.clone()].copy_from_slice(&reference[range]),
                        None => values[range].fill(0.0),
                    }
                }
                ProtectedUpdate::dense(values)
            }
            Self::RandomBinary { rates } => masked(layout, values, keys.seed, rates),
            Self::FrozenBinary { rates } => masked(layout, values, FROZEN_SEED, rates),
            Self::Gaussian(noise) => {
                match reference {
                    Some(reference) => {
                        values.iter_mut().zip(reference).for_each(|(weight, global)| *weight -= global);
                        add_noise(&noise, &mut values, keys.seed);
                        values.iter_mut().zip(reference).for_each(|(change, global)| *change += global);
                    }
                    None => add_noise(&noise, &mut values, keys.seed),
                }
                ProtectedUpdate::dense(values)
            }
            Self::Encrypted { .. } => {
                let cipher = keys.cipher.ok_or(ProtectError::NoKey)?;
                cipher.encrypt(&mut values)?;
                ProtectedUpdate { form: UpdateForm::Encrypted { check: cipher.check() }, values }
            }
        })
    }
}

/// Reuses the memory of the plain values: a fresh allocation would cost more time than the mask.
fn masked(layout: &ParamLayout, mut values: Vec<f32>, seed: MaskSeed, rates: GroupRates) -> ProtectedUpdate {
    DrawnMask::new(Mask::new(seed, &rates, layout)).keep(&mut values);
    ProtectedUpdate { form: UpdateForm::Masked { seed, rates }, values }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    fn layout() -> ParamLayout {
        Architecture::from(VitPreset::Pico).layout()
    }

    fn values(from: f32) -> Vec<f32> {
        (0..layout().len()).map(|i| (i % 997) as f32 / 500.0 + from).collect()
    }

    fn protect(defence: &str, seed: u8, reference: Option<&[f32]>) -> ProtectedUpdate {
        let defence: Defence = defence.parse().unwrap();
        let keys = KeyMaterial { seed: MaskSeed([seed; 32]), cipher: None };
        defence.protect(&layout(), PlainUpdate { values: values(1.0), reference }, keys).unwrap()
    }

    #[test]
    fn fixed_position_changes_that_and_nothing_else() {
        let (layout, plain, global) = (layout(), values(1.0), values(0.5));
        for reference in [None, Some(global.as_slice())] {
            let sent = protect("fixed-position", 0, reference).expand(&layout).unwrap();
            for param in &layout {
                for i in param.range.clone() {
                    let position = param.name == "pos_embed";
                    let expected = if position { reference.map_or(0.0, |r| r[i]) } else { plain[i] };
                    assert_eq!(sent[i], expected, "{} {i}", param.name);
                }
            }
        }
    }

    #[test]
    fn frozen_mask_is_one_for_all() {
        assert_eq!(protect("frozen-binary:0.5", 1, None), protect("frozen-binary:0.5", 2, None));
        assert_ne!(protect("random-binary:0.5", 1, None), protect("random-binary:0.5", 2, None));
    }

    #[test]
    fn noise_under_fedavg_is_on_the_change() {
        let (layout, global) = (layout(), values(0.5));
        let sent = protect("gaussian:eps=1e9,delta=0.5,clip=0.25", 1, Some(&global)).expand(&layout).unwrap();
        let change: f64 = sent.iter().zip(&global).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
        assert!((change - 0.25).abs() < 0.01, "{change}");
    }

    #[test]
    fn nothing_leaves_that_does_not_fit_or_has_no_key() {
        let keys = KeyMaterial { seed: MaskSeed([0; 32]), cipher: None };
        let plain = |len, reference| PlainUpdate { values: vec![0.0; len], reference };
        let error = Defence::None.protect(&layout(), plain(3, None), keys).unwrap_err();
        assert_eq!(error.to_string(), format!("the update has 3 values, its layout has {}", layout().len()));
        let error = Defence::None.protect(&layout(), plain(layout().len(), Some(&[1.0])), keys).unwrap_err();
        assert!(error.to_string().starts_with("the global model has 1 values"));
        let encrypted: Defence = "encrypted".parse().unwrap();
        let error = encrypted.protect(&layout(), plain(layout().len(), None), keys).unwrap_err();
        assert_eq!(error, ProtectError::NoKey);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn masked_update_is_the_plain_one_with_holes(seed in any::<[u8; 32]>(), bits in any::<[u16; 7]>(), same in any::<bool>()) {
            let rates = GroupRates::from_bits(if same { [bits[0]; 7] } else { bits });
            let (layout, plain) = (layout(), values(1.0));
            let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
            let update = PlainUpdate { values: plain.clone(), reference: None };
            let sent = Defence::RandomBinary { rates }.protect(&layout, update, keys).unwrap().expand(&layout).unwrap();
            for (i, kept) in Mask::new(MaskSeed(seed), &rates, &layout).entries().enumerate() {
                prop_assert_eq!(sent[i], if kept { plain[i] } else { 0.0 });
            }
        }
    }
}
