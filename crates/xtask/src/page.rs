//! The page: trunk compiles it and its worker, and leaves everything in `dist`.

use anyhow::{Context, Result};

use crate::env::{self, Env};

/// Builds the page into `dist`, where the relay's build script finds it.
pub fn build(env: &Env) -> Result<()> {
    env.find("trunk").context("no trunk on PATH: run `cargo xtask setup`")?;
    // Trunk builds offline, so that it never fetches a tool behind our back; the
    // sources therefore have to be there before.
    env::run(env.command("cargo").args(["fetch", "--target", "wasm32-unknown-unknown"]))?;
    env::run(env.command("trunk").args(["build", "--release"]).env("TRUNK_SKIP_VERSION_CHECK", "true"))
}
