//! One student's stay in one room, sockets come and go.

use unmask_client::{Client, RoundPlan};

use super::{socket::Socket, trial::Trial};
use crate::protocol::DeviceChoice;

/// In a room, or on the way there.
pub struct Session {
    /// WebSocket address of the room.
    pub address: String,
    /// Its client, which holds the private picture.
    pub client: Client,
    /// The device asked for.
    pub wanted: DeviceChoice,
    /// The newest plan not yet begun.
    pub plan: Option<Box<RoundPlan>>,
    /// The plan trained last, for its weights.
    pub trained: Option<Box<RoundPlan>>,
    /// The picture to try on the model.
    pub trial: Option<Trial>,
    /// Whether it has yet to be tried on the weights at hand.
    pub is_trial_due: bool,
    /// The socket, open or opening.
    pub socket: Option<Socket>,
    /// Whether it is open.
    pub is_open: bool,
    /// Seconds to wait before the next try to connect.
    pub wait: u32,
}

impl Session {
    /// Not connected yet.
    pub fn new(address: String, client: Client, wanted: DeviceChoice) -> Self {
        Self {
            address,
            client,
            wanted,
            plan: None,
            trained: None,
            trial: None,
            is_trial_due: false,
            socket: None,
            is_open: false,
            wait: 1,
        }
    }
}
