//! Limits the number of connections, in total and per address.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::oneshot;

/// What counts as one address: an IPv4 address, or an IPv6 /64 network, since a device can use any address in its
/// network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Origin(IpAddr);

impl Origin {
    const HOST_BITS: u128 = u64::MAX as u128;

    /// Whether this is loopback: the teacher's browser, native clients, or a proxy with a whole class behind it.
    fn is_own(self) -> bool {
        self.0 == IpAddr::V4(Ipv4Addr::LOCALHOST) || self.0 == IpAddr::V6(Ipv6Addr::LOCALHOST)
    }
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) if address != Ipv6Addr::LOCALHOST => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !Self::HOST_BITS))
            }
            address => address,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Crowded {
    #[error("its address held as many as it may")]
    Address,
    #[error("all places were taken")]
    All,
}

#[derive(Debug, Default)]
struct Table {
    newest: u64,
    places: HashMap<u64, Origin>,
    held: HashMap<Origin, usize>,
    /// Connections that have not made a request, oldest first, each with the sender that tells it to close.
    unproven: BTreeMap<u64, (Origin, oneshot::Sender<()>)>,
}

impl Table {
    fn vacate(&mut self, number: u64) {
        self.unproven.remove(&number);
        let Some(origin) = self.places.remove(&number) else { return };
        if let Some(held) = self.held.get_mut(&origin) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&origin);
            }
        }
    }

    /// Closes the oldest connection without a request, of this origin or of any; false if there is none.
    fn make_way(&mut self, of: Option<Origin>) -> bool {
        let oldest = self.unproven.iter().find(|(_, (origin, _))| of.is_none_or(|of| of == *origin));
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        if let Some((_, close)) = self.unproven.remove(&number) {
            // A connection that no longer listens is already closing.
            let _ = close.send(());
        }
        self.vacate(number);
        true
    }
}

