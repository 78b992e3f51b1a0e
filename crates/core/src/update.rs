//! The parts of an update other than its values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::GroupRates;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u32);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Seed of one mask, fresh from the operating system for each round and client. It is not secret: aggregation needs the
/// sum of all masks, so the papers' attacker knows it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaskSeed(pub [u8; 32]);

/// Shows whether two passphrases match without revealing them: 16 bytes derived alongside the keys, independent of
/// them. It travels in the clear, with the salt.
///
/// An attacker with check and salt, such as the relay, can test passphrases offline at the cost of one Argon2id each.
/// Only a long passphrase withstands that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyCheck(pub [u8; 16]);

/// How to read the values of a protected update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateForm {
    /// All P values in layout order.
    Dense,
    /// Only the values that the mask keeps, in layout order. The seed reproduces the mask.
    Masked { seed: MaskSeed, rates: GroupRates },
    /// All P values in layout order; the embeddings are encrypted.
    Encrypted {
        /// Shows whether two clients use the same key, but not which key.
        check: KeyCheck,
    },
}
