//! A real relay and real browsers, for the end-to-end tests.

mod axe;
mod browser;
mod driver;
mod line;
mod process;
mod relay;
mod screen;
mod skipped;
#[allow(dead_code, reason = "the tests of the federation itself use more of it")]
pub mod superlink;

pub use axe::assert_accessible;
pub use browser::{Browser, Scheme, Tab};
pub use driver::Shield;
pub use line::Line;
pub use process::{Frozen, are_gone, with_descendants};
pub use relay::{Relay, Robot, robot, robot_at, robot_with_passphrase};
pub use skipped::skipped;

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// Software WebGPU on two shared cores is slow; anything that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(240);

/// Interval of polling. A test waits for dozens of conditions in sequence, and each costs half of this on average.
const LOOK: Duration = Duration::from_millis(40);

/// Polls until `look` returns a value.
pub async fn wait_for<T, F: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> F) -> T {
    in_time(look).await.unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// Like [`wait_for`], for callers with a better error message.
async fn in_time<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(answer) = look().await {
            return Some(answer);
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}
