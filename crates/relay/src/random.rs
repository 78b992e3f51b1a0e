//! Random bytes from the operating system.

use anyhow::anyhow;

pub(crate) fn bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the operating system gives no random numbers: {error}"))?;
    Ok(bytes)
}

pub(crate) fn seed() -> anyhow::Result<u64> {
    bytes().map(u64::from_le_bytes)
}
