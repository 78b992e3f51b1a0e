//! One test, one benchmark, one example, of what is built already.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::steps::native;

/// Run some of the native tests, with the dependencies that `check-all` has built.
///
/// Examples:
///   cargo xtask test                          all unit tests (those beside the code)
///   cargo xtask test mask                     the unit tests with "mask" in their names
///   cargo xtask test --test rounds            all of tests/rounds.rs, whichever crate has it
///   cargo xtask test --test rounds late       those of it with "late" in their names
///   cargo xtask test --test parity -- --nocapture
///
/// `--test lessons` needs the page: `cargo xtask check-all --only page` builds it.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Test {
    /// Integration tests instead of unit tests: the name of a file in a folder `tests` (may be given more than once)
    #[arg(long = "test", value_name = "NAME")]
    files: Vec<String>,
    /// Run only tests that have one of these words in their names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Passed on to the test programs, for example `--nocapture` or `--ignored`
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Measure one benchmark, with the dependencies that `check-all` has built.
///
/// Examples:
///   cargo xtask bench step                    a training step of each model
///   cargo xtask bench closed_forms april      what has "april" in its name
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Bench {
    /// The name of a file in a folder `benches`
    name: String,
    /// Measure only what has this word in its name
    filter: Option<String>,
}

/// Run one of the examples, with the dependencies that `check-all` has built.
///
/// `room` opens one in a single process, `client` joins one, `invert` attacks a dumped gradient; the head of each file in
/// `examples` shows its arguments.
#[derive(Args)]
pub struct Example {
    /// The name of a file in a folder `examples`
    name: String,
    /// Passed on to the example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Test {
    /// Runs what was asked for; fails where a test fails.
    pub fn run(&self, env: &Env) -> Result<()> {
        env::run(&mut self.command(env))
    }

    fn command(&self, env: &Env) -> Command {
        let mut command = native(env, "test", &["--no-fail-fast"]);
        if self.files.is_empty() {
            command.args(["--lib", "--bins"]);
        }
        for file in &self.files {
            command.args(["--test", file]);
        }
        command.arg("--").args(&self.filters).args(&self.options);
        command
    }
}

impl Bench {
    /// Builds and runs the benchmark.
    pub fn run(&self, env: &Env) -> Result<()> {
        // In this profile by default, and without the word `--release`.
        let mut command = env.command("cargo");
        command.args(["bench", "--workspace", "--bench", &self.name]).arg("--").args(&self.filter);
        env::run(&mut command)
    }
}

impl Example {
    /// Builds the example, then becomes it: in the user's folder, which the paths among its arguments are meant from.
    pub fn run(&self, env: &Env, turn: Turn) -> Result<ExitCode> {
        env::run(&mut native(env, "build", &["--example", &self.name]))?;
        drop(turn);
        let program = env.release_binary(&format!("examples/{}", self.name));
        let mut command = Command::new(program);
        command.args(&self.arguments);
        env::become_process(command).with_context(|| format!("example {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        test: Test,
    }

    fn cargo_line(words: &[&str]) -> String {
        let words = std::iter::once("test").chain(words.iter().copied());
        let Line { test } = Line::try_parse_from(words).expect("a valid command line");
        let command = test.command(&Env::detect().expect("a home"));
        command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_choice_of_tests_builds_the_whole_workspace() {
        let all = "test --release --workspace --no-fail-fast";
        assert_eq!(cargo_line(&["mask"]), format!("{all} --lib --bins -- mask"));
        assert_eq!(
            cargo_line(&["--test", "rounds", "--test", "rules", "late", "--", "--nocapture"]),
            format!("{all} --test rounds --test rules -- late --nocapture")
        );
    }
}
