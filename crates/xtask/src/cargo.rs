//! Calls of cargo for the whole workspace and for the page.

use std::process::Command;

use crate::env::Env;
use crate::{browser, page, rustc};

/// All crates, as far as they build natively. Every native step names the same packages, and targets that include the
/// dev-dependencies; cargo then sees one feature set and compiles Burn once.
pub const NATIVE: [&str; 2] = ["--release", "--workspace"];

/// The page's crate with everything that only a browser can run.
pub const BROWSER: [&str; 6] =
    ["--release", "--package", "unmask-tab", "--all-features", "--target", "wasm32-unknown-unknown"];

/// A call of cargo that tells the tests where browsers and the WebGPU trainer are.
pub fn cargo(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command("cargo");
    command.args(arguments).envs(browser::variables(env)).env(page::GPU_FOLDER, page::gpu_folder(env));
    command
}

/// A call of cargo for all crates, so that the dependencies are never recompiled for another selection.
pub fn native(env: &Env, subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(env, &[subcommand]);
    command.args(NATIVE).args(arguments);
    if subcommand == "test" {
        rustc::for_tests(&mut command);
    }
    command
}
