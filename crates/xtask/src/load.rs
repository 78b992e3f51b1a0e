//! Load for a relay, and figures of how it bears it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::checkout::Turn;
use crate::demo;
use crate::env::{self, Env};

const SWARM: &str = "swarm";

/// Builds relay and swarm, then becomes the swarm with this kind of load.
pub fn run(env: &Env, turn: Turn, load: &str, arguments: &[String]) -> Result<ExitCode> {
    env::run(env.command("cargo").args(demo::RELAY).args(["--bin", SWARM]))?;
    // What is measured shall not wait for a build, and no build for it.
    drop(turn);
    let mut swarm = Command::new(env.release_binary(SWARM));
    swarm.arg("--program").arg(env.release_binary("unmask")).arg(load).args(arguments);
    env::become_process(swarm).context(SWARM)
}
