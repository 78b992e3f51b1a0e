//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 if the clock is set to an earlier time.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
