//! The checks in the order they run: quick ones, and those that others need, come first.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{BROWSER, NATIVE, cargo, native};
use crate::env::{self, Env};
use crate::fuzz::Fuzz;
use crate::runner::{Step, TestNotes};
use crate::tools::{self, Purpose};
use crate::{
    apt::{self, Need},
    browser, page, programs, python, tidy,
};

pub const ALL: &[Step] = &[
    Step { name: "tools", about: "install missing tools", needs: &[], beside: None, run: tools_step },
    Step {
        name: "tidy",
        about: "rules of the repository that no compiler checks",
        needs: &[],
        beside: None,
        run: |env, _| tidy::run(env),
    },
    Step {
        name: "deny",
        about: "licences, bans, sources and advisories of all dependencies",
        needs: &["tools"],
        beside: None,
        run: deny,
    },
    Step { name: "fmt", about: "cargo fmt --check", needs: &["tools"], beside: None, run: fmt },
    Step {
        name: "page",
        about: "build the pages and the lesson without a relay into dist, and build the WebGPU trainer",
        needs: &["tools"],
        beside: None,
        run: pages,
    },
    Step {
        name: "clippy",
        about: "clippy on the native crates and their tests",
        needs: &["page"],
        beside: None,
        run: clippy,
    },
    Step {
        name: "clippy-wasm",
        about: "clippy on the pages and their tests, without Burn on WebGPU, and on the room in a browser",
        needs: &["tools"],
        beside: None,
        run: clippy_wasm,
    },
    Step { name: "unit", about: "unit tests of the native crates", needs: &["page"], beside: None, run: unit },
    Step {
        name: "integration",
        about: "tests/ of the native crates, end to end",
        needs: &["page"],
        beside: None,
        run: integration,
    },
    Step {
        name: "fuzz",
        about: "30 s of fuzzing, guided by coverage",
        needs: &["page"],
        beside: Some("integration"),
        run: fuzz,
    },
    Step {
        name: "doctest",
        about: "examples in the documentation",
        needs: &["page"],
        beside: Some("integration"),
        run: doctest,
    },
    Step {
        name: "python",
        about: "the wheel for Python, the package for Flower, and their tests",
        needs: &["tools"],
        beside: Some("integration"),
        run: python::run,
    },
    Step { name: "load", about: "times of a relay under load, alone", needs: &["page"], beside: None, run: load },
    Step {
        name: "doc",
        about: "documentation without a warning",
        needs: &["clippy", "clippy-wasm"],
        beside: Some("integration"),
        run: doc,
    },
    Step {
        name: "browser",
        about: "tests of the page in headless Chromium",
        needs: &["tools"],
        beside: Some("integration"),
        run: browser_tests,
    },
];

/// The step of `--gpu`. It compiles Burn and wgpu natively, which takes longer than all other steps together.
pub const GPU: Step = Step {
    name: "gpu",
    about: "clippy on Burn's side, the engine beside Burn, and a graphics adapter",
    needs: &[],
    beside: None,
    run: native_gpu,
};

/// Steps that build nothing in the shared target folder, so they need not wait for it.
pub const WITHOUT_BUILD: [&str; 4] = ["tools", "tidy", "deny", "fmt"];

/// What runs in a browser, without Burn on WebGPU, to check it: Burn takes longer to check than all else. One selection
/// of both crates has one set of features, so that their dependencies are checked once.
const BROWSER_CPU: [&str; 9] = [
    "--release",
    "--package",
    "unmask-tab",
    "--package",
    "unmask-solo",
    "--features",
    "unmask-tab/train",
    "--target",
    "wasm32-unknown-unknown",
];

/// Arguments of clippy after `--`.
const LINTS: [&str; 2] = ["-D", "warnings"];

fn tools_step(env: &Env, _: &mut TestNotes) -> Result<()> {
    tools::ensure(env, Purpose::Checks)?;
    if let Some(warning) = browser::mismatch(env) {
        println!("Warning: {warning}");
    }
    Ok(())
}

fn pages(env: &Env, _: &mut TestNotes) -> Result<()> {
    page::build(env)?;
    page::build_gpu(env)?;
    page::build_solo(env, true).map(drop)
}

/// Checks the rules of `deny.toml`. The database of advisories is on another server, which may be unreachable.
fn deny(env: &Env, tests: &mut TestNotes) -> Result<()> {
    const DENY: [&str; 3] = ["deny", "--workspace", "--locked"];
    env::run(cargo(env, &DENY).args(["check", "bans", "licenses", "sources"]))?;
    let fetched = cargo(env, &DENY).args(["fetch", "db"]).output().context("cannot run `cargo deny fetch db`")?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let why = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no word of why");
        let reason = "the RustSec database cannot be fetched here; known vulnerabilities were not checked";
        println!("Warning: {reason}: {why}");
        tests.skip("advisories", &format!("{reason}: {why}"));
        return Ok(());
    }
    env::run(cargo(env, &DENY).args(["--offline", "check", "advisories"]))
}

