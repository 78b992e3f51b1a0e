use serde::{Deserialize, Serialize};
use unmask_core::{ClientId, Defence, Rule};

/// Identifies the update behind a result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Number of the room's model; results for an earlier model are not shown.
    pub(crate) epoch: u64,
    /// Number of the attacked update; an older update's result never replaces a newer one's.
    pub(crate) serial: u64,
    /// Counts how often the teacher restarted the gathering of rounds.
    pub(crate) gathering: u64,
    pub(crate) client: ClientId,
    pub(crate) round: u32,
    pub(crate) defence: Defence,
    pub(crate) rule: Rule,
    /// Number of pictures in the update, according to the client.
    pub(crate) samples: u32,
}
