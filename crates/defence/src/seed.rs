//! How client and relay draw the seed of a mask together, so that neither chooses which values are sent.
//!
//! The client commits to a nonce before it sees the plan. The relay draws its own nonce when the round begins, without
//! knowing the client's. Both fix the seed. A client that dislikes its seed can only stay silent, and a relay that
//! dislikes one can only leave the client out.

use sha2::{Digest, Sha256};
use unmask_core::MaskSeed;

/// What a client sends in advance: it fixes the nonce and does not reveal it.
pub fn commitment(nonce: &[u8; 32]) -> [u8; 32] {
    hash(b"unmask: commitment to a nonce of masks", nonce, &[])
}

/// The seed that follows from the client's nonce and the relay's.
pub fn drawn_seed(client: &[u8; 32], relay: &[u8; 16]) -> MaskSeed {
    MaskSeed(hash(b"unmask: seed of a mask", client, relay))
}

fn hash(purpose: &[u8], one: &[u8], other: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(purpose).chain_update(one).chain_update(other).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_nonces_decide_and_the_commitment_tells_neither() {
        let seed = drawn_seed(&[1; 32], &[2; 16]);
        assert_eq!(seed, drawn_seed(&[1; 32], &[2; 16]));
        assert_ne!(seed, drawn_seed(&[3; 32], &[2; 16]));
        assert_ne!(seed, drawn_seed(&[1; 32], &[3; 16]));
        // Expected value: `(printf 'unmask: commitment to a nonce of masks'; head -c 32 /dev/zero) | sha256sum`.
        let expected: String = commitment(&[0; 32]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(expected, "80177f4a9015082092101e76db2d78f6a3b911fb1fddbae27010fbc541a8b15e");
        assert_ne!(commitment(&[1; 32]), seed.0);
    }
}
