//! Admission to the room, and the addresses to join at.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{recent::Recent, snapshot::JoinAddresses};
use crate::peer::{DeviceId, Peer};

/// Upper limit of bans kept, well above the size of a class.
pub(super) const BANS: usize = 1000;

/// Upper limit of clients from one browser on another machine. A student may open some tabs, and not fill the room.
pub(super) const PER_BROWSER: usize = 4;
/// Upper limit of clients without a cookie, which are programs, from one address of another machine.
pub(super) const PROGRAMS: usize = 32;

/// Why a client may not come in, as a clause.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum NoEntry {
    #[error("the teacher has banned this device from the room")]
    Banned,
    #[error("the room is locked; ask the teacher to unlock it")]
    Locked,
    #[error("the room has a new key; scan the QR code on the projector again")]
    EarlierKey,
    #[error("the room is full with {clients} clients; ask the teacher")]
    Full { clients: usize },
    #[error("{PER_BROWSER} tabs of this browser are in the room already; close one of them")]
    Browser,
    #[error(
        "{PROGRAMS} clients without a cookie come from this address already; run fewer, or run them beside the relay"
    )]
    Programs,
}

/// How a banned client is recognised when it comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ban {
    /// `None` if other clients share the address.
    address: Option<IpAddr>,
    device: Option<DeviceId>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct DoorRecord {
    is_locked: bool,
    bans: Vec<Ban>,
    left_out: Vec<DeviceId>,
    /// Number of PINs before the current one; reveals none of them without the lesson's key.
    pins: u32,
    /// Number of the students' keys before the present one.
    keys: u32,
    approves: Option<bool>,
}

impl DoorRecord {
    pub(crate) fn pins(&self) -> u32 {
        self.pins
    }

    pub(crate) fn keys(&self) -> u32 {
        self.keys
    }
}

#[derive(Debug)]
pub(crate) struct Door {
    is_locked: bool,
    /// Whether newcomers wait, once that was decided in this lesson: by the teacher, or at a start.
    approves: Option<bool>,
    bans: Recent<Ban>,
    /// Browsers of clients that were left out for refused updates.
    left_out: Recent<DeviceId>,
    pins: u32,
    addresses: JoinAddresses,
}

impl Door {
    pub(crate) fn new(addresses: JoinAddresses, (is_locked, approve_first): (bool, bool)) -> Self {
        // Only closing the door is a decision.
        let approves = approve_first.then_some(true);
        Self { is_locked, approves, bans: Recent::new(BANS), left_out: Recent::new(BANS), pins: 0, addresses }
    }

    pub(crate) fn addresses(&self) -> &JoinAddresses {
        &self.addresses
    }

    /// Number of bans.
    pub(crate) fn bans(&self) -> usize {
        self.bans.len()
    }

