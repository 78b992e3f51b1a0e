//! Tickets, with which clients come back after their socket dropped.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Drawn for each socket; works once.
pub type Ticket = [u8; 16];

/// All that the room keeps of a ticket. Someone who reads the hash cannot use it as a ticket.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TicketHash([u8; 32]);

impl TicketHash {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self(Sha256::digest(ticket).into())
    }
}

/// Compares in constant time.
impl PartialEq for TicketHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tells_tickets_apart_and_does_not_hold_them() {
        let (one, other) = (TicketHash::of(&[1; 16]), TicketHash::of(&[2; 16]));
        assert!(one == TicketHash::of(&[1; 16]) && one != other);
        assert!(one.0.windows(16).all(|part| part != [1; 16]));
    }
}
