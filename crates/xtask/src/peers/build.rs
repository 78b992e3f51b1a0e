//! The programs of both sides.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cases::{Case, Work};
use crate::demo;
use crate::env::{self, Env};
use crate::python;

const STEP: &str = "step";
const ITERATION: &str = "iteration";
const STEP_PYTORCH: &str = "crates/model/benches/step_pytorch.py";
const ITERATION_PYTORCH: &str = "crates/matching/benches/iteration_pytorch.py";

/// Our programs for the chosen cases.
#[derive(Default)]
pub struct Programs {
    step: Option<PathBuf>,
    iteration: Option<PathBuf>,
    pub unmask: Option<PathBuf>,
}

impl Programs {
    /// Builds the programs, with the dependencies that `check-all` has built.
    ///
    /// # Errors
    /// A program does not compile.
    pub fn build(env: &Env, cases: &[Case]) -> Result<Self> {
        let need = |is_of: fn(&Work) -> bool| cases.iter().any(|case| is_of(&case.work));
        let bench = |name| bench(env, name).map(Some);
        let mut programs = Self::default();
        if need(|work| matches!(work, Work::Step { .. })) {
            programs.step = bench(STEP)?;
        }
        if need(|work| matches!(work, Work::Matching { .. })) {
            programs.iteration = bench(ITERATION)?;
        }
        if need(|work| matches!(work, Work::Train)) {
            env::run(env.command("cargo").args(demo::RELAY))?;
            programs.unmask = Some(env.release_binary("unmask"));
        }
        Ok(programs)
    }

    /// Our program for a case whose programs wait for requests.
    pub fn ours(&self, env: &Env, case: &Case, threads: u32) -> Result<Command> {
        let program = match case.work {
            Work::Step { .. } => self.step.as_deref(),
            Work::Matching { .. } => self.iteration.as_deref(),
            Work::Train => self.unmask.as_deref(),
        };
        let program = program.with_context(|| format!("nothing was built for {case}"))?;
        let mut command = env.command(&program.display().to_string());
        command.arg("--serve").env("RAYON_NUM_THREADS", threads.to_string());
        Ok(command)
    }

    pub fn pytorch(&self, env: &Env, case: &Case, threads: u32) -> Result<Command> {
        let (script, options): (&str, &[&str]) = match case.work {
            Work::Step { .. } => (STEP_PYTORCH, &["--serve"]),
            Work::Matching { .. } => (ITERATION_PYTORCH, &[]),
            Work::Train => bail!("{case} is not asked for by a line"),
        };
        let mut command = python::pytorch(env)?;
        // Keeps bytecode out of the repository.
        command.args(["-B", script]).args(options).args(["--threads", &threads.to_string()]);
        Ok(command)
    }
}

/// Builds a benchmark as `cargo xtask bench` does, and returns its path.
fn bench(env: &Env, name: &str) -> Result<PathBuf> {
    let mut command = env.command("cargo");
    command.args(["bench", "--workspace", "--bench", name, "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    eprintln!("Building the benchmark {name} ...");
    let output = command.output().context("cannot run `cargo bench`")?;
    if !output.status.success() {
        bail!("`cargo bench --bench {name} --no-run` failed ({})", output.status);
    }
    executable(&String::from_utf8_lossy(&output.stdout), name)
        .with_context(|| format!("cargo does not say where the benchmark {name} is"))
}

/// The path of a benchmark in cargo's messages, which are lines of JSON.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let is_named = |message: &Value| {
        let target = &message["target"];
        target["name"] == name
            && target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bench"))
    };
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(is_named);
    artifacts.filter_map(|artifact| artifact["executable"].as_str().map(|path| Path::new(path).to_owned())).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_where_a_benchmark_is() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"step"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"mask"},"executable":"/t/release/deps/mask-1"}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"step"},"executable":"/t/release/deps/step-2"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages, "step").as_deref(), Some(Path::new("/t/release/deps/step-2")));
        assert_eq!(executable(messages, "iteration"), None);
    }

    #[test]
    fn the_scripts_are_there() {
        for script in [STEP_PYTORCH, ITERATION_PYTORCH] {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(script).is_file(), "{script}");
        }
    }
}
