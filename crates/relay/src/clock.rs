//! The relay's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use unmask_room::{Moment, Now};

/// Tells the room the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn now(self) -> Now {
        Now { moment: self.moment(), unix: unix_now() }
    }

    pub(crate) fn moment(self) -> Moment {
        Moment::after(self.began.elapsed())
    }

    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.began + moment.time()
    }
}

/// Seconds since 1970; 0 if the clock is set to an earlier time.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
