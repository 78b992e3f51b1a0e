//! A screen without a monitor, for a browser that cannot do without one.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::process::signal;

/// Larger than every window of the tests.
const SIZE: &str = "2000x1700x24";

/// A running X server; stopped when dropped.
pub struct Screen {
    server: Child,
    /// The value of `DISPLAY`.
    pub name: String,
}

impl Screen {
    /// Starts a server, which picks a free number and prints it when it is ready.
    pub fn start() -> Self {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", SIZE, "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("Xvfb does not start ({error}); `cargo xtask setup` installs it"));
        let mut number = String::new();
        let output = server.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut number).expect("Xvfb prints a line");
        assert!(!number.trim().is_empty(), "Xvfb ended immediately: run `Xvfb -displayfd 1` to see why");
        Self { server, name: format!(":{}", number.trim()) }
    }

    pub fn process(&self) -> u32 {
        self.server.id()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A killed server leaves its lock and its socket in /tmp.
        signal("-TERM", self.server.id());
        let _ = self.server.wait();
    }
}
