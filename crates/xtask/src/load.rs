//! Runs load against a relay and measures it.

use std::process::Command;

use anyhow::Result;

use crate::checkout::Turn;
use crate::demo;
use crate::env::{self, Env};
use crate::leftovers;

const SWARM: &str = "swarm";

/// Builds the relay and the swarm, and runs the swarm with this kind of load in the user's folder, so that relative
/// paths among the arguments work. If the swarm is killed, its relay is ended here.
pub fn run(env: &Env, turn: Turn, load: &str, arguments: &[String]) -> Result<()> {
    env::run(env.command("cargo").args(demo::RELAY).args(["--bin", SWARM]))?;
    // The measurement needs no lock: it does not build, and other builds should not wait for it.
    drop(turn);
    let mut swarm = Command::new(env.release_binary(SWARM));
    swarm.arg("--program").arg(env.release_binary("unmask")).arg(load).args(arguments);
    let outcome = env::run(swarm.env(leftovers::VARIABLE, &env.mark));
    leftovers::end_and_say(&env.mark);
    outcome
}
