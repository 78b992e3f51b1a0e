//! The command line: arguments in, one of the crates called, exit code out.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod data;
mod device;
mod display;
mod handbook;
mod interrupt;
mod invert;
mod join;
mod journal;
mod matrix;
mod model;
mod part;
mod progress;
mod record;
mod relay;
mod replay;
mod reproduce;
mod sweep;
mod train;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::LazyLock,
    time::Duration,
};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource};
use tracing_subscriber::EnvFilter;
use unmask_core::Architecture;
use unmask_experiments::ExperimentError;
use unmask_simulation::Commit;

/// Of a room that many clients come to and leave, glibc keeps what they needed at once; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    commit().map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
});

const FIRST_STEPS: &str = "\
First steps:

    unmask relay --open --headless 4     a room with four clients of this machine; press Start in the browser
    unmask relay --help                  defences, rules, data and all else a room is opened with
    unmask help invert                   how to dump a gradient in PyTorch, and attack it";

/// A classroom in which federated learning leaks, and then stops leaking.
#[derive(Debug, Parser)]
#[command(name = "unmask", version = VERSION.as_str(), propagate_version = true, after_help = FIRST_STEPS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open a room: serve the page, run rounds, attack what comes in.
    Relay(relay::Relay),
    /// Say what the journal of a relay holds that is not running.
    Journal(journal::Journal),
    /// Play a recorded lesson in the browser, without a room.
    Replay(replay::Replay),
    /// Record a lesson that clients of this machine take by themselves.
    Record(record::Record),
    /// Join a room as a headless client, with pictures from a folder.
    Join(join::Join),
    /// Recover the private picture from a gradient dumped by any framework.
    Invert(invert::Invert),
    /// Try every attack on pictures of yours under every defence, and make one page of it.
    Matrix(matrix::Matrix),
    /// Get pictures to learn from, and look at them.
    #[command(subcommand)]
    Data(data::Data),
    /// Train a model with simulated clients, from a config file.
    Train(train::Train),
    /// Train with every combination of some values of a config, each with several seeds, and compare.
    Sweep(sweep::Sweep),
    /// Repeat the papers' experiments, each with a report.
    Reproduce(reproduce::Reproduce),
    Merge(part::Merge),
    Completions(handbook::Completions),
    Man(handbook::Man),
}

/// Why a command did not do its work.
#[derive(Debug)]
enum Failure {
    /// What the user gave cannot work: exit code 2, like a wrong argument.
    Input(anyhow::Error),
    /// Something else went wrong: exit code 1.
    Other(anyhow::Error),
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        if error.is_input() { Self::Input(error.into()) } else { Self::Other(error.into()) }
    }
}

/// Longest wait for what a command leaves behind.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Runs a command that waits for the network, with its log on standard error.
fn run_async(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,wgpu_core=warn,wgpu_hal=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Other(error.into()))?;
    let outcome = runtime.block_on(command);
    // Long enough for what is to be written; whoever stops a command does not wait for a training that nobody will hear of.
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match arguments.command {
        Command::Relay(relay) => run_async(relay.run(given(&matches))),
        Command::Journal(journal) => journal.run(),
        Command::Replay(replay) => replay.run(),
        Command::Record(record) => run_async(record.run()),
        Command::Join(join) => run_async(join.run()),
        Command::Invert(invert) => invert.run(),
        Command::Matrix(matrix) => matrix.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Merge(merge) => merge.run(),
        Command::Data(data) => data.run(),
        Command::Train(train) => train.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man(man) => man.run(Arguments::command()),
    };
    let (error, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(error)) => (error, 2),
        Err(Failure::Other(error)) => (error, 1),
    };
    eprintln!("unmask: {}", one_line(&error));
    ExitCode::from(code)
}

/// The flags of the subcommand that are on the command line, such as `--model`.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids = matches.ids().map(|id| id.as_str());
    ids.filter(is_given).map(|id| format!("--{}", id.replace('_', "-"))).collect()
}

/// An error and its causes on one line. Many libraries repeat a cause in the message of its effect; once is enough.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line += if line.is_empty() { "" } else { ": " };
            line += &cause;
        }
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the program was built from; unknown where that was no checkout.
fn commit() -> Option<Commit> {
    let sha = option_env!("VERGEN_GIT_SHA")?.to_owned();
    Some(Commit { sha, has_local_changes: option_env!("VERGEN_GIT_DIRTY") == Some("true") })
}

/// The model with the block that APRIL needs, if that is asked for.
fn with_april_block(model: Architecture, is_asked: bool) -> anyhow::Result<Architecture> {
    Ok(model.with_asked_april_block(is_asked)?)
}

/// Prints `text`, which may be read by somebody who stops in the middle, such as `head`.
fn say(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// `1 round`, `2 rounds`: a number with the noun that it counts.
fn counted(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_from_defaults() {
        let line = ["unmask", "relay", "--model", "vit_pico_patch4_16", "--april-block", "--seed", "3"];
        let given = given(&Arguments::command().try_get_matches_from(line).unwrap());
        for flag in ["--model", "--april-block", "--seed"] {
            assert!(given.iter().any(|given| given == flag), "{flag} in {given:?}");
        }
        assert!(!given.iter().any(|given| given == "--defence"), "{given:?}");
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0_u32, 1, 2].map(|number| counted(number, "client")), ["0 clients", "1 client", "2 clients"]);
    }

    #[test]
    fn a_cause_is_told_once_and_on_one_line() {
        let error =
            anyhow::anyhow!("no such file").context("weights.safetensors: no such file").context("cannot\nread");
        assert_eq!(one_line(&error), "cannot read: weights.safetensors: no such file");
    }
}
