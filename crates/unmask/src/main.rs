//! The command line: parses arguments, calls a crate and sets the exit code.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod audit;
mod canaries;
mod data;
mod device;
mod display;
mod double_click;
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

/// In a room where many clients join and leave, glibc keeps the memory of the peak. mimalloc returns it to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    commit().map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
});

const FIRST_STEPS: &str = "\
First steps:

    unmask relay --open --headless 4     a room with four clients of this machine; press Space in the browser
    unmask relay --help                  defences, rules, data and all other options of a room
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
    /// Open a room: serve the page, run rounds, attack the updates.
    Relay(relay::Relay),
    /// Show what the journal of a stopped relay holds.
    Journal(journal::Journal),
    /// Play a recorded lesson in the browser, without a room.
    Replay(replay::Replay),
    /// Record a lesson with headless clients on this machine.
    Record(record::Record),
    /// Join a room as a headless client, with pictures from a folder.
    Join(join::Join),
    /// Recover the private picture from a gradient dumped by any framework.
    Invert(invert::Invert),
    /// Predict what a federation gives away, try it, and write one page for people who do not program.
    Audit(audit::Audit),
    /// Run every attack under every defence on your pictures, and write one page of results.
    Matrix(matrix::Matrix),
    /// Get data sets, and look at them.
    #[command(subcommand)]
    Data(data::Data),
    /// Train a model with simulated clients, from a config file.
    Train(train::Train),
    /// Train with every combination of the given config values, each with several seeds, and compare.
    Sweep(sweep::Sweep),
    /// Repeat the papers' experiments, each with a report.
    Reproduce(reproduce::Reproduce),
    Merge(part::Merge),
    Completions(handbook::Completions),
    Man(handbook::Man),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The user's input cannot work: exit code 2, like a wrong argument.
    Input(anyhow::Error),
    /// Another failure: exit code 1.
    Other(anyhow::Error),
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        if error.is_input() { Self::Input(error.into()) } else { Self::Other(error.into()) }
    }
}

/// Longest wait for background tasks after a command ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Runs a command that waits for the network, and logs to standard error.
fn run_async(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,wgpu_core=warn,wgpu_hal=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        // The window of a double click on Windows 10 prints the codes of colours as they are.
        .with_ansi(!cfg!(windows) && io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Other(error.into()))?;
    let outcome = runtime.block_on(command);
    // Long enough to finish writes. The user who stops a command should not wait for a training step whose result is
    // discarded.
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

fn main() -> ExitCode {
    let is_double_click = double_click::is_one();
    let matches = if is_double_click {
        say(double_click::WELCOME);
        Arguments::command().get_matches_from(double_click::LESSON)
    } else {
        Arguments::command().get_matches()
    };
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match arguments.command {
        Command::Relay(relay) => run_async(relay.run(given(&matches))),
        Command::Journal(journal) => journal.run(),
        Command::Replay(replay) => replay.run(),
        Command::Record(record) => run_async(record.run()),
        Command::Join(join) => run_async(join.run()),
        Command::Invert(invert) => invert.run(),
        Command::Audit(audit) => audit.run(),
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
    if is_double_click {
        double_click::wait_for_reader();
    }
    ExitCode::from(code)
}

/// The subcommand's flags that were given on the command line, such as `--model`.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids = matches.ids().map(|id| id.as_str());
    ids.filter(is_given).map(|id| format!("--{}", id.replace('_', "-"))).collect()
}

/// An error and its causes on one line. Many libraries repeat a cause in the message of its effect; it is printed once.
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

/// The commit that the program was built from; `None` if it was not built from a checkout.
fn commit() -> Option<Commit> {
    let sha = option_env!("VERGEN_GIT_SHA")?.to_owned();
    Some(Commit { sha, has_local_changes: option_env!("VERGEN_GIT_DIRTY") == Some("true") })
}

fn with_april_block(model: Architecture, is_asked: bool) -> anyhow::Result<Architecture> {
    Ok(model.with_asked_april_block(is_asked)?)
}

/// Prints `text` and ignores a closed pipe, such as one to `head`.
fn say(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// A number with its noun: `1 round`, `2 rounds`.
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
