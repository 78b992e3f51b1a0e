//! The tools of a build: found by name and version, installed if missing.
//!
//! Tools are installed into our own folder, which is first on the children's search path. A tool that the user has in
//! another version is not touched.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Need};
use crate::browser;
use crate::env::{self, Env};
use crate::space::{self, GB};

/// The purpose of the tools, which decides how many are needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To build and run: wasm target, a C compiler.
    Demo,
    /// The same, and tools for linting, fuzzing and testing in a browser.
    Checks,
}

impl Purpose {
    /// Free bytes for a build from scratch: not measured, but it has always been enough.
    fn disk(self) -> u64 {
        match self {
            Purpose::Demo => 3 * GB,
            Purpose::Checks => 12 * GB,
        }
    }
}

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// A tool that `cargo install` builds from source, with its published lock file.
struct CargoTool {
    name: &'static str,
    version: &'static str,
    why: &'static str,
}

const DENY: CargoTool =
    CargoTool { name: "cargo-deny", version: "0.20.2", why: "it knows the licences and sources of all dependencies" };

const GECKODRIVER: CargoTool =
    CargoTool { name: "geckodriver", version: "0.37.1", why: "the tests drive Firefox through it" };

/// Makes sure that every tool for `purpose` is available, and installs missing ones.
///
/// # Errors
/// A tool is missing and may not be installed, or its installation fails; the message has the command to run by hand.
pub fn ensure(env: &Env, purpose: Purpose) -> Result<()> {
    space::warn_if_short(env, purpose.disk());
    let mut needs = vec![Need::c_compiler()];
    if purpose == Purpose::Checks {
        needs.extend([Need::cpp_compiler(), Need::browser(), Need::driver(), Need::firefox(), Need::webkit()]);
    }
    apt::ensure(env, &needs)?;
    ensure_target(env, WASM_TARGET, "the page is compiled to it")?;
    if purpose == Purpose::Demo {
        return Ok(());
    }
    ensure_component(env, "rustfmt", "fmt")?;
    ensure_component(env, "clippy", "clippy")?;
    let mut has_installed = ensure_cargo_tool(env, &DENY)?;
    // None is built if there is already one (in any version), or if there is no Firefox.
    if browser::firefox(env).is_some() && (env.find(GECKODRIVER.name).is_none() || is_ours(env, GECKODRIVER.name)) {
        has_installed |= ensure_cargo_tool(env, &GECKODRIVER)?;
    }
    if has_installed {
        // Half a gigabyte that is not needed again.
        let build_dir = env.tools_dir.join("build");
        std::fs::remove_dir_all(&build_dir).with_context(|| format!("cannot remove {}", build_dir.display()))?;
    }
    Ok(())
}

/// Returns true if the tool had to be installed.
fn ensure_cargo_tool(env: &Env, CargoTool { name, version, why }: &CargoTool) -> Result<bool> {
    match found_version(env, name) {
        Some(found) if found == *version => return Ok(false),
        Some(found) => println!("{name} {found} is on PATH, but {version} is needed; yours is not changed."),
        None => println!("{name} is not on PATH."),
    }
    println!(
        "Installing {name} {version} into {} ({why}; about a minute on 2 cores, once) ...",
        env.tools_dir.display()
    );
    let mut install = env.command("cargo");
    install.args(["install", name, "--locked", "--version", &format!("={version}"), "--force", "--root"]);
    install.arg(&env.tools_dir);
    // The tools run for seconds: a fast build matters more than a fast tool.
    install
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_TARGET_DIR", env.tools_dir.join("build"));
    let by_hand = format!("cargo install {name}@{version} --locked");
    env::run(&mut install)
        .with_context(|| format!("cannot install {name} {version}; run `{by_hand}` yourself and start again"))?;
    match found_version(env, name) {
        Some(found) if found == *version => Ok(true),
        other => bail!(
            "{name} {version} was installed, but `{name} --version` says {}; look into {}",
            other.as_deref().unwrap_or("nothing"),
            env.tools_dir.display()
        ),
    }
}

fn is_ours(env: &Env, program: &str) -> bool {
    env.find(program).is_some_and(|path| path.starts_with(&env.tools_dir))
}

fn found_version(env: &Env, program: &str) -> Option<String> {
    env.find(program)?;
    env::read(env.command(program).arg("--version")).and_then(|text| env::version_word(&text).map(str::to_owned))
}

/// Makes sure that Rust's standard library is there for `target`, and installs it if it is missing.
///
/// # Errors
/// It cannot be installed; the message has the command to run by hand.
pub fn ensure_target(env: &Env, target: &str, why: &str) -> Result<()> {
    let is_there = env::read(env.command("rustc").args(["--print", "target-libdir", "--target", target]))
        .and_then(|dir| Path::new(&dir).read_dir().ok()?.next())
        .is_some();
    if is_there {
        return Ok(());
    }
    println!("Installing Rust's {target} ({why}; seconds, once) ...");
    env::run(env.command("rustup").args(["target", "add", target])).with_context(|| {
        format!("the target {target} is missing: run `rustup target add {target}`, or install it with your Rust")
    })
}

fn ensure_component(env: &Env, component: &str, subcommand: &str) -> Result<()> {
    if env::read(env.command("cargo").args([subcommand, "--version"])).is_some() {
        return Ok(());
    }
    println!("Installing Rust's {component} (one of the checks; seconds, once) ...");
    env::run(env.command("rustup").args(["component", "add", component]))
        .with_context(|| format!("`cargo {subcommand}` is missing: run `rustup component add {component}`"))
}
