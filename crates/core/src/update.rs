//! What an update is made of, besides its values.

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

/// Seed of one mask. Fresh from the operating system for each round and client, and no secret: aggregation needs the
/// sum of all masks, so the papers' attacker knows it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaskSeed(pub [u8; 32]);

/// Tells whether two passphrases are the same without telling them: 16 bytes derived beside the keys, of which it
/// reveals nothing. It travels in the clear, with the salt.
///
/// Whoever sees check and salt, so the relay, can try passphrases against them offline, at the price of one Argon2id
/// for each. A weak passphrase falls to that; only a long one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyCheck(pub [u8; 16]);

/// How a protected update's values are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateForm {
    /// All P values in layout order.
    Dense,
    /// Only the values that the mask keeps, in layout order. The mask is drawn again from the seed.
    Masked { seed: MaskSeed, rates: GroupRates },
    /// All P values in layout order, the embeddings as cipher text.
    Encrypted {
        /// Tells whether two clients use the same key, and not which.
        check: KeyCheck,
    },
}
