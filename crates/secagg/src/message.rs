//! What clients and the relay send each other.

use serde::{Deserialize, Serialize};
use unmask_core::ClientId;

/// A client's message of any phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Keys(PublicKeys),
    Dealing(Dealing),
    /// The masked values, as many as the terms say.
    Values(Vec<u32>),
    Confirmations(Vec<Confirmation>),
    Revealed(Revealed),
    /// The client leaves the sum, because the keys or the shares of this other client do not fit.
    Complaint(ClientId),
}

/// A client's keys for one sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKeys {
    /// X25519, to seal shares.
    pub channel: [u8; 32],
    /// X25519, for the masks that pairs of clients share.
    pub mask: [u8; 32],
    /// Whether nobody sits at this client.
    pub is_robot: bool,
    /// HMAC-SHA256 of all this with the class's key.
    pub tag: [u8; 32],
}

/// A client and its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub client: ClientId,
    pub keys: PublicKeys,
}

/// A client's two secrets, divided among the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dealing {
    /// Fixes the seed of the client's own mask.
    pub seed: [u8; 32],
    /// One for each member, in their order.
    pub shares: Vec<SealedShare>,
}

/// The shares of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedShare {
    /// Fixes the share of the dealer's key.
    pub key: [u8; 32],
    /// Fixes the share of the seed of the dealer's own mask.
    pub seed: [u8; 32],
    /// Both shares, readable for the member alone; empty in the dealer's own.
    pub sealed: Vec<u8>,
}

/// What one member gets of another's [`Dealing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub from: ClientId,
    pub share: SealedShare,
}

/// HMAC-SHA256 of the list of clients in the sum, with a key that the relay does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The other client: who reads it, in a message to the relay, and who made it, in one from the relay.
    pub client: ClientId,
    pub tag: [u8; 32],
}

/// Shares that undo masks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revealed {
    /// Of the keys of clients that left before they sent values.
    pub keys: Vec<(ClientId, Vec<u8>)>,
    /// Of the seeds of clients in the sum.
    pub seeds: Vec<(ClientId, Vec<u8>)>,
}
