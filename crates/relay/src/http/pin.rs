//! The room's six-digit PIN for students who type the address, with limits on guessing.
//!
//! PINs are derived from the lesson's key, so that they survive a restart. The journal holds only their count. It could
//! not hold a plain hash, because six digits are easily tried out.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::journal::LessonKey;

/// Wrong attempts that one address may make within [`WINDOW`].
const TRIES: usize = 5;
/// Further wrong attempts within [`WINDOW`], for all addresses that have used theirs: a class shares one address, and a
/// right PIN behind it must be compared although somebody there typed wrong ones.
const SPARE: usize = 5;
/// Wrong attempts from all addresses before the PIN changes. All attempts are then blocked for [`WINDOW`], except by
/// QR code, which needs no PIN. Only [`TRIES`] of one address count: nobody closes the door from there alone.
/// Guessing for an hour, from any number of addresses, succeeds with a probability of 0.3 %: nine addresses may guess
/// 45 times a minute and take the spare attempts, and ten close the door.
const ALL_TRIES: usize = 50;
const WINDOW: Duration = Duration::from_secs(60);

/// A room's PIN. It does not implement `Debug`, so that it cannot leak into a log.
pub(crate) struct Pin {
    key: LessonKey,
    guarded: Mutex<Guarded>,
}

struct Guarded {
    /// Number of the lesson's earlier PINs.
    number: u32,
    pin: String,
    /// Wrong attempts within the last [`WINDOW`], oldest first. Each address counts its first ones in `counted`, so there
    /// are fewer than [`ALL_TRIES`] addresses with [`TRIES`] each, and [`SPARE`] further attempts.
    wrong: VecDeque<Wrong>,
    /// Where the wrong attempts came from that count for a new PIN: fewer than [`ALL_TRIES`].
    counted: Vec<IpAddr>,
    closed_until: Option<Instant>,
}

struct Wrong {
    at: Instant,
    from: IpAddr,
    /// Whether the address had used its own attempts.
    is_spare: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Try {
    Right,
    Wrong,
    /// The last allowed wrong attempt: the PIN has changed.
    Renewed {
        pin: String,
        number: u32,
    },
    /// Not checked; another attempt is allowed after this time.
    TooMany(Duration),
}

impl Pin {
    /// Returns the PIN with this number of the lesson, which is the same after a restart.
    pub(crate) fn of_lesson(key: LessonKey, number: u32) -> Self {
        let guarded = Mutex::new(Guarded::new(&key, number, None));
        Self { key, guarded }
    }

    pub(crate) fn get(&self) -> String {
        self.lock().pin.clone()
    }

    /// Draws another PIN. Returns it, and how many came before.
    pub(crate) fn renew(&self) -> (String, u32) {
        let mut guarded = self.lock();
        *guarded = Guarded::new(&self.key, guarded.number.saturating_add(1), None);
        (guarded.pin.clone(), guarded.number)
    }

