//! Six digits that let in whoever types the address, and limits for those who guess them.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::random;

/// Wrong tries of one address in [`WINDOW`].
const TRIES: usize = 5;
/// Wrong tries of all addresses with one PIN. Then there is another, and for [`WINDOW`] nobody may try: whoever guesses for
/// an hour, from any number of addresses, succeeds with a probability of 0.3 %.
const ALL_TRIES: u32 = 50;
const WINDOW: Duration = Duration::from_secs(60);

/// A room's PIN.
#[derive(Debug)]
pub(crate) struct Pin(Mutex<Guarded>);

#[derive(Debug)]
struct Guarded {
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
    Renewed(String),
    /// Not even looked at; another try is possible after this time.
    TooMany(Duration),
}

impl Pin {
    /// A fresh one.
    ///
    /// # Errors
    /// If the operating system gives no random numbers.
    pub(crate) fn draw() -> anyhow::Result<Self> {
        Ok(Self(Mutex::new(Guarded { pin: digits()?, wrong: VecDeque::new(), all: 0, closed_until: None })))
    }

    /// The PIN as the projector shows it.
    pub(crate) fn get(&self) -> String {
        self.lock().pin.clone()
    }

    /// Tries a PIN. A right one tells the time no more than a wrong one does.
    ///
    /// # Errors
    /// If another PIN is due and the operating system gives no random numbers.
    pub(crate) fn attempt(&self, given: &str, from: IpAddr, now: Instant) -> anyhow::Result<Try> {
        let mut guarded = self.lock();
        if let Some(until) = guarded.closed_until.filter(|until| *until > now) {
            return Ok(Try::TooMany(until - now));
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
            return Ok(Try::TooMany(first + WINDOW - now));
        }
        if guarded.pin.as_bytes().ct_eq(given.as_bytes()).into() {
            return Ok(Try::Right);
        }
        guarded.wrong.push_back((now, from));
        guarded.all += 1;
        if guarded.all < ALL_TRIES {
            return Ok(Try::Wrong);
        }
        let pin = digits()?;
        *guarded = Guarded { pin: pin.clone(), wrong: VecDeque::new(), all: 0, closed_until: Some(now + WINDOW) };
        Ok(Try::Renewed(pin))
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One device may have as many IPv6 addresses as it likes in its network.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

/// Six digits, all of them as probable: numbers beyond the last whole million are drawn again.
fn digits() -> anyhow::Result<String> {
    const MILLION: u32 = 1_000_000;
    loop {
        let number = u32::from_le_bytes(random::bytes()?);
        if number < u32::MAX / MILLION * MILLION {
            return Ok(format!("{:06}", number % MILLION));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    /// Six digits that are not these.
    fn other(pin: &str) -> String {
        format!("{:06}", (pin.parse::<u32>().unwrap() + 1) % 1_000_000)
    }

    #[test]
    fn address_has_five_wrong_tries_a_minute() {
        let pin = Pin::draw().unwrap();
        let (right, begun) = (pin.get(), Instant::now());
        assert!(right.len() == 6 && right.bytes().all(|digit| digit.is_ascii_digit()), "{right}");
        let wrong = other(&right);
        for seconds in 0..TRIES as u64 {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(pin.attempt(&wrong, address(1), now).unwrap(), Try::Wrong);
        }
        let now = begun + Duration::from_secs(10);
        // The right one is not looked at either, or guessing would go on.
        assert_eq!(pin.attempt(&right, address(1), now).unwrap(), Try::TooMany(Duration::from_secs(50)));
        assert_eq!(pin.attempt(&right, address(2), now).unwrap(), Try::Right);
        assert_eq!(pin.attempt(&right, address(1), begun + WINDOW).unwrap(), Try::Right);
        assert_eq!(pin.attempt("", address(1), begun + WINDOW).unwrap(), Try::Wrong);
    }

    #[test]
    fn many_addresses_get_another_pin_and_a_pause() {
        let pin = Pin::draw().unwrap();
        let (first, now) = (pin.get(), Instant::now());
        let tries: Vec<Try> =
            (0..ALL_TRIES as u8).map(|number| pin.attempt(&other(&first), address(number), now).unwrap()).collect();
        assert!(tries[..tries.len() - 1].iter().all(|tried| *tried == Try::Wrong));
        assert_eq!(tries.last(), Some(&Try::Renewed(pin.get())));
        let second = pin.get();
        assert_eq!(pin.attempt(&second, address(200), now).unwrap(), Try::TooMany(WINDOW));
        assert_eq!(pin.attempt(&second, address(200), now + WINDOW).unwrap(), Try::Right);
        assert!(pin.0.lock().unwrap().wrong.is_empty());
    }

    #[test]
    fn network_of_one_device_counts_as_one_address() {
        let pin = Pin::draw().unwrap();
        let (wrong, now) = (other(&pin.get()), Instant::now());
        let host = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, number, 2, 3, number]);
        for number in 0..TRIES as u16 {
            assert_eq!(pin.attempt(&wrong, host(number), now).unwrap(), Try::Wrong);
        }
        assert!(matches!(pin.attempt(&wrong, host(99), now).unwrap(), Try::TooMany(_)));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(neighbourhood(mapped), address(1));
    }
}
