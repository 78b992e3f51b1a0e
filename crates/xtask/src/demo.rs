//! Starts a classroom from a fresh checkout.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::page;
use crate::site::{self, Site};
use crate::tools::{self, Purpose};

/// Builds the relay together with a small test. Only then does cargo compile the dependencies with the features that
/// the checks use, so that a machine that runs both compiles them once.
pub const RELAY: [&str; 7] = ["build", "--release", "--workspace", "--bin", "unmask", "--test", "threads"];

/// Builds what is missing, then becomes `unmask relay` with `arguments`. Optional parts are built during the lesson.
pub fn run(env: &Env, turn: Turn, arguments: &[String]) -> Result<ExitCode> {
    if arguments.iter().any(|argument| argument == "--solo") {
        if let Some(other) = arguments.iter().find(|argument| *argument != "--solo") {
            bail!(
                "with --solo there is no {other:?}: settings stand in the lesson's link, such as \
                 http://localhost:{PORT}/?model=vit_nano_patch8_32#scene=4"
            );
        }
        return play_alone(env, turn);
    }
    let program = env.release_binary("unmask");
    let is_first = !program.exists();
    if is_first {
        println!("The first start builds everything: 12 minutes on two cores of an AMD EPYC. Later ones take seconds.");
    }
    let asks_for_help = arguments.iter().any(|argument| argument == "--help" || argument == "-h");
    let program = if program.exists() && asks_for_help {
        program
    } else {
        let watch = Watch::start();
        tools::ensure(env, Purpose::Demo)?;
        watch.say("Building the pages and the trainer for the CPU", is_first);
        page::build(env)?;
        watch.say("Building the relay", is_first);
        let program = build_program(env, None)?;
        watch.say("Starting the lesson", is_first);
        program
    };
    let has_gpu = page::has_gpu(env)?;
    // A lesson builds nothing, so other jobs need not wait for its end.
    drop(turn);
    println!("The program: {}", program.display());
    if !has_gpu && !asks_for_help {
        build_gpu_beside(env)?;
    }
    // Runs in the user's current folder, so that relative paths among the arguments work.
    let mut relay = Command::new(program);
    relay.args(relay_arguments(arguments)).env(page::GPU_FOLDER, page::gpu_folder(env));
    env::become_process(relay)
}

/// The port of the lesson without a relay.
const PORT: u16 = 8090;

/// Builds the lesson without a relay, serves its folder to this machine and opens it, until Ctrl-C.
fn play_alone(env: &Env, turn: Turn) -> Result<ExitCode> {
    tools::ensure(env, Purpose::Demo)?;
    let folder = page::build_solo(env, page::has_gpu(env)?)?;
    drop(turn);
    let site = Site::serve(&folder, "/", PORT, site::kind)
        .with_context(|| format!("port {PORT} cannot be used: end the program that uses it"))?;
    println!("The lesson: {}\nIts folder, for any web server: {}", site.link(), folder.display());
    if !folder.join(page::GPU_LOADER).exists() {
        println!(
            "It trains on the CPU. To add the trainer for graphics cards (WebGPU), run `cargo xtask solo`, which takes minutes."
        );
    }
    if let Some(open) = env.find("xdg-open") {
        // Without a desktop the address is there to be typed.
        let _ = Command::new(open).arg(site.link()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
    loop {
        std::thread::park();
    }
}

/// Prints the time that each stage took.
struct Watch(Instant);

impl Watch {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn say(&self, stage: &str, is_first: bool) {
        let seconds = self.0.elapsed().as_secs();
        let before = if is_first { format!("[{} min {:02} s] ", seconds / 60, seconds % 60) } else { String::new() };
        println!("{before}{stage} ...");
    }
}

/// Starts the build of the WebGPU trainer and returns. The trainer is for tabs with a graphics card. Ctrl-C in the
/// lesson stops the build too; the next lesson continues it.
fn build_gpu_beside(env: &Env) -> Result<()> {
    let log = env.target_dir.join("webgpu.log");
    let output = fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let this = std::env::current_exe().context("this program has no path")?;
    let mut build = match env.find("nice") {
        Some(nice) => {
            let mut command = Command::new(nice);
            command.args(["-n", "19"]).arg(this);
            command
        }
        None => Command::new(this),
    };
    build.arg("webgpu").stdin(Stdio::null()).stderr(output);
    build.spawn().context("cannot build the WebGPU trainer")?;
    println!(
        "Tabs train on the CPU right away. The trainer for graphics cards (WebGPU) is built during the lesson. This \
         takes longer than the other builds; the compiler's output is in {}.",
        log.display()
    );
    Ok(())
}

/// Builds the WebGPU trainer if it is missing, and prints when it is ready.
pub fn build_gpu(env: &Env, turn: Turn) -> Result<ExitCode> {
    let begun = Instant::now();
    page::build_gpu(env)?;
    drop(turn);
    println!(
        "The WebGPU trainer is ready after {} min: tabs opened from now on use it if there is a graphics card.",
        begun.elapsed().as_secs().div_ceil(60)
    );
    Ok(ExitCode::SUCCESS)
}

/// The lesson that comes with the program.
const LESSON: &str = "assets/lesson.unmask";

/// Builds what is missing, then records a lesson into `file`.
pub fn record_lesson(env: &Env, turn: Turn, file: Option<PathBuf>) -> Result<ExitCode> {
    tools::ensure(env, Purpose::Demo)?;
    page::build(env)?;
    let program = build_program(env, None)?;
    drop(turn);
    let mut record = Command::new(program);
    record.arg("record").arg(file.unwrap_or_else(|| env.root.join(LESSON)));
    env::become_process(record)
}

/// Builds `unmask` with the page in `dist` for this machine, or for Windows, and returns its path.
pub fn build_program(env: &Env, windows: Option<&str>) -> Result<PathBuf> {
    let target = windows.map(|target| ["--target", target]);
    env::run(env.command("cargo").args(RELAY).args(target.into_iter().flatten()))?;
    Ok(match windows {
        Some(target) => env.target_dir.join(target).join("release/unmask.exe"),
        None => env.release_binary("unmask"),
    })
}

fn relay_arguments(arguments: &[String]) -> Vec<&str> {
    // The page opens, and the scene of the trade-off has something to show.
    let defaults = ["--open", "--shadow-room"];
    let mut all = vec!["relay"];
    all.extend(defaults.into_iter().filter(|default| !arguments.iter().any(|argument| argument == default)));
    all.extend(arguments.iter().map(String::as_str));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo refuses to build a missing test, and only the next lesson would show it.
    #[test]
    fn the_test_that_is_built_along_is_there() {
        let name = RELAY.last().expect("words");
        let file = format!("{}/../engine/tests/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&file).exists(), "{file}");
    }

    #[test]
    fn what_a_demo_adds_is_added_once() {
        let arguments = ["--headless", "4"].map(str::to_owned);
        assert_eq!(relay_arguments(&arguments), ["relay", "--open", "--shadow-room", "--headless", "4"]);
        assert_eq!(relay_arguments(&["--open".to_owned()]), ["relay", "--shadow-room", "--open"]);
    }
}
