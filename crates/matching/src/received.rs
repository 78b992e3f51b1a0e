//! What the attacker holds of a client's gradient.

use unmask_attack::AttackError;

/// A gradient as it arrived, and which of its entries are believed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedGradient {
    /// In the model's flat order; zero where masked.
    values: Vec<f64>,
    /// 1 where an entry is believed, 0 elsewhere.
    mask: Vec<f64>,
}

impl ReceivedGradient {
    /// All entries are taken for values, masked zeros too: the attacker whom the papers tested, and the right one for
    /// an update that nobody masked.
    ///
    /// # Errors
    /// A value is not finite.
    pub fn naive(update: &[f32]) -> Result<Self, AttackError> {
        Self::checked(update, vec![1.0; update.len()])
    }

    /// Only the entries with `kept` are taken for values: an attacker who drew the mask from its seed, as the papers'
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

    /// 1 where believed, 0 elsewhere.
    pub(crate) fn mask(&self) -> &[f64] {
        &self.mask
    }

    /// The first `len` entries, those within a network's reach.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.mask.truncate(len);
    }
}
