//! Derives all random numbers of a run from its seed.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

/// Derives a seed for each purpose. No generator state is carried between rounds, so a run can resume from any round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds(pub(crate) u64);

impl Seeds {
    /// The seed for one purpose of one client in one round.
    pub(crate) fn bytes(self, purpose: &str, round: u64, client: usize) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"unmask simulation\0");
        hash.update(purpose.as_bytes());
        hash.update([0]);
        for number in [self.0, round, client as u64] {
            hash.update(number.to_le_bytes());
        }
        hash.finalize().into()
    }

    /// A number, for what is drawn once per run.
    pub(crate) fn number(self, purpose: &str) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.bytes(purpose, 0, 0);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    pub(crate) fn rng(self, purpose: &str, round: u64, client: usize) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.bytes(purpose, round, client))
    }
}
