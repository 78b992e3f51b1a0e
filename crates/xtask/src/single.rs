//! Runs one test, benchmark, example or trial with the dependencies that are already built.

use std::ffi::OsStr;
use std::ops::Range;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::browser::Other;
use crate::cargo::native;
use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::{leftovers, page, python, tidy};

/// The integration tests with a Flower SuperLink.
const FLOWER: &str = "flower";
/// One of these needs the SuperLink too.
const LESSONS: &str = "lessons";
/// The tests of runs in parts, one of them under HyperQueue.
const PARTS: &str = "parts";

/// Run some of the native tests, with the dependencies that `check-all` has built.
///
/// Examples:
///   cargo xtask test                          all unit tests (those beside the code)
///   cargo xtask test mask                     the unit tests with "mask" in their names
///   cargo xtask test --test room              all of tests/room, in any crate
///   cargo xtask test --test room silent       those with "silent" in their names
///   cargo xtask test --test model parity -- --nocapture
///
/// `--test lessons` needs the page: `cargo xtask check-all --only page` builds it.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Test {
    /// Integration tests instead of unit tests: the name of a file or folder in a folder `tests` (may be given more
    /// than once)
    #[arg(long = "test", value_name = "NAME")]
    files: Vec<String>,
    /// Run only tests with one of these words in their names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Passed on to the test programs, for example `--nocapture` or `--ignored`
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// The end-to-end tests that another browser than Chromium is to run.
#[derive(Args)]
pub struct Lessons {
    /// Run only tests with one of these words in their names, for example `stage`; without one, all tests
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

/// Run one benchmark, with the dependencies that `check-all` has built.
///
/// Examples:
///   cargo xtask bench step                    a training step of each model
///   cargo xtask bench closed_forms april      only measurements with "april" in their names
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
/// `room` opens a room in a single process, `client` joins one, `invert` attacks a dumped gradient, `reproduce` and
/// `completion` repeat tables of the documents. The first lines of each file in `examples` show its arguments.
#[derive(Args)]
pub struct Example {
    /// The name of a file in a folder `examples`
    name: String,
    /// Passed on to the example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Kill a real relay again and again, and check that it resumes.
///
/// Each time it must resume within 5 s from the weights of the last commit, bit for bit, and lose at most one round.
/// The seed determines the times of the kills. The checks do the same with 20 kills.
#[derive(Args)]
pub struct Chaos {
    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 200)]
    kills: u32,
    /// Seed of the times of the kills
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

impl Test {
    /// Runs the chosen tests; fails if a test fails.
    pub fn run(&self, env: &Env) -> Result<()> {
        let mut command = self.command(env);
        if self.files.iter().any(|file| file == FLOWER || file == LESSONS) {
            python::with_flower(env, &mut command)?;
        }
        if self.files.iter().any(|file| file == PARTS) {
            python::with_hyperqueue(env, &mut command)?;
        }
        let outcome = env::run(&mut command);
        leftovers::end_and_say(&env.mark);
        outcome
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

impl Lessons {
    /// Builds the page and runs the tests; fails if a test fails.
    pub fn run(&self, env: &Env, browser: Other) -> Result<()> {
        browser.require(env)?;
        page::build(env)?;
        let outcome = env::run(lessons(env, &self.filters).env("UNMASK_BROWSER", browser.name()));
        leftovers::end_and_say(&env.mark);
        outcome
    }
}

/// Runs the room's simulation for these seeds, and prints what they reached.
pub fn simulate(env: &Env, seeds: Range<u64>) -> Result<()> {
    let mut command = native(env, "test", &["--test", "simulation", "rooms_hold", "--", "--nocapture"]);
    env::run(command.env("UNMASK_SEEDS", format!("{}..{}", seeds.start, seeds.end)))
}

/// Takes the screenshots of README and docs: plays a lesson in Chromium, and draws the generated classes.
pub fn screenshots(env: &Env) -> Result<()> {
    page::build(env)?;
    let outcome = env::run(lessons(env, &[PICTURES]).args(["--ignored", "--nocapture"]));
    leftovers::end_and_say(&env.mark);
    outcome?;
    let unmask = env.release_binary("unmask");
    let sheet = env.root.join("docs/images/generated.png");
    env::run(env.command(&unmask.to_string_lossy()).args(["data", "show", "generated", "--out"]).arg(sheet))?;
    tidy::pictures::record(env)
}

/// The test that takes the pictures.
const PICTURES: &str = "pictures::of_the_whole_lesson";

fn lessons(env: &Env, filters: &[impl AsRef<OsStr>]) -> Command {
    let mut command = native(env, "test", &["--no-fail-fast", "--test", LESSONS, "--"]);
    command.args(filters);
    command
}

impl Chaos {
    /// Runs the trial, which prints a line for each kill.
    pub fn run(&self, env: &Env) -> Result<()> {
        let outcome = env::run(&mut self.command(env));
        leftovers::end_and_say(&env.mark);
        outcome
    }

    fn command(&self, env: &Env) -> Command {
        let mut command = native(env, "test", &["--test", "chaos"]);
        command.args(["--", "a_killed_relay_goes_on", "--nocapture"]);
        command.env("UNMASK_KILLS", self.kills.to_string()).env("UNMASK_CHAOS_SEED", self.seed.to_string());
        command
    }
}

impl Bench {
    pub fn run(&self, env: &Env) -> Result<()> {
        // `cargo bench` uses this profile by default and has no `--release`.
        let mut command = env.command("cargo");
        command.args(["bench", "--workspace", "--bench", &self.name]).arg("--").args(&self.filter);
        env::run(&mut command)
    }
}

impl Example {
    /// Builds the example, then becomes it in the user's folder, so that relative paths among its arguments work.
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

    /// Cargo refuses to run a missing test file, but libtest silently runs nothing for a missing name.
    #[test]
    fn the_trial_is_there() {
        let command = Chaos { kills: 3, seed: 1 }.command(&Env::detect().expect("a home"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let file = format!("{}/../unmask/tests/chaos.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&file).expect("the trial");
        assert!(words.iter().any(|word| source.contains(&format!("fn {word}()"))), "{words:?}");
    }

    #[test]
    fn the_pictures_are_taken_by_a_test_that_is_there() {
        let (file, name) = PICTURES.split_once("::").expect("a module and a test");
        let path = format!("{}/../../tests/{file}.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&path).expect("the module");
        assert!(source.contains(&format!("async fn {name}()")), "{path}");
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