    /// Checks a PIN in constant time.
    pub(crate) fn attempt(&self, given: &str, from: IpAddr, now: Instant) -> Try {
        let mut guarded = self.lock();
        if let Some(until) = guarded.closed_until.filter(|until| *until > now) {
            return Try::TooMany(until - now);
        }
        while guarded.wrong.front().is_some_and(|wrong| wrong.at + WINDOW <= now) {
            guarded.wrong.pop_front();
        }
        let from = neighbourhood(from);
        let is_spare = match guarded.allowance(from) {
            Ok(is_spare) => is_spare,
            Err(until) => return Try::TooMany(until - now),
        };
        if guarded.pin.as_bytes().ct_eq(given.as_bytes()).into() {
            return Try::Right;
        }
        guarded.wrong.push_back(Wrong { at: now, from, is_spare });
        if guarded.counted.iter().filter(|counted| **counted == from).count() < TRIES {
            guarded.counted.push(from);
        }
        if guarded.counted.len() < ALL_TRIES {
            return Try::Wrong;
        }
        *guarded = Guarded::new(&self.key, guarded.number.saturating_add(1), Some(now + WINDOW));
        Try::Renewed { pin: guarded.pin.clone(), number: guarded.number }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reduces an IPv6 address to its /64 network, since a device can use any address in it.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Guarded {
    fn new(key: &LessonKey, number: u32, closed_until: Option<Instant>) -> Self {
        let pin = format!("{:06}", key.number(&format!("pin {number}"), 1_000_000));
        Self { number, pin, wrong: VecDeque::new(), counted: Vec::new(), closed_until }
    }

    /// Whether an attempt from this address would be a spare one, if it is compared at all.
    ///
    /// # Errors
    /// When the next attempt will be compared.
    fn allowance(&self, address: IpAddr) -> Result<bool, Instant> {
        let ends = |wrong: &Wrong| wrong.at + WINDOW;
        let mut own = self.wrong.iter().filter(|wrong| wrong.from == address && !wrong.is_spare).map(ends);
        let own_ends = own.next();
        if own.count() + 1 < TRIES {
            return Ok(false);
        }
        let mut spare = self.wrong.iter().filter(|wrong| wrong.is_spare).map(ends);
        let spare_ends = spare.next();
        if spare.count() + 1 < SPARE {
            return Ok(true);
        }
        // Both lists have entries, the oldest first.
        match own_ends.into_iter().chain(spare_ends).min() {
            Some(until) => Err(until),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> Pin {
        Pin::of_lesson(LessonKey::fleeting().unwrap(), 0)
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn other(pin: &str) -> String {
        format!("{:06}", (pin.parse::<u32>().unwrap() + 1) % 1_000_000)
    }

    #[test]
    fn address_has_five_wrong_tries_a_minute_and_a_right_pin_behind_it_is_taken() {
        let pin = drawn();
        let (right, begun) = (pin.get(), Instant::now());
        assert!(right.len() == 6 && right.bytes().all(|digit| digit.is_ascii_digit()), "{right}");
        let wrong = other(&right);
        for seconds in 0..TRIES as u64 {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(pin.attempt(&wrong, address(1), now), Try::Wrong);
        }
        let now = begun + Duration::from_secs(10);
        // The others behind this address come in, and cost nothing.
        for _ in 0..100 {
            assert_eq!(pin.attempt(&right, address(1), now), Try::Right);
        }
        for _ in 0..SPARE {
            assert_eq!(pin.attempt(&wrong, address(1), now), Try::Wrong);
        }
        // Now the right PIN is refused too, or guessing could go on.
        assert_eq!(pin.attempt(&right, address(1), now), Try::TooMany(Duration::from_secs(50)));
        assert_eq!(pin.attempt(&right, address(2), now), Try::Right);
        assert_eq!(pin.attempt(&right, address(1), begun + WINDOW), Try::Right);
        assert_eq!(pin.attempt("", address(1), begun + WINDOW), Try::Wrong);
    }

    /// The spare attempts are for all addresses together, and come back after a minute.
    #[test]
    fn spare_tries_are_shared() {
        let pin = drawn();
        let (right, now) = (pin.get(), Instant::now());
        let spend =
            |number: u8| (0..100).filter(|_| pin.attempt(&other(&right), address(number), now) == Try::Wrong).count();
        assert_eq!([1, 2, 3].map(spend), [TRIES + SPARE, TRIES, TRIES]);
        assert_eq!(pin.attempt(&right, address(2), now), Try::TooMany(WINDOW));
        assert_eq!(pin.attempt(&right, address(2), now + WINDOW), Try::Right);
    }

    /// Somebody who types wrong PINs for an hour does not change the PIN that the projector shows.
    #[test]
    fn nobody_closes_the_door_alone() {
        let pin = drawn();
        let (right, begun) = (pin.get(), Instant::now());
        for second in 0..3600 {
            let tried = pin.attempt(&other(&right), address(1), begun + Duration::from_secs(second));
            assert!(!matches!(tried, Try::Renewed { .. }), "after {second} s");
        }
        assert_eq!((pin.get(), pin.lock().counted.len()), (right, TRIES));
        assert!(pin.lock().wrong.len() <= TRIES + SPARE);
    }

    #[test]
    fn many_addresses_get_another_pin_and_a_pause() {
        let pin = drawn();
        let (first, now) = (pin.get(), Instant::now());
        let tries: Vec<Try> =
            (0..ALL_TRIES as u8).map(|number| pin.attempt(&other(&first), address(number), now)).collect();
        assert!(tries[..tries.len() - 1].iter().all(|tried| *tried == Try::Wrong));
        assert_eq!(tries.last(), Some(&Try::Renewed { pin: pin.get(), number: 1 }));
        let second = pin.get();
        assert_eq!(pin.attempt(&second, address(200), now), Try::TooMany(WINDOW));
        assert_eq!(pin.attempt(&second, address(200), now + WINDOW), Try::Right);
        assert!(pin.lock().wrong.is_empty() && pin.lock().counted.is_empty());
    }

    #[test]
    fn a_lesson_has_its_pins_again() {
        let folder = tempfile::tempdir().unwrap();
        let pin = |number| Pin::of_lesson(LessonKey::kept(folder.path(), [1; 16]).unwrap(), number).get();
        assert_eq!((pin(0), pin(1)), (pin(0), pin(1)));
        let all: std::collections::BTreeSet<String> = (0..100).map(pin).collect();
        assert!(all.len() > 95, "{all:?}");
        assert!(all.iter().all(|pin| pin.len() == 6 && pin.bytes().all(|digit| digit.is_ascii_digit())), "{all:?}");
    }

    #[test]
    fn network_of_one_device_counts_as_one_address() {
        let pin = drawn();
        let (wrong, now) = (other(&pin.get()), Instant::now());
        let host = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, number, 2, 3, number]);
        for number in 0..(TRIES + SPARE) as u16 {
            assert_eq!(pin.attempt(&wrong, host(number), now), Try::Wrong);
        }
        assert!(matches!(pin.attempt(&wrong, host(99), now), Try::TooMany(_)));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(neighbourhood(mapped), address(1));
    }
}
