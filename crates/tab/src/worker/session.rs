//! One student's stay in one room, sockets come and go.

use unmask_client::{Client, Plan};

use super::{own_picture::OwnPicture, samples::Memory, socket::Socket, trial::Trial};
use crate::protocol::DeviceChoice;

/// In a room, or on the way there.
pub struct Session {
    /// WebSocket address of the room.
    pub address: String,
    /// Its client.
    pub client: Client,
    /// The private picture.
    pub own: OwnPicture,
    /// The device asked for.
    pub wanted: DeviceChoice,
    /// The newest plan not yet begun.
    pub plan: Option<Box<Plan>>,
    /// The plan trained last, for its weights.
    pub trained: Option<Box<Plan>>,
    /// What earlier updates were made from.
    pub memory: Memory,
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
    pub fn new(address: String, client: Client, own: OwnPicture, wanted: DeviceChoice) -> Self {
        Self {
            address,
            client,
            own,
            wanted,
            plan: None,
            trained: None,
            memory: Memory::default(),
            trial: None,
            is_trial_due: false,
            socket: None,
            is_open: false,
            wait: 1,
        }
    }
}
