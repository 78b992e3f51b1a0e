//! Fresh random numbers from the operating system.

use anyhow::anyhow;

/// Bytes for a robot.
pub(super) fn fresh() -> Result<[u8; 32], String> {
    fresh_bytes().map_err(|error| error.to_string())
}

/// A number in [0, 1).
pub(super) fn fresh_share() -> anyhow::Result<f64> {
    fresh_bytes().map(|bytes| f64::from(u32::from_le_bytes(bytes)) / 2f64.powi(32))
}

pub(super) fn fresh_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the operating system gives no random numbers: {error}"))?;
    Ok(bytes)
}
