//! Limits the memory of updates in flight and sets their minimum speed.

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
/// How often a reader that waits for memory reports a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// The memory budget for updates in flight over all sockets, and the maximum message length.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    units: Arc<Semaphore>,
    /// Number of units, taken or free.
    total: Arc<AtomicUsize>,
    /// Maximum length of a client message in bytes.
    longest: Arc<AtomicUsize>,
    time: Duration,
}

impl InFlight {
    /// Reserves `bytes`, or enough for one message of the longest length if that is more.
    pub(crate) fn new(bytes: usize, longest: usize, time: Duration) -> Self {
        let units = bytes.max(longest).div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units)),
            total: Arc::new(AtomicUsize::new(units)),
            longest: Arc::new(AtomicUsize::new(longest)),
            time,
        }
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// Raises the limits for a model with updates of this length. They never fall, since an update of the previous
    /// model may be in flight.
    pub(crate) fn make_room(&self, longest: usize) {
        self.longest.fetch_max(longest, Ordering::Relaxed);
        let needed = longest.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        let before = self.total.fetch_max(needed, Ordering::Relaxed);
        self.units.add_permits(needed.saturating_sub(before));
    }

    /// Waits for memory for a message of `bytes` after its first frame; calls `waiting` periodically.
    pub(crate) async fn take(&self, bytes: usize, waiting: impl Fn()) -> Upload {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let share = Arc::clone(&self.units).acquire_many_owned(units);
        tokio::pin!(share);
        let share = loop {
            tokio::select! {
                // The semaphore is never closed.
                share = &mut share => break share.ok(),
                () = sleep(BEAT) => waiting(),
            }
        };
        Upload { _share: share, begun: Instant::now(), bytes, time: self.time }
    }
}

/// A long message, from its first frame until the room has processed it.
#[derive(Debug)]
pub(crate) struct Upload {
    _share: Option<OwnedSemaphorePermit>,
    begun: Instant,
    bytes: usize,
    time: Duration,
}

impl Upload {
    /// Fraction of the time during which nothing needs to arrive, since a wireless network may pause.
    const PAUSE: f64 = 1.0 / 6.0;

    /// Returns when more than `received` bytes must have arrived. The time grows with the bytes, so a peer that
    /// trickles is caught long before the end.
    pub(crate) fn due(&self, received: u64) -> Instant {
        let part = (received as f64 / self.bytes.max(1) as f64).min(1.0);
        self.begun + self.time.mul_f64(Self::PAUSE + (1.0 - Self::PAUSE) * part)
    }

    /// Returns why a socket is closed that has sent only `received` bytes when more are [due](Self::due).
    pub(crate) fn reproach(&self, received: u64) -> SlowUpdate {
        SlowUpdate { received, bytes: self.bytes, after: self.begun.elapsed(), time: self.time }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "only {} of {} kB of its update came within {:.1} s; a whole one has {} s",
    .received / 1000, .bytes / 1000, .after.as_secs_f64(), .time.as_secs_f64()
)]
pub(crate) struct SlowUpdate {
    received: u64,
    bytes: usize,
    after: Duration,
    time: Duration,
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
