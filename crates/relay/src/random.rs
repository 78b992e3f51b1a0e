//! Fresh random bytes from the operating system.

use anyhow::anyhow;

/// `N` random bytes.
///
/// # Errors
/// If the operating system has none to give.
pub(crate) fn bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the operating system gives no random numbers: {error}"))?;
    Ok(bytes)
}

/// A random seed.
///
/// # Errors
/// As [`bytes`].
pub(crate) fn seed() -> anyhow::Result<u64> {
    bytes().map(u64::from_le_bytes)
}
