//! Calls of rustc that cargo makes through this program, because they differ from what a profile can say.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::env;
use crate::fuzz;

/// What this program changes in rustc's arguments; set when cargo calls it instead of rustc.
const AS_RUSTC: &str = "UNMASK_AS_RUSTC";

const FUZZER: &str = "fuzzer";
const TESTS: &str = "tests";

/// Crates whose tests compute for longer than their optimisation takes. Cargo does not notice a change of this list: it
/// takes effect when a crate is compiled next.
const COMPUTING: [&str; 5] = ["unmask-attack", "unmask-client", "unmask-core", "unmask-defence", "unmask-federation"];

/// Makes cargo compile our own crates for the fuzzer. Cargo keeps them apart from the ones that it compiles otherwise.
pub fn for_fuzzer(command: &mut Command) -> Result<&mut Command> {
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", this()?).env(AS_RUSTC, FUZZER))
}

/// Makes cargo compile test programs without optimisation, except for those of [`COMPUTING`] crates: four times as fast.
/// Rustc then checks them for overflow and other errors of debug builds. Integration tests still call optimised libraries
/// and programs; unit tests are part of the crate that they test.
///
/// A wrapper that a variable names, such as sccache, stays in place.
pub fn for_tests(command: &mut Command) -> &mut Command {
    let is_wrapped = ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"].iter().any(|name| std::env::var_os(name).is_some());
    match this() {
        // A program that was replaced while it runs cannot be started again.
        Ok(this) if !is_wrapped && Path::new(&this).exists() => command.env("RUSTC_WRAPPER", this).env(AS_RUSTC, TESTS),
        _ => command,
    }
}

fn this() -> Result<OsString> {
    Ok(std::env::current_exe().context("this program has no path")?.into())
}

/// If cargo calls this program instead of rustc, returns rustc's exit code.
pub fn run() -> Option<Result<ExitCode>> {
    let change = std::env::var_os(AS_RUSTC)?;
    let mut arguments = std::env::args_os().skip(1);
    let rustc = arguments.next()?;
    let mut arguments: Vec<OsString> = arguments.collect();
    let mut command = Command::new(rustc);
    if change == FUZZER {
        let options = fuzz::instrumentation(&arguments);
        // Cargo compiles the other crates for the fuzzer too, but it seldom runs their code.
        if options.is_empty() {
            set_optimisation(&mut arguments, 1);
        }
        for option in options {
            command.args(["-C", option]);
        }
    } else if is_quick_test(&arguments, std::env::var_os("CARGO_PKG_NAME").as_deref()) {
        set_optimisation(&mut arguments, 0);
    }
    command.args(arguments);
    Some(env::become_process(command))
}

/// Whether this call compiles a test program of a crate that is not a [`COMPUTING`] one.
fn is_quick_test(arguments: &[OsString], package: Option<&OsStr>) -> bool {
    let is_ours =
        |package: &OsStr| package == "xtask" || package.to_str().is_some_and(|package| package.starts_with("unmask"));
    let is_computing = |package: &OsStr| COMPUTING.iter().any(|name| package == *name);
    arguments.iter().any(|argument| argument == "--test")
        && package.is_some_and(|package| is_ours(package) && !is_computing(package))
}

/// Changes the optimisation level, if rustc is given one.
fn set_optimisation(arguments: &mut [OsString], level: u8) {
    for argument in arguments {
        if argument.to_str().is_some_and(|argument| argument.starts_with("opt-level=")) {
            *argument = format!("opt-level={level}").into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_that_compute_little_are_compiled_without_optimisation() {
        let arguments = ["--crate-name", "unmask_room", "-C", "opt-level=3", "--test"].map(OsString::from);
        let is_quick = |arguments: &[OsString], package: &str| is_quick_test(arguments, Some(package.as_ref()));
        assert!(is_quick(&arguments, "unmask-room") && is_quick(&arguments, "xtask"));
        assert!(!is_quick(&arguments[..4], "unmask-room"), "the crate itself");
        assert!(!is_quick(&arguments, "unmask-attack") && !is_quick(&arguments, "serde"));
        assert!(!is_quick_test(&arguments, None), "a question to rustc");
        let mut changed = arguments.clone();
        set_optimisation(&mut changed, 0);
        assert_eq!(changed[3], "opt-level=0");
        assert!((0..5).all(|place| place == 3 || changed[place] == arguments[place]));
    }
}