    pub(crate) fn lock(&mut self, is_locked: bool) {
        self.is_locked = is_locked;
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    pub(crate) fn approve_first(&mut self, on: bool) {
        self.approves = Some(on);
    }

    /// Whether newcomers wait until the teacher lets them in.
    pub(crate) fn approves(&self) -> bool {
        self.approves == Some(true)
    }

    /// Returns why a new client may not come in, if so.
    pub(crate) fn objection(&self, peer: &Peer) -> Option<NoEntry> {
        let matches = |ban: &Ban| {
            ban.address.is_some_and(|address| peer.address == Some(address))
                || ban.device.is_some_and(|device| peer.device == Some(device))
        };
        if self.bans.iter().any(matches) {
            return Some(NoEntry::Banned);
        }
        self.is_locked.then_some(NoEntry::Locked)
    }

    /// Leaves out who comes from this browser.
    pub(crate) fn leave_out(&mut self, device: DeviceId) {
        if !self.leaves_out(device) {
            self.left_out.push(device);
        }
    }

    pub(crate) fn leaves_out(&self, device: DeviceId) -> bool {
        self.left_out.iter().any(|other| *other == device)
    }

    /// Number of keys that students had before the present one.
    pub(crate) fn keys(&self) -> u32 {
        self.addresses.keys
    }

    /// Lets in who comes from this browser, or everybody.
    pub(crate) fn let_in(&mut self, device: Option<DeviceId>) {
        self.left_out.retain(|other| device.is_some_and(|device| device != *other));
    }

    /// Bans this peer. Returns whether it will be recognised.
    pub(crate) fn ban(&mut self, peer: Peer, is_address_shared: bool) -> bool {
        let address = peer.address.filter(|_| !is_address_shared);
        self.bans.push(Ban { address, device: peer.device });
        address.is_some() || peer.device.is_some()
    }

    pub(crate) fn banned(&self) -> usize {
        self.bans.iter().count()
    }

    pub(crate) fn lift_bans(&mut self) {
        self.bans.clear();
    }

    /// Sets a new PIN; `number` PINs came before it.
    pub(crate) fn renew_pin(&mut self, pin: String, number: u32) {
        // News of two renewals may overtake each other.
        if number >= self.pins {
            (self.addresses.pin, self.pins) = (pin, number);
        }
    }

    /// Shows students another key; `keys` came before it.
    pub(crate) fn renew_key(&mut self, qr_svg: String, keys: u32) {
        if keys >= self.keys() {
            (self.addresses.qr_svg, self.addresses.keys) = (qr_svg, keys);
        }
    }

    pub(crate) fn record(&self) -> DoorRecord {
        let (bans, left_out) = (self.bans.iter().cloned().collect(), self.left_out.iter().copied().collect());
        DoorRecord {
            is_locked: self.is_locked,
            bans,
            left_out,
            pins: self.pins,
            keys: self.keys(),
            approves: self.approves,
        }
    }

    /// Restores what was decided last, and the number of PINs; the addresses stay as they are now.
    pub(crate) fn restore(&mut self, record: DoorRecord) {
        let DoorRecord { is_locked, bans, left_out, pins, keys, approves } = record;
        (self.is_locked, self.approves, self.pins) = (is_locked, approves.or(self.approves), pins);
        self.addresses.keys = self.keys().max(keys);
        self.bans = Recent::new(BANS).refilled(bans);
        self.left_out = Recent::new(BANS).refilled(left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door::new(JoinAddresses::default(), (false, false))
    }

    fn peer(address: Option<u8>, device: Option<&str>) -> Peer {
        Peer { address: address.map(|last| [10, 0, 0, last].into()), device: device.and_then(DeviceId::parse) }
    }

    #[test]
    fn locked_door_keeps_everybody_out() {
        let mut door = door();
        assert_eq!(door.objection(&peer(Some(1), None)), None);
        door.lock(true);
        assert_eq!(door.objection(&peer(Some(1), None)), Some(NoEntry::Locked));
        door.lock(false);
        assert_eq!(door.objection(&Peer::default()), None);
    }

    #[test]
    fn banned_are_known_by_address_or_device() {
        let mut door = door();
        assert!(door.ban(peer(Some(1), Some("a1")), false));
        for (known, is_banned) in [
            (peer(Some(1), None), true),
            (peer(Some(1), Some("b2")), true),
            (peer(Some(2), Some("a1")), true),
            (peer(None, Some("a1")), true),
            (peer(Some(2), Some("b2")), false),
            (Peer::default(), false),
        ] {
            assert_eq!(door.objection(&known).is_some(), is_banned, "{known:?}");
        }
        let mut other = self::door();
        other.restore(door.record());
        assert_eq!(other.record(), door.record());
        assert!(other.objection(&peer(Some(1), None)).is_some());
        door.lift_bans();
        assert_eq!((door.objection(&peer(Some(1), None)), door.banned()), (None, 0));
    }

    /// A ban never affects other clients, so a client that looks like others is not recognised.
    #[test]
    fn shared_address_is_not_banned() {
        let mut door = door();
        assert!(door.ban(peer(Some(1), Some("a1")), true));
        assert_eq!(door.objection(&peer(Some(1), Some("b2"))), None);
        assert!(!door.ban(peer(Some(1), None), true));
        assert!(!door.ban(Peer::default(), false));
        assert_eq!((door.objection(&Peer::default()), door.banned()), (None, 3));
    }
}
