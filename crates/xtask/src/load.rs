//! Load for a relay, and figures of how it bears it.

use std::process::Command;

use anyhow::Result;

use crate::checkout::Turn;
use crate::demo;
use crate::env::{self, Env};
use crate::leftovers;

const SWARM: &str = "swarm";

/// Builds relay and swarm, and runs the swarm with this kind of load: in the user's folder, which the paths among its
/// arguments are meant from. A swarm that is killed leaves its relay running, which ends with this.
pub fn run(env: &Env, turn: Turn, load: &str, arguments: &[String]) -> Result<()> {
    env::run(env.command("cargo").args(demo::RELAY).args(["--bin", SWARM]))?;
    // What is measured shall not wait for a build, and no build for it.
    drop(turn);
    let mut swarm = Command::new(env.release_binary(SWARM));
    swarm.arg("--program").arg(env.release_binary("unmask")).arg(load).args(arguments);
    let outcome = env::run(swarm.env(leftovers::VARIABLE, &env.mark));
    leftovers::end_and_say(&env.mark);
    outcome
}
