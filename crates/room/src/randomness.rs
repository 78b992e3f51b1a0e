//! The room's random numbers, all from the seed that its host hands in.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// A cryptographic generator. Nobody who lacks the seed can predict a ticket.
#[derive(Debug)]
pub(crate) struct Randomness(ChaCha20Rng);

impl Randomness {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(seed))
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        self.0.random()
    }

    pub(crate) fn nonce(&mut self) -> [u8; 32] {
        self.0.random()
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.random()
    }
}
