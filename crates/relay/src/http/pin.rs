//! Six digits that let in whoever types the address, and limits for those who guess them.
//!
//! They are as many of the lesson's key's, so that a relay that starts again shows the same ones; the journal holds no more
//! of them than how many there were before. Six digits that were hashed without a key could be tried out.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::journal::LessonKey;

/// Wrong tries of one address in [`WINDOW`].
const TRIES: usize = 5;
/// Wrong tries of all addresses with one PIN. Then there is another, and for [`WINDOW`] nobody may try: whoever guesses for
/// an hour, from any number of addresses, succeeds with a probability of 0.3 %.
const ALL_TRIES: u32 = 50;
const WINDOW: Duration = Duration::from_secs(60);

/// A room's PIN. It has no debug form.
pub(crate) struct Pin {
    key: LessonKey,
    guarded: Mutex<Guarded>,
}

struct Guarded {
    /// How many PINs the lesson had before this one.
    number: u32,
    pin: String,
    /// Wrong tries within the last [`WINDOW`], oldest first; at most [`ALL_TRIES`], since the next PIN forgets them.
    wrong: VecDeque<(Instant, IpAddr)>,
    /// Wrong tries with this PIN.
    all: u32,
    /// Until when nobody may try.
    closed_until: Option<Instant>,
}

/// What a try came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Try {
    Right,
    Wrong,
    /// Wrong, and once too often: the PIN is another one from here on.
    Renewed {
        pin: String,
        number: u32,
    },
    /// Not even looked at; another try is possible after this time.
    TooMany(Duration),
}

impl Pin {
    /// A lesson's, after so many others: the same one after a restart.
    pub(crate) fn of_lesson(key: LessonKey, number: u32) -> Self {
        let guarded = Mutex::new(Guarded::new(&key, number, None));
        Self { key, guarded }
    }

    /// The PIN as the projector shows it.
    pub(crate) fn get(&self) -> String {
        self.lock().pin.clone()
    }

    /// Tries a PIN. A right one tells the time no more than a wrong one does.
    pub(crate) fn attempt(&self, given: &str, from: IpAddr, now: Instant) -> Try {
        let mut guarded = self.lock();
        if let Some(until) = guarded.closed_until.filter(|until| *until > now) {
            return Try::TooMany(until - now);
        }
        while guarded.wrong.front().is_some_and(|(at, _)| *at + WINDOW <= now) {
            guarded.wrong.pop_front();
        }
        let from = neighbourhood(from);
        let mut own = guarded.wrong.iter().filter(|(_, address)| *address == from).map(|(at, _)| *at);
        let first = own.next();
        if let Some(first) = first
            && own.count() + 1 >= TRIES
        {
            return Try::TooMany(first + WINDOW - now);
        }
        if guarded.pin.as_bytes().ct_eq(given.as_bytes()).into() {
            return Try::Right;
        }
        guarded.wrong.push_back((now, from));
        guarded.all += 1;
        if guarded.all < ALL_TRIES {
            return Try::Wrong;
        }
        *guarded = Guarded::new(&self.key, guarded.number.saturating_add(1), Some(now + WINDOW));
        Try::Renewed { pin: guarded.pin.clone(), number: guarded.number }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One device may have as many IPv6 addresses as it likes in its network.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Guarded {
    fn new(key: &LessonKey, number: u32, closed_until: Option<Instant>) -> Self {
        let pin = format!("{:06}", key.number(&format!("pin {number}"), 1_000_000));
        Self { number, pin, wrong: VecDeque::new(), all: 0, closed_until }
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

    /// Six digits that are not these.
    fn other(pin: &str) -> String {
        format!("{:06}", (pin.parse::<u32>().unwrap() + 1) % 1_000_000)
    }

    #[test]
    fn address_has_five_wrong_tries_a_minute() {
        let pin = drawn();
        let (right, begun) = (pin.get(), Instant::now());
        assert!(right.len() == 6 && right.bytes().all(|digit| digit.is_ascii_digit()), "{right}");
        let wrong = other(&right);
        for seconds in 0..TRIES as u64 {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(pin.attempt(&wrong, address(1), now), Try::Wrong);
        }
        let now = begun + Duration::from_secs(10);
        // The right one is not looked at either, or guessing would go on.
        assert_eq!(pin.attempt(&right, address(1), now), Try::TooMany(Duration::from_secs(50)));
        assert_eq!(pin.attempt(&right, address(2), now), Try::Right);
        assert_eq!(pin.attempt(&right, address(1), begun + WINDOW), Try::Right);
        assert_eq!(pin.attempt("", address(1), begun + WINDOW), Try::Wrong);
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
        assert!(pin.lock().wrong.is_empty());
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
        for number in 0..TRIES as u16 {
            assert_eq!(pin.attempt(&wrong, host(number), now), Try::Wrong);
        }
        assert!(matches!(pin.attempt(&wrong, host(99), now), Try::TooMany(_)));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(neighbourhood(mapped), address(1));
    }
}
