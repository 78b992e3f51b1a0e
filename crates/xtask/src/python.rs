//! Builds and tests the Python parts, if there is Python: the wheel and the Flower package, each in its own virtual
//! environment.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::env::{self, Env};
use crate::runner::TestNotes;

/// Arguments of cargo and maturin with which the wheel uses the crates that the workspace has compiled.
pub const SHARED: [&str; 2] = ["--features", "shared"];
const FOLDER: &str = "./crates/python";
const TESTS: &str = "crates/python/tests";
/// The build tool of the wheel, and its requirements.
const WHEEL: Venv =
    Venv { name: "python", packages: &["maturin", "numpy"], modules: "maturin, numpy", sees_system: true };

const FLOWER_FOLDER: &str = "integrations/flower";
/// Flower, the other requirements of the package, and its test runner.
const FLOWER: Venv = Venv {
    name: "flower",
    packages: &["flwr==1.41.0", "safetensors", "pytest"],
    modules: "flwr.serverapp, safetensors.numpy, pytest",
    sees_system: false,
};
/// The variable that tells tests where Flower's programs are.
pub const FLOWER_PROGRAMS: &str = "UNMASK_FLOWER_PROGRAMS";

/// A scheduler for jobs on many machines, for the tests of runs in parts.
const HYPERQUEUE: Venv =
    Venv { name: "hyperqueue", packages: &["hyperqueue==0.27.0"], modules: "hyperqueue.cluster", sees_system: false };
/// The variable that tells tests where HyperQueue's Python is.
pub const HYPERQUEUE_PROGRAMS: &str = "UNMASK_HYPERQUEUE_PROGRAMS";

/// The reference for training steps. The version is fixed because others have other speeds.
const PYTORCH: Venv = Venv {
    name: "pytorch",
    packages: &["torch==2.15.0", "timm==1.0.31", "numpy", "safetensors"],
    modules: "torch, timm, numpy, safetensors.torch",
    sees_system: false,
};

/// The step for the wheel and the package. Without Python, or if packages cannot be fetched, it says so.
pub fn run(env: &Env, tests: &mut TestNotes) -> Result<()> {
    wheel(env, tests)?;
    flower(env, tests)
}

/// Builds the wheel and runs its tests.
fn wheel(env: &Env, tests: &mut TestNotes) -> Result<()> {
    if let Err(reason) = WHEEL.ensure(env)? {
        println!("skipped: python: {reason}");
        tests.skip("wheel", &reason);
        return Ok(());
    }
    let install = ["install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall", FOLDER];
    env::run(WHEEL.pip(env)?.args(install).env("MATURIN_PEP517_ARGS", SHARED.join(" ")))?;
    // Keeps bytecode out of the repository.
    let discover = ["-B", "-m", "unittest", "discover", "--verbose", "--start-directory", TESTS];
    let mut discovered = WHEEL.python(env)?;
    discovered.args(discover).env("UNMASK_PROGRAM", env.release_binary("unmask"));
    env::run_watched(&mut discovered, |line| tests.read(line))
}

/// Runs the tests of the Flower package; those of its report use the program built for the native tests.
fn flower(env: &Env, tests: &mut TestNotes) -> Result<()> {
    if let Err(reason) = FLOWER.ensure(env)? {
        println!("skipped: flower: {reason}");
        tests.skip("integrations/flower", &reason);
        return Ok(());
    }
    let mut pytest = FLOWER.python(env)?;
    pytest.args([
        "-B",
        "-m",
        "pytest",
        "-q",
        "-W",
        "ignore",
        "--show-capture=no",
        "--rootdir",
        FLOWER_FOLDER,
        FLOWER_FOLDER,
    ]);
    pytest.env("UNMASK_PROGRAM", env.release_binary("unmask")).env("FLWR_TELEMETRY_ENABLED", "0");
    env::run_watched(&mut pytest, |line| tests.read(line))
}

/// Makes Flower available to the tests of `command`, if possible; otherwise those tests report that they are skipped.
pub fn with_flower(env: &Env, command: &mut Command) -> Result<()> {
    with(env, &FLOWER, FLOWER_PROGRAMS, command)
}

