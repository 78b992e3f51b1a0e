//! The attacker's copy of a client's gradient.

use unmask_attack::AttackError;

/// A received gradient, and which of its entries count as values.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedGradient {
    /// In the model's flat order; zero where masked.
    values: Vec<f64>,
    /// 1 for an entry that counts, 0 otherwise.
    mask: Vec<f64>,
}

impl ReceivedGradient {
    /// Takes all entries for values, including masked zeros: the papers' attacker, and the right choice for an unmasked
    /// update.
    ///
    /// # Errors
    /// A value is not finite.
    pub fn naive(update: &[f32]) -> Result<Self, AttackError> {
        Self::checked(update, vec![1.0; update.len()])
    }

    /// Takes only the entries with `kept` for values: an attacker who drew the mask from its seed, as the papers'
    /// threat model allows.
    ///
    /// # Errors
    /// The mask has another length, or a value is not finite.
    pub fn aware(update: &[f32], kept: &[bool]) -> Result<Self, AttackError> {
        if kept.len() != update.len() {
            return Err(AttackError::WrongMask { found: kept.len(), expected: update.len() });
        }
        Self::checked(update, kept.iter().map(|&kept| f64::from(u8::from(kept))).collect())
    }

    fn checked(update: &[f32], mask: Vec<f64>) -> Result<Self, AttackError> {
        if let Some((index, &value)) = update.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(AttackError::NonFiniteUpdate { index, value });
        }
        let values = update.iter().zip(&mask).map(|(&value, mask)| f64::from(value) * mask).collect();
        Ok(Self { values, mask })
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(crate) fn mask(&self) -> &[f64] {
        &self.mask
    }

    /// Keeps the first `len` entries, those that the network provides.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.mask.truncate(len);
    }
}
