//! From a fresh checkout to a running classroom.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::page;
use crate::tools::{self, Purpose};

/// The relay, and a small test along with it: only then does cargo compile Burn as the checks want it, and a machine that
/// runs both compiles it once.
pub const RELAY: [&str; 7] = ["build", "--release", "--workspace", "--bin", "unmask", "--test", "oracle"];

/// Builds what is not built yet, then becomes `unmask relay` with `arguments`.
pub fn run(env: &Env, turn: Turn, arguments: &[String]) -> Result<ExitCode> {
    if !env.release_binary("unmask").exists() {
        println!(
            "The first start builds everything: 22 to 37 minutes on 2 cores of an Intel Xeon, tools included. Later ones \
             take seconds."
        );
    }
    let program = env.release_binary("unmask");
    let program = if program.exists() && arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        program
    } else {
        tools::ensure(env, Purpose::Demo)?;
        println!("Building the page ...");
        page::build(env)?;
        println!("Building the relay ...");
        build_program(env)?
    };
    // A lesson builds nothing, and nobody is to wait for its end.
    drop(turn);
    println!("The program: {}", program.display());
    // Where the user stands, not at the top folder: paths among the arguments are theirs.
    let mut relay = Command::new(program);
    relay.args(relay_arguments(arguments));
    env::become_process(relay)
}

/// Where the lesson lies that comes with the program.
const LESSON: &str = "assets/lesson.unmask";

/// Builds what is not built yet, then records a lesson into `file`.
pub fn record_lesson(env: &Env, turn: Turn, file: Option<PathBuf>) -> Result<ExitCode> {
    tools::ensure(env, Purpose::Demo)?;
    page::build(env)?;
    let program = build_program(env)?;
    drop(turn);
    let mut record = Command::new(program);
    record.arg("record").arg(file.unwrap_or_else(|| env.root.join(LESSON)));
    env::become_process(record)
}

/// Builds `unmask` with the page in `dist`, and says where it is.
pub fn build_program(env: &Env) -> Result<PathBuf> {
    env::run(env.command("cargo").args(RELAY))?;
    Ok(env.release_binary("unmask"))
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