#[derive(Debug)]
struct Shared {
    most: usize,
    most_for_one: usize,
    table: Mutex<Table>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places for connections, shared by both ports.
///
/// An address may hold at most as many places as half of those that are free, and at most its own limit. A few
/// addresses therefore cannot take everything. If no place is free, the oldest connection without a request is closed.
/// If there is no such connection, the newcomer is refused.
#[derive(Debug, Clone)]
pub(crate) struct Seats(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Seating {
    pub(crate) seat: Arc<Seat>,
    /// Receives a message if this connection must make way; closes without one at the first request.
    pub(crate) close: oneshot::Receiver<()>,
    /// The limit for which another connection was closed, if one was.
    pub(crate) displaced: Option<Crowded>,
}

impl Seats {
    pub(crate) fn new(most: usize, most_for_one: usize) -> Self {
        Self(Arc::new(Shared { most, most_for_one, table: Mutex::default() }))
    }

    pub(crate) fn take(&self, address: IpAddr) -> Result<Seating, Crowded> {
        let origin = Origin::from(address);
        let mut table = self.0.lock();
        let free = self.0.most.saturating_sub(table.places.len());
        let own_limit = if origin.is_own() { usize::MAX } else { self.0.most_for_one };
        let held = table.held.get(&origin).copied().unwrap_or_default();
        let displaced = if held >= own_limit.min((free / 2).max(1)) {
            Some((Crowded::Address, Some(origin)))
        } else {
            (free == 0).then_some((Crowded::All, None))
        };
        if let Some((crowded, of)) = displaced
            && !table.make_way(of)
        {
            return Err(crowded);
        }
        table.newest += 1;
        let number = table.newest;
        let (sender, close) = oneshot::channel();
        table.places.insert(number, origin);
        *table.held.entry(origin).or_default() += 1;
        table.unproven.insert(number, (origin, sender));
        drop(table);
        let seat = Seat { number, is_proven: AtomicBool::new(false), shared: Arc::clone(&self.0) };
        Ok(Seating { seat: Arc::new(seat), close, displaced: displaced.map(|(crowded, _)| crowded) })
    }
}

/// One connection's place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    is_proven: AtomicBool,
    shared: Arc<Shared>,
}

impl Seat {
    /// Records the first complete request. The connection no longer has to make way.
    pub(crate) fn prove(&self) {
        if !self.is_proven.swap(true, Ordering::Relaxed) {
            self.shared.lock().unproven.remove(&self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.lock().vacate(self.number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 168, 1, last].into()
    }

    fn proven(seats: &Seats, address: IpAddr) -> Seating {
        let seating = seats.take(address).unwrap();
        seating.seat.prove();
        seating
    }

    #[test]
    fn an_address_gets_its_share_and_another_finds_a_place() {
        let seats = Seats::new(100, 10);
        let held: Vec<Seating> = (0..10).map(|_| proven(&seats, address(1))).collect();
        assert_eq!(seats.take(address(1)).unwrap_err(), Crowded::Address);
        assert!(seats.take(address(2)).is_ok());
        drop(held);
        assert!(seats.take(address(1)).is_ok());
    }

    /// When a few addresses take all they can, another still gets a place.
    #[test]
    fn a_few_greedy_addresses_leave_places() {
        let seats = Seats::new(200, 64);
        let mut held = Vec::new();
        for last in 1..=8 {
            while let Ok(seating) = seats.take(address(last)) {
                seating.seat.prove();
                held.push(seating);
            }
        }
        assert!(held.len() > 100, "{}", held.len());
        assert!(seats.take(address(99)).is_ok());
    }

    #[test]
    fn the_oldest_without_a_request_makes_way() {
        let seats = Seats::new(100, 2);
        let mut silent = seats.take(address(1)).unwrap();
        let mut busy = proven(&seats, address(1));
        let newcomer = seats.take(address(1)).unwrap();
        assert_eq!((newcomer.displaced, silent.close.try_recv()), (Some(Crowded::Address), Ok(())));
        assert_eq!(busy.close.try_recv(), Err(TryRecvError::Closed));
        newcomer.seat.prove();
        assert_eq!(seats.take(address(1)).unwrap_err(), Crowded::Address);
        // Its place was given away, so dropping it frees none.
        drop(silent);
        assert_eq!(seats.take(address(1)).unwrap_err(), Crowded::Address);
    }

    #[test]
    fn this_machine_is_bound_by_what_is_free_alone() {
        let seats = Seats::new(30, 2);
        let mut held = Vec::new();
        while let Ok(seating) = seats.take(Ipv4Addr::LOCALHOST.into()) {
            seating.seat.prove();
            held.push(seating);
        }
        assert_eq!(held.len(), 10);
    }

    #[test]
    fn one_network_of_version_6_is_one_address() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert!(origin("::1").is_own() && origin("127.0.0.1").is_own() && !origin("127.0.0.2").is_own());
    }

    proptest! {
        /// Neither the total nor an address's limit is exceeded, and no place leaks.
        #[test]
        fn counts_hold(steps in proptest::collection::vec((0_u8..6, any::<bool>(), any::<bool>()), 1..200)) {
            let seats = Seats::new(12, 4);
            let mut held: Vec<Seating> = Vec::new();
            for (last, proves, leaves) in steps {
                if let Ok(seating) = seats.take(address(last)) {
                    if proves {
                        seating.seat.prove();
                    }
                    held.push(seating);
                }
                if leaves && !held.is_empty() {
                    held.swap_remove(held.len() / 2);
                }
                let table = seats.0.lock();
                prop_assert!(table.places.len() <= 12);
                prop_assert!(table.held.values().all(|held| (1..=4).contains(held)));
                prop_assert_eq!(table.held.values().sum::<usize>(), table.places.len());
            }
            drop(held);
            let table = seats.0.lock();
            prop_assert!(table.places.is_empty() && table.held.is_empty() && table.unproven.is_empty());
        }
    }
}
