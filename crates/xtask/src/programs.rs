//! Runs test programs in parallel. Cargo runs them one after the other, although many spend most of their time waiting
//! for a round, a page or another program, and few have work for all processors.

use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::env::{self, Env};
use crate::leftovers;
use crate::runner::TestNotes;

/// The program that measures times under load: it has a step of its own.
pub const ALONE: &str = "load";

/// Programs whose tests have deadlines, run one after the other: a room without browsers, and lessons in browsers. They
/// have priority over computing programs for the processor.
const PLAYING: [&str; 2] = ["room", "lessons"];

/// Also one after the other: programs that mostly wait, for a federation that has given up a node, or for a relay to
/// resume.
const WAITING: [&str; 3] = ["flower", "chaos", "shared_room"];

/// The longest of the computing programs. They start first, so that none still runs when everything else has ended.
const LONG: [&str; 9] = [
    "parts",
    "commands",
    "reproduce_tiny",
    "matrix",
    "attacks",
    "unmask_attack",
    "unmask_experiments",
    "unmask_relay",
    "xtask",
];

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// The argument of `--test`.
    name: String,
    /// Its crate's folder, in which cargo would run it.
    folder: PathBuf,
    executable: PathBuf,
}

struct Ended {
    status: ExitStatus,
    output: String,
    /// Includes the errors of relays and other programs that it started.
    errors: String,
    time: Duration,
}

/// Programs grouped by what may run in parallel with them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lanes {
    playing: Vec<Program>,
    waiting: Vec<Program>,
    computing: Vec<Program>,
}

