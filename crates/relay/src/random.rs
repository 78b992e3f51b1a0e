//! Random bytes from the operating system.

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the operating system gives no random numbers: {0}")]
pub(crate) struct NoRandomNumbers(getrandom::Error);

pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandomNumbers> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomNumbers)?;
    Ok(bytes)
}
