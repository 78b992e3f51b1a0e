//! Python's wheel: built and tested in a virtual environment of its own, where there is Python.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::env::{self, Env};
use crate::runner::Skipped;

/// The wheel's crate, which is no member of the workspace.
pub const MANIFEST: &str = "crates/python/Cargo.toml";
const FOLDER: &str = "./crates/python";
const TESTS: &str = "crates/python/tests";
/// What builds the wheel, and what it needs; modules and packages have the same names.
const PACKAGES: [&str; 2] = ["maturin", "numpy"];

/// Lints the crate, builds the wheel and runs its tests. Without Python, or where its packages cannot be fetched, only
/// the lints; says so.
pub fn run(env: &Env, skipped: &mut Skipped) -> Result<()> {
    let lint = ["clippy", "--manifest-path", MANIFEST, "--locked", "--release", "--", "-D", "warnings"];
    env::run(env.command("cargo").args(lint)).context(
        "where the lock file is out of date, run `cargo update --workspace --manifest-path crates/python/Cargo.toml`",
    )?;
    let venv = match Venv::ensure(env)? {
        Ok(venv) => venv,
        Err(reason) => {
            println!("skipped: python: {reason}");
            skipped.note("wheel", &reason);
            return Ok(());
        }
    };
    let install = ["install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall", FOLDER];
    env::run(venv.pip(env)?.args(install))?;
    // Bytecode would be left in the repository.
    let discover = ["-B", "-m", "unittest", "discover", "--verbose", "--start-directory", TESTS];
    env::run_watched(venv.python(env)?.args(discover), |line| skipped.read(line))
}

/// A virtual environment that sees the system's packages, PyTorch among them where it is installed.
struct Venv {
    programs: PathBuf,
}

impl Venv {
    /// The one in the folder of tools, made where it is missing; or why it cannot be.
    fn ensure(env: &Env) -> Result<Result<Self, String>> {
        let Some(python) = ["python3", "python"].into_iter().find(|name| env.find(name).is_some()) else {
            return Ok(Err("there is no python3".to_owned()));
        };
        let folder = env.tools_dir.join("python");
        let venv = Self { programs: folder.join(if cfg!(windows) { "Scripts" } else { "bin" }) };
        if env::read(venv.python(env)?.arg("--version")).is_none() {
            println!("Making a virtual environment in {} ...", folder.display());
            let mut make = env.command(python);
            make.args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&folder);
            if let Some(reason) = failure(&mut make) {
                return Ok(Err(format!("{python} makes no virtual environment: {reason}")));
            }
        }
        let imports = PACKAGES.map(|module| format!("import {module}")).join("; ");
        if env::read(venv.python(env)?.args(["-c", &imports])).is_none() {
            println!("Installing {} for Python (seconds, once) ...", PACKAGES.join(" and "));
            let install = ["install", "--quiet", "--retries", "1", "--timeout", "15"];
            if let Some(reason) = failure(venv.pip(env)?.args(install).args(PACKAGES)) {
                return Ok(Err(format!("{} cannot be installed: {reason}", PACKAGES.join(" and "))));
            }
        }
        Ok(Ok(venv))
    }

    /// A call of its interpreter, which finds what is installed beside it.
    fn python(&self, env: &Env) -> Result<Command> {
        let mut command = env.command(&self.programs.join("python").display().to_string());
        command.env("PATH", env.path_behind(&self.programs)?);
        Ok(command)
    }

    fn pip(&self, env: &Env) -> Result<Command> {
        let mut command = self.python(env)?;
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        Ok(command)
    }
}

/// The last line that a failing call said; `None` where it succeeded.
fn failure(command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => output,
        Err(error) => return Some(error.to_string()),
    };
    let said = [output.stdout, output.stderr].concat();
    Some(last_line(&String::from_utf8_lossy(&said)))
}

/// pip names the version of itself that it would like last.
fn last_line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("[notice]"));
    let error = lines().rfind(|line| line.to_ascii_lowercase().starts_with("error"));
    error.or_else(|| lines().next_back()).unwrap_or("no word of why").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_error() {
        let said =
            "WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution\n\n[notice] new\n";
        assert_eq!(last_line(said), "ERROR: No matching distribution");
        assert_eq!(last_line("Traceback\nModuleNotFoundError: ensurepip\n"), "ModuleNotFoundError: ensurepip");
        assert_eq!(last_line(""), "no word of why");
    }

    #[test]
    fn a_failing_call_says_why() {
        assert_eq!(failure(&mut Command::new("true")), None);
        assert!(
            failure(Command::new("sh").args(["-c", "echo error: so; exit 3"])).is_some_and(|why| why == "error: so")
        );
        assert!(failure(&mut Command::new("no-such-program")).is_some());
    }
}
