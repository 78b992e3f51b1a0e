//! The room's clock.

use unmask_room::{Moment, Now};
use web_time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(super) fn now(self) -> Now {
        Now { moment: Moment::after(self.began.elapsed()), unix: (js_sys::Date::now() / 1000.0) as u64 }
    }
}
