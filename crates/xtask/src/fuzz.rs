//! Coverage-guided fuzzing with a stable toolchain.
//!
//! A fuzzer learns which inputs reach new code from a pass of LLVM, which stable rustc runs when told its name. Cargo
//! calls this program instead of rustc for our own crates. Only the crates listed here are compiled with
//! the pass, and all dependencies are reused from earlier builds.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::native;
use crate::env::{self, Env};
use crate::{apt, leftovers, rustc};

/// Crates that handle what clients send and users bring, and the crate that calls them, because generic code is compiled
/// there.
const INSTRUMENTED: [&str; 8] = [
    "unmask_core",
    "unmask_defence",
    "unmask_federation",
    "unmask_fuzz",
    "unmask_inversion",
    "unmask_room",
    "unmask_tensors",
    "unmask_wire",
];

/// Those that parse bytes. The others compare numbers, sixty thousand in each update.
const READING: [&str; 3] = ["unmask_fuzz", "unmask_tensors", "unmask_wire"];

/// A counter for each edge, and a debug build's checks, so that an overflow counts as a failure.
const COUNTERS: [&str; 6] = [
    "passes=sancov-module",
    "llvm-args=-sanitizer-coverage-level=3",
    "llvm-args=-sanitizer-coverage-inline-8bit-counters",
    "llvm-args=-sanitizer-coverage-pc-table",
    "debug-assertions=on",
    "overflow-checks=on",
];

/// Traces comparisons, which tells the fuzzer about constants such as the magic bytes of a frame.
const COMPARISONS: &str = "llvm-args=-sanitizer-coverage-trace-compares";

const TARGETS: [&str; 6] = ["frames", "rounds", "session", "safetensors", "numpy", "pickle"];

/// Look for bytes that break the room or the readers of files, guided by coverage
///
/// Examples:
///   cargo xtask fuzz                          every target, a minute each in turn, until you stop it
///   cargo xtask fuzz --seconds 10             every target for 10 seconds
///   cargo xtask fuzz frames --runs 100000000  one target, this many inputs
///   cargo xtask fuzz frames --input FILE      one input again, such as one that broke something
///
/// `frames`: bytes to messages. `rounds`: messages to the state machine of the rounds. `session`: frames of several
/// sockets to a room. `safetensors`, `numpy` and `pickle`: files of tensors. Useful inputs are kept in the
/// target folder, and the next run starts from them. Needs a C++ compiler.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Fuzz {
    /// The targets; by default all of them
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
    /// Seconds for each target
    #[arg(long, value_name = "N", conflicts_with = "runs")]
    seconds: Option<u32>,
    /// Number of inputs for each target
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Run only this input file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "seconds"])]
    input: Option<PathBuf>,
    /// Whether a run starts only from the built-in inputs. The kept inputs grow with every run, and libFuzzer reads all
    /// of them before it checks the time.
    #[arg(skip)]
    is_short: bool,
}

/// When to stop a target.
#[derive(Clone, Copy)]
enum Until {
    Seconds(u32),
    Runs(u64),
}

/// Statistics that libFuzzer printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Statistics {
    executions: u64,
    /// Edges of the instrumented crates that inputs have reached.
    edges: u64,
    /// Inputs kept because each reaches code that no other does.
    corpus: u64,
}

impl Fuzz {
    /// Every target for some seconds, from the built-in inputs only, as the checks run it.
    pub fn for_seconds(seconds: u32) -> Self {
        Self { targets: Vec::new(), seconds: Some(seconds), runs: None, input: None, is_short: true }
    }

    /// Fuzzes until the time or the number of inputs is reached, or something breaks.
    pub fn run(&self, env: &Env) -> Result<()> {
        let program = build(env)?;
        let all = TARGETS.map(str::to_owned);
        let targets = if self.targets.is_empty() { &all[..] } else { &self.targets };
        if let Some(input) = &self.input {
            let path = std::path::absolute(input).with_context(|| format!("{} is not a path", input.display()))?;
            return targets.iter().try_for_each(|target| {
                env::run(env.command(&program.to_string_lossy()).env("UNMASK_FUZZ_TARGET", target).arg(&path))
            });
        }
        let until = match (self.seconds, self.runs) {
            (Some(seconds), _) => Some(Until::Seconds(seconds)),
            (None, Some(runs)) => Some(Until::Runs(runs)),
            (None, None) => None,
        };
        let mut executions = 0;
        loop {
            for target in targets {
                let folder = env.target_dir.join("fuzz").join(target);
                let corpus = if self.is_short { emptied(folder.join("short"))? } else { folder.join("corpus") };
                let until = until.unwrap_or(Until::Seconds(60));
                executions += fuzz(env, &program, target, &folder, &corpus, until)?.executions;
            }
            println!("{executions} executions in all, and nothing broke");
            if until.is_some() {
                return Ok(());
            }
        }
    }
}

