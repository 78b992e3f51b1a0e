//! Compares `unmask train` with a plain loop: whole programs that time their rounds themselves.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::build::Programs;
use super::{Side, Sides};
use crate::env::Env;
use crate::python;

const CONFIG: &str = "configs/masked.toml";
const SCRIPT: &str = "scripts/train_pytorch.py";
/// The variable in which `unmask` looks for CIFAR-10 first.
const CIFAR10: &str = "UNMASK_CIFAR10";

/// Two programs that are started for each turn.
pub struct Training {
    ours: Command,
    pytorch: Command,
    out: PathBuf,
    rounds: u32,
    version: Option<String>,
}

impl Training {
    pub fn new(env: &Env, programs: &Programs, threads: u32, rounds: u32) -> Result<Self> {
        let program = programs.unmask.as_deref().context("nothing was built to train with")?;
        let out = env.target_dir.join("bench-peers");
        let cifar10 = cifar10(std::env::var_os(CIFAR10), &env.tools_dir);
        let (rounds_given, threads_given) = (rounds.to_string(), threads.to_string());
        let mut ours = env.command(&program.display().to_string());
        ours.args(["train", "--config", CONFIG, "--threads", &threads_given, "--out"]).arg(&out);
        // The size of our program's thread pool.
        ours.env("RAYON_NUM_THREADS", &threads_given);
        // The record's seconds include the final test, so it is limited to one picture.
        for setting in [&format!("rounds={rounds}"), "evaluate-every=0", "test-pictures=1", "checkpoint-every=0"] {
            ours.args(["--set", setting]);
        }
        let mut pytorch = python::pytorch(env)?;
        // Keeps bytecode out of the repository.
        pytorch.args(["-B", SCRIPT, CONFIG, "--rounds", &rounds_given, "--threads", &threads_given]);
        if let Some(folder) = cifar10 {
            ours.arg("--cifar10").arg(&folder);
            pytorch.arg("--cifar10").arg(&folder);
        } else {
            ours.args(["--set", "data=generated"]);
        }
        Ok(Self { ours, pytorch, out, rounds, version: None })
    }

    /// Milliseconds of one of our rounds, from the record of the run.
    fn ours(&mut self) -> Result<f64> {
        if self.out.exists() {
            fs::remove_dir_all(&self.out).with_context(|| format!("cannot remove {}", self.out.display()))?;
        }
        said(&mut self.ours)?;
        let path = self.out.join("run.json");
        let record = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let seconds = seconds_of_record(&record).with_context(|| format!("{} has no seconds", path.display()))?;
        Ok(seconds * 1e3 / f64::from(self.rounds))
    }

    /// Milliseconds of one of PyTorch's rounds, from the output of the script.
    fn pytorch(&mut self) -> Result<f64> {
        let said = said(&mut self.pytorch)?;
        let (version, seconds) = printed(&said).with_context(|| format!("{SCRIPT} prints {said:?}"))?;
        self.version = Some(version.to_owned());
        Ok(seconds * 1e3 / f64::from(self.rounds))
    }
}

impl Sides for Training {
    fn turn(&mut self, side: Side) -> Result<Vec<f64>> {
        let milliseconds = match side {
            Side::Ours => self.ours(),
            Side::PyTorch => self.pytorch(),
        };
        Ok(vec![milliseconds?])
    }

    fn versions(&self) -> Vec<String> {
        self.version.iter().cloned().collect()
    }
}

fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Version and seconds.
fn printed(said: &str) -> Option<(&str, f64)> {
    let mut lines = said.lines();
    Some((lines.next()?, lines.next()?.parse().ok()?))
}

fn seconds_of_record(record: &str) -> Option<f64> {
    serde_json::from_str::<Value>(record).ok()?["seconds"].as_f64()
}

/// The folder of CIFAR-10, if it exists: the one in the variable, or the one beside our tools.
fn cifar10(named: Option<OsString>, tools: &Path) -> Option<PathBuf> {
    let usual = tools.with_file_name("cifar10");
    let folder = named.filter(|name| !name.is_empty()).map_or(usual, PathBuf::from);
    folder.join("data_batch_1.bin").is_file().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_say_their_seconds() {
        assert_eq!(printed("PyTorch 2.15.0, timm 1.0.31\n6.7358\n"), Some(("PyTorch 2.15.0, timm 1.0.31", 6.7358)));
        assert_eq!(printed("PyTorch 2.15.0\n"), None);
        assert_eq!(seconds_of_record(r#"{"seed": 1, "seconds": 9.25}"#), Some(9.25));
        assert_eq!(seconds_of_record(r#"{"seed": 1}"#), None);
    }

    #[test]
    fn pictures_that_are_not_there_are_generated() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools");
        assert_eq!(cifar10(None, &nowhere), None);
        assert_eq!(cifar10(Some("no such folder".into()), &nowhere), None);
    }

    #[test]
    fn config_and_script_are_there() {
        for file in [CONFIG, SCRIPT] {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file).is_file(), "{file}");
        }
    }
}
