//! The tools of a build: looked up by name and version, installed where missing.
//!
//! What is installed goes to a folder of our own, first on the children's search
//! path; a tool the user has in another version stays as it is.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Need};
use crate::browser;
use crate::env::{self, Env};
use crate::space::{self, GB};

/// What the tools are for; decides how many of them are needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Build and run: wasm target, trunk, wasm-bindgen, a C compiler.
    Demo,
    /// The above, and what linting, fuzzing and testing in a browser takes.
    Checks,
}

impl Purpose {
    /// Bytes to have free for a build from nothing: no measurement, but what was always enough.
    fn disk(self) -> u64 {
        match self {
            Purpose::Demo => 3 * GB,
            Purpose::Checks => 12 * GB,
        }
    }
}

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// A tool that `cargo install` builds from its sources.
struct CargoTool {
    package: &'static str,
    /// Executables that must all be there in this version.
    programs: &'static [&'static str],
    version: String,
    /// Whether the lock file it was published with is used.
    is_locked: bool,
    minutes_on_two_cores: u32,
    why: &'static str,
}

/// Makes sure that every tool for `purpose` is there, installing what is missing.
///
/// # Errors
/// Where something is missing and may not be installed, or the installation fails; the
/// message is the line to run by hand.
pub fn ensure(env: &Env, purpose: Purpose) -> Result<()> {
    space::warn_if_short(env, purpose.disk());
    let mut needs = vec![Need::c_compiler()];
    if purpose == Purpose::Checks {
        needs.extend([Need::cpp_compiler(), Need::browser(), Need::driver(), Need::firefox(), Need::vulkan()]);
    }
    apt::ensure(env, &needs)?;
    ensure_wasm_target(env)?;
    if purpose == Purpose::Checks {
        ensure_component(env, "rustfmt", "fmt")?;
        ensure_component(env, "clippy", "clippy")?;
    }
    let mut has_installed = false;
    for tool in cargo_tools(env, purpose)? {
        has_installed |= ensure_cargo_tool(env, &tool)?;
    }
    if has_installed {
        // Half a gigabyte that nothing reads again.
        let build_dir = env.tools_dir.join("build");
        std::fs::remove_dir_all(&build_dir).with_context(|| format!("cannot remove {}", build_dir.display()))?;
    }
    Ok(())
}

fn cargo_tools(env: &Env, purpose: Purpose) -> Result<Vec<CargoTool>> {
    let lock_path = env.root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock_path).with_context(|| format!("cannot read {}", lock_path.display()))?;
    let bindgen = locked_version(&lock, "wasm-bindgen")
        .with_context(|| format!("{} names no wasm-bindgen: is it complete?", lock_path.display()))?;
    let mut tools = vec![
        CargoTool {
            package: "trunk",
            programs: &["trunk"],
            version: "0.21.14".into(),
            is_locked: true,
            minutes_on_two_cores: 5,
            why: "it bundles the page",
        },
        CargoTool {
            package: "wasm-bindgen-cli",
            // The test runner is installed with it, and has to be of the same version.
            programs: &["wasm-bindgen", "wasm-bindgen-test-runner"],
            version: bindgen.to_owned(),
            is_locked: false,
            minutes_on_two_cores: 2,
            why: "it writes the JavaScript around the wasm, and must match the version in Cargo.lock",
        },
    ];
    if purpose == Purpose::Checks {
        tools.extend([
            CargoTool {
                package: "wasm-pack",
                programs: &["wasm-pack"],
                version: "0.15.1".into(),
                is_locked: true,
                minutes_on_two_cores: 2,
                why: "it runs the tests of the page in a browser",
            },
            CargoTool {
                package: "cargo-deny",
                programs: &["cargo-deny"],
                version: "0.20.2".into(),
                is_locked: true,
                minutes_on_two_cores: 2,
                why: "it knows the licences and sources of all dependencies",
            },
        ]);
        // Where there is one, whichever it is, and where there is no Firefox, none is built.
        if browser::firefox(env).is_some() && (env.find("geckodriver").is_none() || is_ours(env, "geckodriver")) {
            tools.push(CargoTool {
                package: "geckodriver",
                programs: &["geckodriver"],
                version: "0.37.1".into(),
                is_locked: true,
                minutes_on_two_cores: 2,
                why: "the tests drive Firefox through it",
            });
        }
    }
    Ok(tools)
}

