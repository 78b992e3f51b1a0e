//! Keys, and what is derived from them.

use std::fmt;

use chacha20::{
    ChaCha20,
    cipher::{KeyIvInit, StreamCipher},
};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use rand::CryptoRng;
use sha2::Sha256;
use unmask_core::ClientId;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::PublicKeys;

/// A key that the clients have and the relay has not, such as one from the class's passphrase. Wiped from memory on drop
/// and never printed.
#[derive(Clone)]
pub struct GroupKey(Zeroizing<[u8; 32]>);

impl GroupKey {
    /// From 32 bytes that nobody else can guess.
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Authenticates the keys of one client for one sum.
    pub(crate) fn tag(&self, context: &[u8; 32], client: ClientId, keys: &PublicKeys) -> [u8; 32] {
        self.mac(context, client, keys).finalize().into_bytes().into()
    }

    pub(crate) fn verifies(&self, context: &[u8; 32], client: ClientId, keys: &PublicKeys) -> bool {
        self.mac(context, client, keys).verify_slice(&keys.tag).is_ok()
    }

    fn mac(&self, context: &[u8; 32], client: ClientId, keys: &PublicKeys) -> Hmac<Sha256> {
        let PublicKeys { channel, mask, is_robot, tag: _ } = keys;
        let mut mac = keyed(&self.0);
        mac.update(b"unmask: keys of a secure sum");
        mac.update(context);
        mac.update(&client.0.to_le_bytes());
        mac.update(channel);
        mac.update(mask);
        mac.update(&[u8::from(*is_robot)]);
        mac
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupKey").finish_non_exhaustive()
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC fills up keys that are shorter than a block with zeros.
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    Hmac::new(&(*block).into())
}

/// A secret key, and its public half, which goes to everybody.
pub(crate) struct Secret {
    secret: StaticSecret,
    public: [u8; 32],
}

impl Secret {
    pub(crate) fn draw(random: &mut impl CryptoRng) -> Self {
        Self::new(StaticSecret::random_from_rng(random))
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self::new(StaticSecret::from(bytes))
    }

    fn new(secret: StaticSecret) -> Self {
        Self { public: PublicKey::from(&secret).to_bytes(), secret }
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.public
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        self.secret.as_bytes()
    }

    /// The key that both halves of a pair derive, for one purpose under one context. Both public keys go into it, since
    /// several of them stand for one point of the curve. `None` if the other key is one of the few that agree on the same
    /// with everybody.
    pub(crate) fn agree(&self, other: &[u8; 32], context: &[u8; 32], purpose: Purpose) -> Option<Zeroizing<[u8; 32]>> {
        let shared = self.secret.diffie_hellman(&PublicKey::from(*other));
        let (low, high) = if self.public < *other { (&self.public, other) } else { (other, &self.public) };
        let mut key = Zeroizing::new([0; 32]);
        let derived = Hkdf::<Sha256>::new(Some(context), shared.as_bytes())
            .expand_multi_info(&[purpose.label(), low, high], key.as_mut());
        (shared.was_contributory() && derived.is_ok()).then_some(key)
    }
}

/// What a derived key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Mask,
    Sealing,
    Confirmation,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Mask => b"unmask: mask of a pair",
            Self::Sealing => b"unmask: sealed shares",
            Self::Confirmation => b"unmask: confirmation",
        }
    }
}

/// Says with a key of a pair that `by` saw this list of clients in the sum.
pub(crate) fn confirmation(key: &[u8; 32], by: ClientId, survivors: &[ClientId]) -> Hmac<Sha256> {
    let mut mac = keyed(key);
    mac.update(&by.0.to_le_bytes());
    for survivor in survivors {
        mac.update(&survivor.0.to_le_bytes());
    }
    mac
}

/// Whether a mask is added or subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Add,
    Subtract,
}

impl Sign {
    /// The sign of the mask of a pair at `own`: of the two clients, one adds and the other subtracts.
    pub(crate) fn between(own: ClientId, other: ClientId) -> Self {
        if own < other { Self::Add } else { Self::Subtract }
    }

    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Add => Self::Subtract,
            Self::Subtract => Self::Add,
        }
    }
}

/// Adds the mask of a key to `values`, or subtracts it: the ChaCha20 stream as little-endian words. A key serves one mask,
/// so the nonce is zero.
pub(crate) fn apply_mask(values: &mut [u32], key: &[u8; 32], sign: Sign) {
    /// Values whose stream is in memory at a time.
    const CHUNK: usize = 1024;
    let mut stream = Zeroizing::new([0_u8; 4 * CHUNK]);
    let mut cipher = ChaCha20::new(&(*key).into(), &[0; 12].into());
    for values in values.chunks_mut(CHUNK) {
        let stream = &mut stream[..4 * values.len()];
        stream.fill(0);
        cipher.apply_keystream(stream);
        let masks = stream.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        for (value, mask) in values.iter_mut().zip(masks) {
            *value = match sign {
                Sign::Add => value.wrapping_add(mask),
                Sign::Subtract => value.wrapping_sub(mask),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the ChaCha20 stream of RFC 8439, appendix A.1, test vector 1.
    #[test]
    fn a_mask_is_the_stream_of_the_standard() {
        let mut values = [1_u32, 0, u32::MAX];
        apply_mask(&mut values, &[0; 32], Sign::Add);
        let stream = [0xade0_b876_u32, 0x903d_f1a0, 0xe56a_5d40];
        assert_eq!(values, [stream[0].wrapping_add(1), stream[1], stream[2].wrapping_sub(1)]);
        apply_mask(&mut values, &[0; 32], Sign::Subtract);
        assert_eq!(values, [1, 0, u32::MAX]);
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", GroupKey::new([7; 32])), "GroupKey { .. }");
    }
}
