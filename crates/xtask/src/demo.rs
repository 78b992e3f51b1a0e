//! From a fresh checkout to a running classroom.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::page;
use crate::tools::{self, Purpose};

/// The relay, and a small test along with it: only then does cargo compile Burn as the checks want it, and a machine that
/// runs both compiles it once.
const RELAY: [&str; 7] = ["build", "--release", "--workspace", "--bin", "unmask", "--test", "weights_state"];

/// Builds what is not built yet, then becomes `unmask relay` with `arguments`.
pub fn run(env: &Env, turn: Turn, arguments: &[String]) -> Result<ExitCode> {
    tools::ensure(env, Purpose::Demo)?;
    println!("Building the page (the first time takes about 10 minutes on 2 cores) ...");
    page::build(env)?;
    println!("Building the relay (the first time takes about 25 minutes on 2 cores) ...");
    env::run(env.command("cargo").args(RELAY))?;
    // A lesson builds nothing, and nobody is to wait for its end.
    drop(turn);
    println!("The program: {}", env.release_binary("unmask").display());
    // Where the user stands, not at the top folder: paths among the arguments are theirs.
    let mut relay = Command::new(env.release_binary("unmask"));
    relay.args(relay_arguments(arguments));
    env::become_process(relay)
}

fn relay_arguments(arguments: &[String]) -> Vec<&str> {
    let mut all = vec!["relay"];
    if !arguments.iter().any(|argument| argument == "--open") {
        all.push("--open");
    }
    all.extend(arguments.iter().map(String::as_str));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo refuses to build a test that is not there, and nobody would know before the next lesson.
    #[test]
    fn the_test_that_is_built_along_is_there() {
        let name = RELAY.last().expect("words");
        let file = format!("{}/../model/tests/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&file).exists(), "{file}");
    }

    #[test]
    fn the_projector_page_is_opened_once() {
        let arguments = ["--headless", "4"].map(str::to_owned);
        assert_eq!(relay_arguments(&arguments), ["relay", "--open", "--headless", "4"]);
        assert_eq!(relay_arguments(&["--open".to_owned()]), ["relay", "--open"]);
    }
}