/// Builds the tests that `command`, a call of `cargo test`, selects, and runs their programs with its environment.
/// Programs with deadlines and waiting programs run beside computing ones; [`ALONE`] does not run. A program's
/// output is printed after it has ended.
///
/// # Errors
/// A program does not compile, or fails. A failure does not stop the others.
pub fn run(env: &Env, mut command: Command, tests: &mut TestNotes) -> Result<()> {
    let mut programs = Vec::new();
    // The compiler's messages go to stderr, so that stdout has only the list of programs.
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    env::run_read(&mut command, |line| programs.extend(Program::of(line)))?;
    tests.others_may_begin();
    let Lanes { playing, waiting, computing } = Lanes::of(programs);
    let nice = env.find("nice");
    // Files instead of pipes: a pipe stays open as long as any leftover process of a test holds it.
    let logs = env.target_dir.join("tests");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let said = Mutex::new((tests, Vec::new()));
    let run_one = |program: &Program, nice: Option<&Path>| -> Result<()> {
        leftovers::wait_if_interrupted();
        eprintln!("     Running {program}; output in {}", program.log(&logs, "out").display());
        let ended = program.run(&command, nice, &logs)?;
        leftovers::wait_if_interrupted();
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let (tests, failed) = &mut *said;
        ended.print(program);
        ended.output.lines().for_each(|line| tests.read(line));
        if !ended.status.success() {
            failed.push(program.to_string());
        }
        Ok(())
    };
    let computing = Mutex::new(computing.iter());
    // A lane that has finished its own programs helps with these.
    let run_lane = |own: &[Program]| -> Result<()> {
        own.iter().try_for_each(|program| run_one(program, None))?;
        let next = || computing.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(program) = next() {
            run_one(program, nice.as_deref())?;
        }
        Ok(())
    };
    let run_lane = &run_lane;
    thread::scope(|scope| {
        let lanes = [&playing[..], &waiting, &[]].map(|own| scope.spawn(move || run_lane(own)));
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let (_, failed) = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.as_slice() {
        [] => Ok(()),
        [one] => bail!("{one} failed"),
        all => bail!("{} test programs failed: {}", all.len(), all.join(", ")),
    }
}

impl Program {
    /// The program that a line of cargo's output describes, if it does.
    fn of(line: &str) -> Option<Self> {
        let built: Value = serde_json::from_str(line).ok()?;
        Some(Self {
            name: built["target"]["name"].as_str()?.to_owned(),
            folder: Path::new(built["manifest_path"].as_str()?).parent()?.to_owned(),
            // Null for anything that is not a test program.
            executable: built["executable"].as_str().filter(|_| built["profile"]["test"] == true)?.into(),
        })
    }

    /// Runs the program with the environment of `cargo`, and keeps its output in `logs`.
    fn run(&self, cargo: &Command, nice: Option<&Path>, logs: &Path) -> Result<Ended> {
        let mut command = match nice {
            Some(nice) => {
                let mut command = Command::new(nice);
                command.args(env::ASIDE).arg(&self.executable);
                command
            }
            None => Command::new(&self.executable),
        };
        for (name, value) in cargo.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let (output, errors) = (self.log(logs, "out"), self.log(logs, "err"));
        let begun = Instant::now();
        let open = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let status = command.current_dir(&self.folder).stdout(open(&output)?).stderr(open(&errors)?).status();
        let status = status.with_context(|| format!("cannot run {}", self.executable.display()))?;
        let time = begun.elapsed();
        let read = |path: &Path| fs::read(path).map(|said| String::from_utf8_lossy(&said).into_owned());
        let read = |path: &Path| read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok(Ended { status, output: read(&output)?, errors: read(&errors)?, time })
    }

    /// The log file of its stdout (`out`) or stderr (`err`).
    fn log(&self, logs: &Path, end: &str) -> PathBuf {
        logs.join(format!("{}-{}.{end}", self.package(), self.name))
    }

    /// The name of its crate's folder, which is the crate's name without the prefix.
    fn package(&self) -> std::borrow::Cow<'_, str> {
        self.folder.file_name().unwrap_or_default().to_string_lossy()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of crates/{}", self.name, self.package())
    }
}

impl Ended {
    /// Prints its stdout, and if it failed also its stderr.
    fn print(&self, program: &Program) {
        let outcome = if self.status.success() { "passed".to_owned() } else { format!("FAILED ({})", self.status) };
        if !self.status.success() {
            eprintln!("{}", self.errors);
        }
        println!("     {program} {outcome} after {:.1} s", self.time.as_secs_f64());
        println!("{}", self.output);
    }
}

impl Lanes {
    fn of(programs: Vec<Program>) -> Self {
        let mut lanes = Self::default();
        for program in programs.into_iter().filter(|program| program.name != ALONE) {
            let is_in = |names: &[&str]| names.contains(&program.name.as_str());
            let lane = match () {
                () if is_in(&PLAYING) => &mut lanes.playing,
                () if is_in(&WAITING) => &mut lanes.waiting,
                () => &mut lanes.computing,
            };
            lane.push(program);
        }
        let place = |names: &[&str], program: &Program| names.iter().position(|name| program.name == *name);
        lanes.playing.sort_by_key(|program| place(&PLAYING, program));
        lanes.waiting.sort_by_key(|program| place(&WAITING, program));
        lanes.computing.sort_by_key(|program| place(&LONG, program).unwrap_or(LONG.len()));
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line from cargo about a test program with this name.
    fn built(name: &str, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/room/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":true}},"executable":{executable}}}"#
        )
    }

    fn program(name: &str) -> Program {
        Program::of(&built(name, r#""/t/x""#)).expect("a program")
    }

    #[test]
    fn programs_are_read_off_what_cargo_says() {
        let folder = PathBuf::from("/w/crates/room");
        let expected = Program { name: "rounds".to_owned(), folder, executable: "/t/rounds-1".into() };
        assert_eq!(Program::of(&built("rounds", r#""/t/rounds-1""#)), Some(expected));
        let binary = built("unmask", r#""/t/unmask""#).replace("true", "false");
        for line in [&built("library", "null"), &binary, r#"{"reason":"build-finished"}"#, "no JSON"] {
            assert_eq!(Program::of(line), None, "{line}");
        }
    }

    #[test]
    fn lanes_hold_each_other_program_once_and_the_long_ones_first() {
        let names = ["bits", "load", "room", "parts", "lessons", "matrix", "chaos", "matrix"];
        let Lanes { playing, waiting, computing } = Lanes::of(names.map(program).to_vec());
        let names = |lane: &[Program]| lane.iter().map(|program| program.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&playing), ["room", "lessons"]);
        assert_eq!(names(&waiting), ["chaos"]);
        assert_eq!(names(&computing), ["parts", "matrix", "matrix", "bits"]);
    }

    /// Each name belongs to existing tests.
    #[test]
    fn who_has_a_lane_of_its_own_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let crates = fs::read_dir(root.join("crates")).expect("the crates").flatten().map(|entry| entry.path());
        let crates: Vec<PathBuf> = crates.collect();
        let folders: Vec<PathBuf> =
            crates.iter().map(|krate| krate.join("tests")).chain([root.join("tests")]).collect();
        for name in [ALONE].iter().chain(&PLAYING).chain(&WAITING).chain(&LONG) {
            let is_there = |folder: &PathBuf| {
                folder.join(format!("{name}.rs")).exists() || folder.join(name).join("main.rs").exists()
            };
            // Unit tests have the name of their crate.
            let krate = name.strip_prefix("unmask_").or((*name == "xtask").then_some(name));
            let is_unit = krate.is_some_and(|krate| crates.iter().any(|folder| folder.ends_with(krate)));
            assert!(is_unit || folders.iter().any(is_there), "there are no tests {name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_program_gets_the_environment_and_the_folder_and_its_words_are_kept() {
        let folder = std::env::temp_dir().join(leftovers::new_mark());
        fs::create_dir_all(&folder).expect("a folder");
        let script = folder.join("script");
        // Written by a shell. If this process had the file open, it could not be executed while another test starts a
        // program.
        let write = "printf '#!/bin/sh\\necho \"$UNMASK_WORD in $(pwd)\"; echo trouble >&2; exit 3\\n' > script; chmod +x script";
        assert!(Command::new("sh").args(["-c", write]).current_dir(&folder).status().expect("a shell").success());
        let program = Program { name: "script".to_owned(), folder: folder.clone(), executable: script };
        let mut cargo = Command::new("cargo");
        cargo.env("UNMASK_WORD", "a word");
        let ended = program.run(&cargo, None, &folder).expect("it runs");
        let here = folder.canonicalize().expect("a folder");
        assert_eq!((ended.status.code(), ended.output), (Some(3), format!("a word in {}\n", here.display())));
        assert_eq!(ended.errors, "trouble\n");
        fs::remove_dir_all(&folder).expect("it goes");
    }
}