/// Builds the fuzzer with the crates under test instrumented.
fn build(env: &Env) -> Result<PathBuf> {
    if !apt::has_cpp_compiler(env) {
        bail!("libFuzzer is written in C++, and there is no compiler for it: `sudo apt-get install -y g++`");
    }
    let mut command = native(env, "build", &["--features", "unmask-fuzz/libfuzzer", "--example", "fuzz"]);
    env::run(rustc::for_fuzzer(&mut command)?)?;
    Ok(env.release_binary("examples/fuzz"))
}

fn emptied(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(folder)
}

/// Fuzzes one target and prints the result. Starts from the inputs in `corpus` and adds to them. An input that breaks
/// something is written to `folder`.
fn fuzz(env: &Env, program: &Path, target: &str, folder: &Path, corpus: &Path, until: Until) -> Result<Statistics> {
    fs::create_dir_all(corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let mut command = env.command(&program.to_string_lossy());
    command
        .arg(corpus)
        .arg(format!("-artifact_prefix={}/", folder.display()))
        .args(["-print_final_stats=1", "-timeout=30", "-rss_limit_mb=1024", "-max_len=4096"])
        .arg(match until {
            Until::Seconds(seconds) => format!("-max_total_time={seconds}"),
            Until::Runs(runs) => format!("-runs={runs}"),
        })
        .env("UNMASK_FUZZ_TARGET", target)
        .env("UNMASK_FUZZ_SEEDS", corpus);
    println!("\nFuzzing {target}; inputs are kept in {}", corpus.display());
    let statistics = watch(&mut command).with_context(|| {
        format!(
            "{target}: the input that broke it is in {}; `cargo xtask fuzz {target} --input FILE` repeats it",
            folder.display()
        )
    })?;
    let Statistics { executions, edges, corpus } = statistics;
    println!("{target}: {executions} executions, {edges} edges reached, {corpus} inputs kept");
    if edges == 0 || executions == 0 {
        bail!("{target}: nothing was counted: the crates were not instrumented");
    }
    Ok(statistics)
}

/// Runs libFuzzer and shows its output; a line starts like `#8192 pulse cov: 512 ft: 900 corp: 70/12Kb`.
fn watch(command: &mut Command) -> Result<Statistics> {
    leftovers::wait_if_interrupted();
    let mut child = command.stderr(Stdio::piped()).spawn().context("the fuzzer does not start")?;
    let mut statistics = Statistics::default();
    if let Some(output) = child.stderr.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            statistics.read(&line);
            eprintln!("{line}");
        }
    }
    let status = child.wait()?;
    // An interrupted fuzzer has found nothing.
    leftovers::wait_if_interrupted();
    if status.success() { Ok(statistics) } else { bail!("the fuzzer ended with {status}") }
}

impl Statistics {
    fn read(&mut self, line: &str) {
        if let Some(executions) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = executions.trim().parse().unwrap_or_default();
        }
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|word| word.starts_with('#')) {
            return;
        }
        let words: Vec<&str> = words.collect();
        for pair in words.windows(2) {
            let number = || pair[1].split('/').next().and_then(|number| number.parse().ok());
            match pair[0] {
                "cov:" => self.edges = number().unwrap_or(self.edges),
                "corp:" => self.corpus = number().unwrap_or(self.corpus),
                _ => {}
            }
        }
    }
}

/// The compiler options for a crate under test. Build scripts have other crate names.
pub fn instrumentation(arguments: &[OsString]) -> Vec<&'static str> {
    let is_one_of = |names: &[&str]| {
        arguments.windows(2).any(|pair| pair[0] == "--crate-name" && names.iter().any(|n| pair[1] == *n))
    };
    let mut options = Vec::new();
    if is_one_of(&INSTRUMENTED) {
        options.extend(COUNTERS);
    }
    if is_one_of(&READING) {
        options.push(COMPARISONS);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_as_libfuzzer_prints_them() {
        let mut statistics = Statistics::default();
        for line in [
            "INFO: Loaded 1 modules   (8123 inline 8-bit counters): 8123 [0x1, 0x2), ",
            "#2\tINITED cov: 4 ft: 5 corp: 1/1b exec/s: 0 rss: 27Mb",
            "#36779\tNEW    cov: 118 ft: 231 corp: 25/1029b lim: 357 exec/s: 0 rss: 27Mb L: 7/7 MS: 1 ChangeByte-",
            "#65536\tDONE   cov: 120 ft: 235 corp: 27/1100b lim: 650 exec/s: 6553 rss: 40Mb",
            "stat::number_of_executed_units: 65536",
        ] {
            statistics.read(line);
        }
        assert_eq!(statistics, Statistics { executions: 65536, edges: 120, corpus: 27 });
    }

    #[test]
    fn crates_under_test_are_instrumented_and_no_build_script() {
        let options = |name: &str| instrumentation(&["--crate-name", name, "--edition=2024"].map(OsString::from));
        assert_eq!(options("unmask_wire").len(), 7);
        assert_eq!(options("unmask_room"), COUNTERS);
        assert!(options("build_script_build").is_empty());
        assert!(options("unmask_attack").is_empty());
    }
}
