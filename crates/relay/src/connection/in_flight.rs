//! Updates on their way: how much memory they may take, and how fast they must come.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};

const UNIT: usize = 1024;
/// How often a reader that waits for its share does so aloud.
const BEAT: Duration = Duration::from_secs(1);

/// Memory for updates in flight, over all sockets, and the length of the longest.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    units: Arc<Semaphore>,
    /// How many there are, taken or not.
    total: Arc<AtomicUsize>,
    /// Longest message of a client in bytes.
    longest: Arc<AtomicUsize>,
    /// Time for a whole update.
    time: Duration,
}

impl InFlight {
    /// Memory for `bytes`, but at least for one message of the longest length.
    pub(crate) fn new(bytes: usize, longest: usize, time: Duration) -> Self {
        let units = bytes.max(longest).div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units)),
            total: Arc::new(AtomicUsize::new(units)),
            longest: Arc::new(AtomicUsize::new(longest)),
            time,
        }
    }

    /// Longest message of a client in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// A model came whose updates are of this length. The limit never falls: an update of the model before may be on its
    /// way.
    pub(crate) fn make_room(&self, longest: usize) {
        self.longest.fetch_max(longest, Ordering::Relaxed);
        let needed = longest.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        let before = self.total.fetch_max(needed, Ordering::Relaxed);
        self.units.add_permits(needed.saturating_sub(before));
    }

    /// Waits for the share of a message of so many bytes, whose first frame has come; `waiting` is called now and then
    /// meanwhile.
    pub(crate) async fn take(&self, bytes: usize, waiting: impl Fn()) -> Upload {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let share = Arc::clone(&self.units).acquire_many_owned(units);
        tokio::pin!(share);
        let share = loop {
            tokio::select! {
                // It is never closed.
                share = &mut share => break share.ok(),
                () = sleep(BEAT) => waiting(),
            }
        };
        Upload { _share: share, begun: Instant::now(), bytes, time: self.time }
    }
}

/// A long message in progress, and after it what the room does with it.
#[derive(Debug)]
pub(crate) struct Upload {
    _share: Option<OwnedSemaphorePermit>,
    begun: Instant,
    bytes: usize,
    time: Duration,
}

impl Upload {
    /// Part of the time for which nothing need come: a wireless network may pause.
    const PAUSE: f64 = 1.0 / 6.0;

    /// When more must have come than these bytes. The whole has all of the time, each part its part of it: whoever sends
    /// a byte now and then is found out long before the end.
    pub(crate) fn due(&self, received: u64) -> Instant {
        let part = (received as f64 / self.bytes.max(1) as f64).min(1.0);
        self.begun + self.time.mul_f64(Self::PAUSE + (1.0 - Self::PAUSE) * part)
    }

    /// Why a socket is closed that has sent no more than these bytes when it is [due](Self::due).
    pub(crate) fn reproach(&self, received: u64) -> String {
        format!(
            "only {} of {} kB of its update came within {:.1} s; a whole one has {} s",
            received / 1000,
            self.bytes / 1000,
            self.begun.elapsed().as_secs_f64(),
            self.time.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::timeout;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn whoever_comes_too_many_waits_and_says_so() {
        let in_flight = InFlight::new(10_000_000, 1, MINUTE);
        let first = in_flight.take(6_000_000, || {}).await;
        let beats = AtomicU32::new(0);
        let second = in_flight.take(6_000_000, || {
            beats.fetch_add(1, Ordering::Relaxed);
        });
        tokio::pin!(second);
        assert!(timeout(BEAT * 3 / 2, &mut second).await.is_err());
        assert!(beats.load(Ordering::Relaxed) >= 1);
        drop(first);
        assert!(timeout(MINUTE, second).await.is_ok());
    }

    #[tokio::test]
    async fn the_longest_message_always_fits() {
        let in_flight = InFlight::new(0, 5_000_000, MINUTE);
        assert!(timeout(MINUTE, in_flight.take(5_000_000, || {})).await.is_ok());
    }

    #[tokio::test]
    async fn a_larger_model_has_room() {
        let in_flight = InFlight::new(0, 1_000_000, MINUTE);
        let first = in_flight.take(1_000_000, || {}).await;
        in_flight.make_room(5_000_000);
        in_flight.make_room(2_000_000);
        assert_eq!(in_flight.longest(), 5_000_000);
        drop(first);
        assert!(timeout(MINUTE, in_flight.take(5_000_000, || {})).await.is_ok());
    }

    #[tokio::test]
    async fn time_grows_with_what_came() {
        let upload = InFlight::new(1000, 1000, MINUTE).take(1000, || {}).await;
        let after = |received| upload.due(received).duration_since(upload.begun).as_secs_f64().round();
        assert_eq!([0, 500, 1000, 2000].map(after), [10.0, 35.0, 60.0, 60.0]);
    }
}
