use std::{
    fmt::Display,
    io::{self, Write},
    thread,
};

/// Reports that the running test cannot run on this machine, and why; `cargo check-all` lists it in its summary.
/// Bypasses the output capture of the test harness, which only shows the output of failed tests.
pub fn skipped(reason: impl Display) {
    let line = format!("skipped: {}: {reason}\n", thread::current().name().unwrap_or("main"));
    let _ = io::stdout().lock().write_all(line.as_bytes());
}
