//! Encrypted ViT (Aso, Shiota, Kiya): multiplies the embeddings by key matrices that the relay does not have.
//!
//! E_pat -> E_a E_pat and E_pos -> E_b E_pos, where E_pat `[L, D]` is the patch embedding, E_pos `[1 + S, D]` the
//! position embedding, E_a an invertible `[L, L]` matrix and E_b a permutation of the patch rows that fixes the class
//! row. Both maps are linear, as are averaging and plain SGD. The relay therefore computes the encryption of the result
//! that it would have computed from plain weights and updates.
//!
//! Limits: all other parameters travel in plain text, equal inputs give equal outputs, and E_b hides only the order of
//! its rows. Most important, an attacker who knows the same weights both plain and encrypted can recover the key: rows
//! of E_pos reveal E_b, and D >= L rows of E_pat determine E_a. With a plain start, the relay made the model and is
//! such an attacker. With a keyed start, it never sees plain weights.

mod key;
mod matrix;
mod permutation;

use std::{fmt, ops::Range};

use unmask_core::{KeyCheck, ParamLayout};

pub use self::key::{ClassKey, KeyError, RoomKey};
use self::{matrix::PatchMatrix, permutation::PatchOrder};

/// A room's keys prepared for one model. Encrypts and decrypts its weights, gradients and updates.
///
/// For `vit_small_patch16_224` (L = 768, D = 384) it takes 2.4 MB. Its contents are wiped from memory on drop and are
/// never printed.
pub struct Cipher {
    check: KeyCheck,
    len: usize,
    patch: Range<usize>,
    position: Range<usize>,
    matrix: PatchMatrix,
    order: PatchOrder,
}

const PATCH: &str = "patch_embed.proj.weight";
const POSITION: &str = "pos_embed";

impl Cipher {
    /// Draws E_a and E_b for a model of this layout.
    ///
    /// # Errors
    /// If the model has no patch embedding `[D, 3, P, P]` or no position embedding `[1, 1 + S, D]`.
    pub fn new(key: &RoomKey, layout: &ParamLayout) -> Result<Self, KeyError> {
        let find = |missing| layout.get(missing).ok_or(KeyError::NoEmbedding { missing });
        let (patch, position) = (find(PATCH)?, find(POSITION)?);
        let &[dim, channels, height, width] = patch.shape.as_slice() else {
            return Err(KeyError::NoEmbedding { missing: PATCH });
        };
        let tokens = match *position.shape.as_slice() {
            [1, tokens, width] if tokens > 0 && width == dim => tokens,
            _ => return Err(KeyError::NoEmbedding { missing: POSITION }),
        };
        Ok(Self {
            check: key.check(),
            len: layout.len(),
            patch: patch.range.clone(),
            position: position.range.clone(),
            matrix: PatchMatrix::new(&key.patch_seed, channels * height * width),
            order: PatchOrder::new(&key.position_seed, tokens - 1),
        })
    }

    /// Returns the check of the key behind this cipher.
    pub fn check(&self) -> KeyCheck {
        self.check
    }

    /// Encrypts a flat vector of the cipher's layout in place: E_a E_pat and E_b E_pos. timm stores E_pat^T, so each
    /// row w of `patch_embed.proj.weight` `[D, L]` becomes E_a w. All other values stay.
    ///
    /// # Errors
    /// If the number of values differs from the layout's. `values` is then still plain and must not be sent.
    pub fn encrypt(&self, values: &mut [f32]) -> Result<(), KeyError> {
        self.check_len(values)?;
        self.matrix.encrypt(&mut values[self.patch.clone()]);
        self.order.encrypt(&mut values[self.position.clone()]);
        Ok(())
    }

    /// Reverses [`encrypt`](Self::encrypt) in place.
    ///
    /// # Errors
    /// If the number of values differs from the layout's. `values` is then unchanged.
    pub fn decrypt(&self, values: &mut [f32]) -> Result<(), KeyError> {
        self.check_len(values)?;
        self.matrix.decrypt(&mut values[self.patch.clone()]);
        self.order.decrypt(&mut values[self.position.clone()]);
        Ok(())
    }

    fn check_len(&self, values: &[f32]) -> Result<(), KeyError> {
        if values.len() == self.len {
            Ok(())
        } else {
            Err(KeyError::Length { values: values.len(), expected: self.len })
        }
    }
}

/// Shows only the check.
impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("check", &self.check).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
