//! The command line: parses arguments and runs a job.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::browser::Other;
use crate::checkout::{self, Turn};
use crate::env::Env;
use crate::fuzz::Fuzz;
use crate::peers::Peers;
use crate::single::{self, Bench, Chaos, Example, Lessons, Test};
use crate::tools::Purpose;
use crate::windows::Windows;
use crate::{demo, dist, leftovers, load, page, runner, steps, tools};

/// Set-up, build, test and demo
///
/// All jobs build in one folder, ~/.cache/unmask/target (set UNMASK_TARGET_DIR to change it), so that each dependency
/// is compiled only once. If another checkout is building there, a job waits. Plain cargo builds in ./target and
/// recompiles dependencies for each other choice of packages; `test`, `bench` and `example` do not.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Build the page and the relay, and start a classroom
    Demo {
        /// Passed on to `unmask relay`, for example `--headless 4`; `--solo` alone plays the lesson in the browser,
        /// without a relay
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        relay: Vec<String>,
    },
    /// Run every check, and print a summary with times
    CheckAll(CheckAll),
    Test(Test),
    /// Run the end-to-end tests in Firefox; the checks only run a short lesson there
    ///
    /// Skips tests that need a setting only Chromium has, such as a dark scheme.
    Firefox(Lessons),
    /// Run the end-to-end tests in WebKit, the engine of Safari; the checks only run a short lesson there
    ///
    /// The browser is WebKitGTK's, on a screen of Xvfb. Skips tests that need a setting only Chromium has, such as a
    /// dark scheme, and those that need WebGPU.
    Webkit(Lessons),
    /// Take the pictures of README and docs: each scene on the projector and a phone, in light and dark
    ///
    /// Plays a lesson in Chromium, with robots on this machine; takes some minutes. The pictures go to
    /// docs/images/lesson.
    Screenshots,
    Bench(Bench),
    BenchPeers(Peers),
    Example(Example),
    /// Run honest clients beside hostile strangers in one room, and measure both
    ///
    /// For all options: `cargo xtask hostile -- --help`.
    Hostile {
        /// Passed on, for example `--idle 500 --seconds 20`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Let clients join and leave for an hour, and measure the relay's memory
    ///
    /// For all options: `cargo xtask soak -- --help`.
    Soak {
        /// Passed on, for example `--clients 200 --minutes 60`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    Chaos(Chaos),
    /// Run whole rooms in simulated time: people, teacher, attacks, disk and network, as seeds draw them
    ///
    /// The first failing seed is shrunk to its shortest script. `cargo check-all` runs 200 seeds. Ten thousand take ten
    /// minutes on two cores.
    Simulate {
        /// Number of seeds
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        seeds: u64,
        /// The first seed
        #[arg(long, value_name = "SEED", default_value_t = 0)]
        from: u64,
    },
    Fuzz(Fuzz),
    /// Build the trainer for tabs with a graphics card; `cargo demo` does so during the first lesson
    Webgpu,
    /// Build the lesson that needs no relay into dist/solo, a folder for any web server
    Solo,
    /// Pack the program with its page, README, licences, completions and manual pages into one archive
    ///
    /// Writes dist/unmask-VERSION-TARGET.tar.gz (for Windows .zip) in the target folder, with its SHA-256 beside it.
    /// Users of the archive need no compiler.
    Dist {
        /// Pack for Windows: x86_64-pc-windows-gnu. Otherwise for this machine's kind of system
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
    },
    Windows(Windows),
    /// Record the lesson that comes with the program, with headless clients on the sample photographs
    ///
    /// Takes some minutes. The file goes to assets/lesson.unmask, which the next build embeds.
    RecordLesson {
        /// Another path for the file
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Install the tools that the demo and the checks need, and nothing else
    Setup {
        /// Only what the demo needs: no browser, no driver, no cargo-deny
        #[arg(long)]
        demo: bool,
    },
}

/// Which steps to run, and when to stop.
#[derive(Args, Default)]
pub struct CheckAll {
    /// Run only this step (may be given more than once)
    #[arg(long, value_name = "STEP")]
    pub only: Vec<String>,
    /// Skip this step (may be given more than once)
    #[arg(long, value_name = "STEP")]
    pub skip: Vec<String>,
    /// Print the steps in their order, and stop
    #[arg(long)]
    pub list: bool,
    /// Stop at the first step that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Afterwards test the native code for graphics adapters, and compare the engine with Burn. Takes a separate build;
    /// use it after changes to devices
    #[arg(long)]
    pub gpu: bool,
}

/// Parses the process's arguments and runs the job.
pub fn run() -> Result<ExitCode> {
    match Cli::parse().job {
        Job::Demo { relay } => {
            let (env, turn) = building_env()?;
            demo::run(&env, turn, &relay)
        }
        Job::CheckAll(options) => {
            let mut selected = runner::select(steps::ALL, &options.only, &options.skip)?;
            if options.gpu {
                selected.push(&steps::GPU);
            }
            if options.list {
                for step in selected {
                    println!("{:<14} {}", step.name, step.about);
                }
                return Ok(ExitCode::SUCCESS);
            }
            let env = Env::detect()?;
            leftovers::end_when_interrupted(&env.mark)?;
            let builds = selected.iter().any(|step| !steps::WITHOUT_BUILD.contains(&step.name));
            let _turn = builds.then(|| checkout::take_over(&env.target_dir, &env.root)).transpose()?;
            let report = runner::run(&env, &selected, options.fail_fast);
            print!("{report}");
            Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Job::Test(test) => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            test.run(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::Firefox(lessons) => elsewhere(&lessons, Other::Firefox),
        Job::Webkit(lessons) => elsewhere(&lessons, Other::WebKit),
        Job::Screenshots => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            single::screenshots(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::Bench(bench) => {
            let (env, _turn) = building_env()?;
            bench.run(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::BenchPeers(peers) if peers.list => peers.print_names().map(|()| ExitCode::SUCCESS),
        Job::BenchPeers(peers) => {
            let (env, turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            peers.run(&env, turn).map(|()| ExitCode::SUCCESS)
        }
        Job::Example(example) => {
            let (env, turn) = building_env()?;
            example.run(&env, turn)
        }
        Job::Hostile { options } => {
            let (env, turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            load::run(&env, turn, "hostile", &options).map(|()| ExitCode::SUCCESS)
        }
        Job::Soak { options } => {
            let (env, turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            load::run(&env, turn, "soak", &options).map(|()| ExitCode::SUCCESS)
        }
        Job::Chaos(chaos) => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            chaos.run(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::Simulate { seeds, from } => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            single::simulate(&env, from..from.saturating_add(seeds)).map(|()| ExitCode::SUCCESS)
        }
        Job::Fuzz(fuzz) => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            fuzz.run(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::Webgpu => {
            let (env, turn) = building_env()?;
            demo::build_gpu(&env, turn)
        }
        Job::Solo => {
            let (env, _turn) = building_env()?;
            tools::ensure(&env, Purpose::Demo)?;
            println!("{}", page::build_solo(&env, true)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Job::Dist { target } => {
            let (env, _turn) = building_env()?;
            dist::run(&env, target.as_deref())
        }
        Job::Windows(windows) => {
            let (env, _turn) = building_env()?;
            leftovers::end_when_interrupted(&env.mark)?;
            windows.run(&env).map(|()| ExitCode::SUCCESS)
        }
        Job::RecordLesson { file } => {
            let (env, turn) = building_env()?;
            demo::record_lesson(&env, turn, file)
        }
        Job::Setup { demo } => {
            tools::ensure(&Env::detect()?, if demo { Purpose::Demo } else { Purpose::Checks })?;
            println!("Everything needed is installed.");
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn elsewhere(lessons: &Lessons, browser: Other) -> Result<ExitCode> {
    let (env, _turn) = building_env()?;
    leftovers::end_when_interrupted(&env.mark)?;
    lessons.run(&env, browser).map(|()| ExitCode::SUCCESS)
}

/// The environment of a job that builds in the shared target folder, and its lock on that folder.
fn building_env() -> Result<(Env, Turn)> {
    let env = Env::detect()?;
    let turn = checkout::take_over(&env.target_dir, &env.root)?;
    Ok((env, turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay_arguments(line: &[&str]) -> Vec<String> {
        match Cli::try_parse_from(line).expect("a valid command line").job {
            Job::Demo { relay } => relay,
            _ => panic!("{line:?} is not a demo"),
        }
    }

    #[test]
    fn relay_flags_are_passed_on_with_and_without_the_double_dash() {
        let expected = ["--headless", "4", "--open"];
        assert_eq!(relay_arguments(&["xtask", "demo", "--", "--headless", "4", "--open"]), expected);
        assert_eq!(relay_arguments(&["xtask", "demo", "--headless", "4", "--open"]), expected);
        assert!(relay_arguments(&["xtask", "demo"]).is_empty());
    }

    #[test]
    fn steps_are_selected_by_name() {
        let cli = Cli::try_parse_from(["xtask", "check-all", "--only", "tidy", "--only", "fmt", "--skip", "fmt"]);
        let Job::CheckAll(options) = cli.expect("a valid command line").job else { panic!("not check-all") };
        let names: Vec<_> = runner::select(steps::ALL, &options.only, &options.skip)
            .expect("known names")
            .iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(names, ["tidy"]);
    }
}
