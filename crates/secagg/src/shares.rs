//! Secrets divided among the members, sealed for each of them.

use blahaj::{Share, Sharks};
use chacha20poly1305::{
    ChaCha20Poly1305,
    aead::{Aead, KeyInit, Payload},
};
use rand::CryptoRng;
use sha2::{Digest, Sha256};
use unmask_core::ClientId;
use zeroize::Zeroizing;

/// Bytes of a share: its place and one byte for each of the secret.
pub(crate) const SHARE: usize = 33;
/// Bytes of both shares of a member, sealed.
pub(crate) const SEALED: usize = 2 * SHARE + 16;

/// Shares of 32 bytes for `members` members, of which any `least` give the secret back.
pub(crate) fn divide(
    secret: &[u8; 32],
    least: usize,
    members: usize,
    random: &mut impl CryptoRng,
) -> Vec<Zeroizing<Vec<u8>>> {
    let dealer = threshold(least);
    let shares = dealer.dealer_rng(secret, random);
    shares.take(members).map(|share| Zeroizing::new(Vec::from(&share))).collect()
}

/// The secret that at least `least` shares of different members give.
pub(crate) fn combine(shares: &[Vec<u8>], least: usize) -> Option<Zeroizing<[u8; 32]>> {
    let shares: Option<Vec<Share>> = shares.iter().map(|share| Share::try_from(share.as_slice()).ok()).collect();
    // More shares than needed cost time and give the same secret.
    let shares = shares?.into_iter().take(least).collect::<Vec<_>>();
    let secret = Zeroizing::new(threshold(least).recover(&shares).ok()?);
    let mut bytes = Zeroizing::new([0; 32]);
    (secret.len() == 32).then(|| bytes.copy_from_slice(&secret))?;
    Some(bytes)
}

fn threshold(least: usize) -> Sharks {
    // A sum has at most 50 clients.
    Sharks(u8::try_from(least).unwrap_or(u8::MAX))
}

/// Fixes 32 bytes or a share without revealing them: nobody can guess either.
pub(crate) fn commitment(context: &[u8; 32], dealer: ClientId, kind: Kind, secret: &[u8]) -> [u8; 32] {
    let label: &[u8] = match kind {
        Kind::KeyShare => b"unmask: share of a key",
        Kind::SeedShare => b"unmask: share of a seed",
        Kind::Seed => b"unmask: seed",
    };
    Sha256::new()
        .chain_update(label)
        .chain_update(context)
        .chain_update(dealer.0.to_le_bytes())
        .chain_update(secret)
        .finalize()
        .into()
}

/// What a commitment fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    KeyShare,
    SeedShare,
    Seed,
}

/// A member's shares of one dealer's secrets.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) seed: Zeroizing<Vec<u8>>,
}

/// Whether a share has its holder's place and the right size.
pub(crate) fn is_share(share: &[u8], place: usize) -> bool {
    share.len() == SHARE && usize::from(share[0]) == place + 1
}

/// `None` only for more bytes than the cipher takes.
pub(crate) fn seal(
    key: &[u8; 32],
    context: &[u8; 32],
    (from, to): (ClientId, ClientId),
    held: &Held,
) -> Option<Vec<u8>> {
    let plain = Zeroizing::new([held.key.as_slice(), held.seed.as_slice()].concat());
    let payload = Payload { msg: &plain, aad: context };
    ChaCha20Poly1305::new(&(*key).into()).encrypt(&nonce(from, to).into(), payload).ok()
}

/// `None` if the bytes were not sealed by `from` for `to`.
pub(crate) fn open(
    key: &[u8; 32],
    context: &[u8; 32],
    (from, to): (ClientId, ClientId),
    sealed: &[u8],
) -> Option<Held> {
    let payload = Payload { msg: sealed, aad: context };
    let plain = ChaCha20Poly1305::new(&(*key).into()).decrypt(&nonce(from, to).into(), payload).ok()?;
    let plain = Zeroizing::new(plain);
    let (key, seed) = plain.split_at_checked(SHARE)?;
    Some(Held { key: Zeroizing::new(key.to_vec()), seed: Zeroizing::new(seed.to_vec()) })
}

/// The key serves both directions of one pair in one sum, and each direction seals once.
fn nonce(from: ClientId, to: ClientId) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&from.0.to_le_bytes());
    nonce[4..8].copy_from_slice(&to.0.to_le_bytes());
    nonce
}
