//! The memory that a round's updates need.

use unmask_core::{Aggregation, Architecture};

use crate::config::RoomConfig;

/// Most bytes of updates that an aggregation may hold.
const MOST: u64 = 2 << 30;

#[derive(Debug, thiserror::Error)]
#[error(
    "{aggregation} holds every update of a round: {:.1} GB for {clients} clients on {architecture}, and 2 GB are the \
     limit; choose clipped or a smaller model",
    *.needed as f64 / 1e9
)]
pub struct TooMuchMemory {
    aggregation: Aggregation,
    needed: u64,
    clients: usize,
    architecture: Architecture,
}

/// Checks that the updates of a full room fit in memory, if the aggregation holds them all.
pub(super) fn check(config: &RoomConfig, architecture: Architecture) -> Result<(), TooMuchMemory> {
    let (aggregation, clients) = (config.aggregation, config.limits.clients);
    let needed = aggregation.memory(architecture.layout().len(), clients);
    if needed > MOST {
        return Err(TooMuchMemory { aggregation, needed, clients, architecture });
    }
    Ok(())
}