/// Like [`with_flower`], for HyperQueue.
pub fn with_hyperqueue(env: &Env, command: &mut Command) -> Result<()> {
    with(env, &HYPERQUEUE, HYPERQUEUE_PROGRAMS, command)
}

/// Installs PyTorch if it is missing.
///
/// # Errors
/// It cannot be installed.
pub fn ensure_pytorch(env: &Env) -> Result<()> {
    PYTORCH.ensure(env)?.map_err(|reason| anyhow!("PyTorch is not available: {reason}"))
}

/// A call of the interpreter that has PyTorch.
pub fn pytorch(env: &Env) -> Result<Command> {
    PYTORCH.python(env)
}

fn with(env: &Env, venv: &Venv, variable: &str, command: &mut Command) -> Result<()> {
    match venv.ensure(env)? {
        Ok(()) => drop(command.env(variable, venv.programs(env))),
        Err(reason) => println!("{} is not available: {reason}", venv.name),
    }
    Ok(())
}

/// A virtual environment in the folder of tools.
struct Venv {
    name: &'static str,
    packages: &'static [&'static str],
    /// Modules that can be imported if all packages are installed.
    modules: &'static str,
    /// Whether it sees the system's packages, such as an installed PyTorch.
    sees_system: bool,
}

impl Venv {
    fn folder(&self, env: &Env) -> PathBuf {
        env.tools_dir.join(self.name)
    }

    fn programs(&self, env: &Env) -> PathBuf {
        self.folder(env).join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    /// Creates the environment if it is missing; returns the reason if that fails.
    fn ensure(&self, env: &Env) -> Result<Result<(), String>> {
        let Some(python) = ["python3", "python"].into_iter().find(|name| env.find(name).is_some()) else {
            return Ok(Err("there is no python3".to_owned()));
        };
        if env::read(self.python(env)?.arg("--version")).is_none() {
            let folder = self.folder(env);
            println!("Creating a virtual environment in {} ...", folder.display());
            let mut make = env.command(python);
            make.args(["-m", "venv", "--clear"])
                .args(self.sees_system.then_some("--system-site-packages"))
                .arg(&folder);
            if let Some(reason) = failure(&mut make) {
                return Ok(Err(format!("{python} cannot create a virtual environment: {reason}")));
            }
        }
        let imports = format!("import {}; from importlib.metadata import version; {}", self.modules, self.versions());
        if env::read(self.python(env)?.args(["-c", &imports])).is_none() {
            let packages = self.packages.join(" and ");
            println!("Installing {packages} for Python (once) ...");
            let install = ["install", "--quiet", "--retries", "1", "--timeout", "15"];
            if let Some(reason) = failure(self.pip(env)?.args(install).args(self.packages)) {
                return Ok(Err(format!("{packages} cannot be installed: {reason}")));
            }
        }
        Ok(Ok(()))
    }

    /// Python code that fails if a package has another version than the requested one. It ignores a build tag such as
    /// the one in "2.15.0+cpu".
    fn versions(&self) -> String {
        let asked = self.packages.iter().filter_map(|package| package.split_once("=="));
        asked.map(|(name, version)| format!("assert version('{name}').split('+')[0] == '{version}'; ")).collect()
    }

    /// A call of its interpreter, which finds the packages installed in it.
    fn python(&self, env: &Env) -> Result<Command> {
        let programs = self.programs(env);
        let mut command = env.command(&programs.join("python").display().to_string());
        command.env("PATH", env.path_behind(&programs)?);
        Ok(command)
    }

    fn pip(&self, env: &Env) -> Result<Command> {
        let mut command = self.python(env)?;
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        Ok(command)
    }
}

/// The last line of a failed call; `None` if it succeeded.
fn failure(command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => output,
        Err(error) => return Some(error.to_string()),
    };
    let said = [output.stdout, output.stderr].concat();
    Some(last_line(&String::from_utf8_lossy(&said)))
}

/// The last line that matters. pip's own last line only advertises its next version.
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
    fn another_version_than_the_one_asked_for_is_not_taken() {
        let versions = FLOWER.versions();
        assert!(versions.contains("assert version('flwr').split('+')[0] == '1.41.0'"), "{versions}");
        assert!(!versions.contains("pytest"), "{versions}");
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
