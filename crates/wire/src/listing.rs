//! The published list of a round's updates, as a client hears of it.

use serde::{Deserialize, Serialize};

/// The list's root, which with the round's weights makes its four words, and the way to it from the update of the client that it is sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub round: u32,
    pub root: [u8; 32],
    /// Number of updates in the list.
    pub leaves: u32,
    /// Absent if the relay took no update of this client in the round.
    pub path: Option<ListPath>,
}

/// The way from a leaf to the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPath {
    /// Hides the update behind the leaf's hash. Only its client learns it.
    pub nonce: [u8; 32],
    /// From 0.
    pub place: u32,
    /// The hashes beside the path, the lowest first.
    pub beside: Vec<[u8; 32]>,
}