/// True where the tool had to be installed.
fn ensure_cargo_tool(env: &Env, tool: &CargoTool) -> Result<bool> {
    let CargoTool { package, version, why, .. } = tool;
    let outdated = tool.programs.iter().find_map(|program| match found_version(env, program) {
        Some(found) if found == *version => None,
        other => Some((program, other)),
    });
    let Some((program, found)) = outdated else { return Ok(false) };
    match found {
        Some(found) => println!("{program} {found} is on PATH, {version} is needed; yours stays as it is."),
        None => println!("{program} is not on PATH."),
    }
    println!(
        "Installing {package} {version} into {} ({why}; about {} minutes on 2 cores, once) ...",
        env.tools_dir.display(),
        tool.minutes_on_two_cores
    );
    let mut install = env.command("cargo");
    install.args(["install", package, "--version", &format!("={version}"), "--force", "--root"]).arg(&env.tools_dir);
    if tool.is_locked {
        install.arg("--locked");
    }
    // Tools run for seconds: a quick build is worth more than a quick tool.
    install
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_TARGET_DIR", env.tools_dir.join("build"));
    let by_hand = format!("cargo install {package}@{version}{}", if tool.is_locked { " --locked" } else { "" });
    env::run(&mut install)
        .with_context(|| format!("cannot install {package} {version}; run `{by_hand}` yourself and start again"))?;
    for program in tool.programs {
        match found_version(env, program) {
            Some(found) if found == *version => {}
            other => bail!(
                "{package} {version} was installed, but `{program} --version` says {}; look into {}",
                other.as_deref().unwrap_or("nothing"),
                env.tools_dir.display()
            ),
        }
    }
    Ok(true)
}

fn is_ours(env: &Env, program: &str) -> bool {
    env.find(program).is_some_and(|path| path.starts_with(&env.tools_dir))
}

fn found_version(env: &Env, program: &str) -> Option<String> {
    env.find(program)?;
    env::read(env.command(program).arg("--version")).and_then(|text| version_word(&text).map(str::to_owned))
}

fn ensure_wasm_target(env: &Env) -> Result<()> {
    let is_there = || {
        env::read(env.command("rustc").args(["--print", "target-libdir", "--target", WASM_TARGET]))
            .and_then(|dir| Path::new(&dir).read_dir().ok()?.next())
            .is_some()
    };
    if is_there() {
        return Ok(());
    }
    println!("Installing Rust's {WASM_TARGET} (the page is compiled to it; seconds, once) ...");
    env::run(env.command("rustup").args(["target", "add", WASM_TARGET])).with_context(|| {
        format!(
            "the target {WASM_TARGET} is missing: run `rustup target add {WASM_TARGET}`, or install it with your Rust"
        )
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

/// The version in what `--version` prints: `trunk 0.21.14` or `ChromeDriver 120.0.1 (...)`.
pub fn version_word(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
}

/// The version of `package` in a Cargo.lock.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    lines.find(|line| line.trim() == name)?;
    lines.next()?.trim().strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_version_is_that_of_the_whole_name() {
        let lock = "[[package]]\nname = \"wasm-bindgen-futures\"\nversion = \"0.4.9\"\n\n\
                    [[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\nsource = \"x\"\n";
        assert_eq!(locked_version(lock, "wasm-bindgen"), Some("0.2.130"));
        assert_eq!(locked_version(lock, "wasm"), None);
    }

    #[test]
    fn versions_are_read_from_what_tools_print() {
        assert_eq!(version_word("wasm-bindgen 0.2.130"), Some("0.2.130"));
        assert_eq!(version_word("ChromeDriver 156.0.8078.79 (a21ce9-refs)"), Some("156.0.8078.79"));
        assert_eq!(version_word("Google Chrome 120.0.1 "), Some("120.0.1"));
        assert_eq!(version_word("no version"), None);
    }
}
