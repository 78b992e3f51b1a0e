//! The program for Windows: built on another system, and tested under Wine.

mod double_click;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::apt::{self, Need};
use crate::cargo::native;
use crate::env::{self, Env};
use crate::{leftovers, tools};

pub const TARGET: &str = "x86_64-pc-windows-gnu";

/// MinGW-w64's compiler, which cargo and the C dependencies look for under this name.
pub const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// The tests that run the whole program: pictures from gradients, rooms with clients, and kills.
const TESTS: [&str; 3] = ["invert", "shared_room", "chaos"];

/// Kills of a relay. The checks on Linux do more.
const KILLS: &str = "5";

/// From this library Rust's standard library takes random numbers. Wine has it since version 9, Debian 12 has version 8.
const RANDOM: &str = "bcryptprimitives.dll";

/// The only function of [`RANDOM`] that is called, in C, from an older one.
const RANDOM_SOURCE: &str = "\
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return RtlGenRandom(bytes, (ULONG)count);
}
";

/// Build the program for Windows, and test it under Wine: rooms with clients, kills, pictures from gradients
///
/// The tests are those of `cargo xtask test --test invert --test shared_room --test chaos`, as programs for Windows.
/// Without a FILTER, also what a double click does. Without Wine everything is only built. `cargo check-all` does none of
/// this, because all dependencies are compiled once more.
#[derive(Args)]
pub struct Windows {
    /// Run only tests with one of these words in their names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Passed on to the test programs, for example `--nocapture`
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

impl Windows {
    /// Builds and tests; fails if a test fails.
    pub fn run(&self, env: &Env) -> Result<()> {
        ensure_tools(env)?;
        apt::ensure(env, &[Need::wine()])?;
        let mut command = native(env, "test", &["--no-fail-fast", "--target", TARGET]);
        for test in TESTS {
            command.args(["--test", test]);
        }
        if env.find("wine").is_none() {
            env::run(command.arg("--no-run"))?;
            println!("skipped: {}: Wine is not installed", TESTS.join(", "));
            return Ok(());
        }
        let prefix = env.target_dir.join("wine");
        prepare(env, &prefix)?;
        in_wine(&mut command, &prefix)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine")
            .env("UNMASK_KILLS", KILLS)
            .arg("--")
            .args(&self.filters)
            .args(&self.options);
        let program = env.target_dir.join(TARGET).join("release/unmask.exe");
        let outcome = env::run(&mut command).and_then(|()| match self.filters.as_slice() {
            [] => double_click::check(env, &prefix, &program),
            _ => Ok(()),
        });
        // Wine's own services would otherwise look like something that a test left running.
        env::read(in_wine(&mut env.command("wineserver"), &prefix).arg("--kill"));
        leftovers::end_and_say(&env.mark);
        outcome
    }
}

/// Installs what a build for Windows needs besides the tools of every build.
pub fn ensure_tools(env: &Env) -> Result<()> {
    apt::ensure(env, &[Need::c_compiler(), Need::mingw()])?;
    tools::ensure_target(env, TARGET, "the program for Windows is compiled to it")
}

/// Makes a Windows of our own in the folder `prefix`, with everything that the program needs.
fn prepare(env: &Env, prefix: &Path) -> Result<()> {
    let system = prefix.join("drive_c/windows/system32");
    if !system.exists() {
        println!("Preparing Wine in {} (seconds, once) ...", prefix.display());
        fs::create_dir_all(prefix).with_context(|| format!("cannot make {}", prefix.display()))?;
        env::run(in_wine(&mut env.command("wineboot"), prefix).arg("--init"))?;
    }
    let library = system.join(RANDOM);
    if library.exists() {
        return Ok(());
    }
    let source = prefix.join("random.c");
    fs::write(&source, RANDOM_SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
    let mut compile = env.command(COMPILER);
    env::run(compile.args(["-O2", "-shared", "-o"]).arg(&library).arg(&source).arg("-ladvapi32"))
}

/// Sets the variables of a call of Wine, or of a program that calls it.
fn in_wine<'a>(command: &'a mut Command, prefix: &Path) -> &'a mut Command {
    command
        .env("WINEPREFIX", prefix)
        .env("WINEDEBUG", "-all")
        // No questions about .NET and HTML, which the program does not need.
        .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo refuses to build a missing test.
    #[test]
    fn the_tests_for_wine_are_there() {
        for name in TESTS {
            let file = format!("{}/../unmask/tests/{name}.rs", env!("CARGO_MANIFEST_DIR"));
            assert!(Path::new(&file).exists(), "{file}");
        }
    }
}