fn fmt(env: &Env, _: &mut TestNotes) -> Result<()> {
    let mut command = cargo(env, &["fmt", "--check", "--all"]);
    if env.plain {
        // rustfmt ignores CARGO_TERM_COLOR.
        command.args(["--", "--color", "never"]);
    }
    env::run(&mut command).context("run `cargo fmt --all`")
}

fn clippy(env: &Env, _: &mut TestNotes) -> Result<()> {
    env::run(lint_all(&mut native(env, "clippy", &[])))
}

fn clippy_wasm(env: &Env, _: &mut TestNotes) -> Result<()> {
    env::run(lint_all(cargo(env, &["clippy"]).args(BROWSER_CPU)))
}

fn lint_all(command: &mut Command) -> &mut Command {
    command.args(["--all-targets", "--"]).args(LINTS)
}

fn run_tests(command: &mut Command, tests: &mut TestNotes) -> Result<()> {
    env::run_watched(command, |line| tests.read(line))
}

fn unit(env: &Env, tests: &mut TestNotes) -> Result<()> {
    programs::run(env, native(env, "test", &["--no-fail-fast", "--lib", "--bins"]), tests)
}

fn integration(env: &Env, tests: &mut TestNotes) -> Result<()> {
    let mut command = native(env, "test", &["--no-fail-fast", "--test", "*"]);
    python::with_flower(env, &mut command)?;
    python::with_hyperqueue(env, &mut command)?;
    programs::run(env, command, tests)
}

fn load(env: &Env, tests: &mut TestNotes) -> Result<()> {
    run_tests(&mut native(env, "test", &["--no-fail-fast", "--test", programs::ALONE]), tests)
}

fn native_gpu(env: &Env, tests: &mut TestNotes) -> Result<()> {
    tools::ensure(env, Purpose::Demo)?;
    apt::ensure(env, &[Need::vulkan()])?;
    env::run(lint_all(cargo(env, &["clippy"]).args(BROWSER)))?;
    let model = ["--release", "--package", "unmask-model", "--features", "flex,gpu"];
    env::run(lint_all(cargo(env, &["clippy"]).args(model)))?;
    let documented = ["--no-deps", "--lib", "--bins"];
    env::run(cargo(env, &["doc"]).args(BROWSER).args(documented).env("RUSTDOCFLAGS", "-D warnings"))?;
    run_tests(cargo(env, &["test", "--no-fail-fast"]).args(model), tests)?;
    let program = ["build", "--release", "--package", "unmask", "--features", "gpu"];
    // Another folder, to keep the program without graphics adapters.
    env::run(cargo(env, &program).env("CARGO_TARGET_DIR", env.target_dir.join("gpu")))
}

fn fuzz(env: &Env, _: &mut TestNotes) -> Result<()> {
    Fuzz::for_seconds(5).run(env)
}

fn doctest(env: &Env, tests: &mut TestNotes) -> Result<()> {
    run_tests(&mut native(env, "test", &["--doc"]), tests)
}

fn browser_tests(env: &Env, tests: &mut TestNotes) -> Result<()> {
    // Built together with a small test for the same reason as the pages' builder.
    const RUNNER: [&str; 6] =
        ["build", "--bin", "browser-runner", "--test", "trunk", "--features=unmask-bundle/browser"];
    let driver = browser::required_driver(env)?;
    env::run(env.command("cargo").args(RUNNER).args(NATIVE))?;
    let mut command = env.command("cargo");
    command
        .arg("test")
        .args(BROWSER)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", env.release_binary("browser-runner"))
        // The runner takes the first driver that a variable names.
        .env_remove("GECKODRIVER")
        .env("CHROMEDRIVER", driver)
        // WebGPU on an emulated GPU takes seconds for each training step; the defaults are 20 s and 5 s.
        .env("WASM_BINDGEN_TEST_TIMEOUT", "900")
        .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "180");
    run_tests(&mut command, tests)
}

fn doc(env: &Env, _: &mut TestNotes) -> Result<()> {
    let documented = ["--no-deps", "--lib", "--bins"];
    // `--examples` makes cargo use the dev-dependencies' features here too. An example has the name of the browser's
    // program, which is documented for its own target below.
    let all = [&documented[..], &["--examples", "--exclude", "unmask-solo"]].concat();
    let browser = [&BROWSER_CPU[..], &documented, &["--examples"]].concat();
    for command in [&mut native(env, "doc", &all), cargo(env, &["doc"]).args(browser)] {
        env::run(reuse_checks_of_clippy(env, command.env("RUSTDOCFLAGS", "-D warnings")))?;
    }
    Ok(())
}

/// Makes cargo call clippy as `cargo clippy` does, so that it need not check our crates again for their documentation.
fn reuse_checks_of_clippy<'a>(env: &Env, command: &'a mut Command) -> &'a mut Command {
    let sysroot = env::read(env.command("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let driver = Path::new(&sysroot).join(format!("bin/clippy-driver{}", std::env::consts::EXE_SUFFIX));
    if !driver.is_file() {
        return command;
    }
    let lints: String = LINTS.iter().map(|lint| format!("{lint}__CLIPPY_HACKERY__")).collect();
    command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", lints)
}
