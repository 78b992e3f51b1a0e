//! A program that waits for requests.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Prints its version on the first line, and answers each line on stdin with a line of milliseconds. Killed when
/// dropped.
pub struct Peer {
    pub version: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the program and waits until it is ready.
    ///
    /// # Errors
    /// It cannot start, or ends immediately; its stderr says why.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().display().to_string();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{name} has no stdin or stdout");
        };
        let mut peer = Self { version: name, child, input, output: BufReader::new(output) };
        peer.version = peer.line()?;
        Ok(peer)
    }

    /// Returns the milliseconds of each step that `request` asks for.
    ///
    /// # Errors
    /// The program has ended, or prints something else.
    pub fn ask(&mut self, request: &str) -> Result<Vec<f64>> {
        writeln!(self.input, "{request}")
            .and_then(|()| self.input.flush())
            .with_context(|| format!("{} has ended", self.version))?;
        let line = self.line()?;
        milliseconds(&line).with_context(|| format!("{} was asked for {request:?}", self.version))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let count =
            self.output.read_line(&mut line).with_context(|| format!("cannot read the output of {}", self.version))?;
        ensure!(count > 0, "{} ended before it answered", self.version);
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to lose.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn milliseconds(line: &str) -> Result<Vec<f64>> {
    let times: Vec<f64> = line
        .split_whitespace()
        .map(|word| {
            let time = word.parse::<f64>().ok().filter(|time| time.is_finite() && *time > 0.0);
            time.with_context(|| format!("{word:?} is not a time"))
        })
        .collect::<Result<_>>()?;
    ensure!(!times.is_empty(), "there are no times");
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_positive_numbers() {
        assert_eq!(milliseconds("1.5 20 0.25").expect("three"), [1.5, 20.0, 0.25]);
        for line in ["", "1.5 fast", "NaN", "inf", "0.0000", "-1"] {
            assert!(milliseconds(line).is_err(), "{line:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_program_is_asked_again_and_again() {
        let script = "echo one 1.0; while read model batch steps; do echo $batch $steps; done";
        let mut peer = Peer::start(Command::new("sh").args(["-c", script])).expect("a program");
        assert_eq!(peer.version, "one 1.0");
        assert_eq!(peer.ask("vit 1 25").expect("an answer"), [1.0, 25.0]);
        assert_eq!(peer.ask("vit 16 3").expect("an answer"), [16.0, 3.0]);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_ends_is_named() {
        let Err(error) = Peer::start(Command::new("sh").args(["-c", "exit 3"])) else { panic!("it says nothing") };
        assert_eq!(error.to_string(), "sh ended before it answered");
        let mut peer = Peer::start(Command::new("sh").args(["-c", "echo two 2.0; read line"])).expect("a program");
        let error = peer.ask("vit 1 1").expect_err("it does not answer").to_string();
        assert_eq!(error, "two 2.0 ended before it answered");
    }
}
