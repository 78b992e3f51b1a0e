//! Time, as the room's host tells it.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A moment on the host's clock, which never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The beginning of the clock. What is due then is due at once.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment at this time after the beginning of the clock.
    pub const fn after(time: Duration) -> Self {
        Self(time)
    }

    /// The time since the beginning of the clock.
    pub const fn time(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

/// The time since an earlier moment; zero since a later one.
impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// When an input arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    pub moment: Moment,
    /// The time of day in seconds since 1970. People may set it, forward or back.
    pub unix: u64,
}
