//! `unmask sweep`: trains one config with every combination of some of its values.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use unmask_data::datasets::default_cifar10_folder;
use unmask_experiments::sweep::{Axis, SweepRequest, run, run_part};
use unmask_model::device;
use unmask_simulation::Config;

use crate::{
    Failure, commit,
    display::Display,
    interrupt::Interrupt,
    part::{self, PartArgument},
};

const HELP: &str = "\
Example: what masks cost at two batch sizes, each with three seeds

    unmask train --example > my.toml
    unmask sweep --config my.toml --vary 'defence=none; random-binary:0.5; random-binary:0.8' --vary 'batch=8; 16' \\
        --seeds 3 --out sweep

These are 3 x 2 x 3 trainings. Each is the same as `unmask train` with the same --set. sweep/ then holds sweep.html
(means with their 95 % intervals), sweep.csv and sweep.json. Finished trainings are kept: after Ctrl-C or a power cut,
the same command of the same build resumes. --part i/n computes one of n parts, which `unmask merge` then combines.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Sweep {
    /// The config, a TOML file; `unmask train --example` prints one.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Override a key of the config in all trainings; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// A key with its values, separated by semicolons; repeat it to train every combination.
    #[arg(long, value_name = "KEY=V1; V2")]
    vary: Vec<Axis>,
    /// Repeat each training with this many seeds, counted up from the config's.
    #[arg(long, value_name = "K", default_value_t = 1)]
    seeds: u64,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`; same as the config's key data-dir.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// Threads to compute with; by default the config's number, or as many as there are processors. No result depends
    /// on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Folder for the results; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    part: PartArgument,
}

impl Sweep {
    /// Runs the unfinished trainings and prints where the results are.
    ///
    /// # Errors
    /// [`Failure::Input`] if config or data cannot work; [`Failure::Other`] if the machine fails, or Ctrl-C ended the
    /// run before the last training.
    pub fn run(self) -> Result<(), Failure> {
        if self.threads == Some(0) {
            return Err(Failure::Input(anyhow!("0 threads compute nothing; give --threads 1 or more")));
        }
        let path = self.config.display();
        let read = std::fs::read_to_string(&self.config).with_context(|| format!("{path} cannot be read"));
        let text = read.map_err(Failure::Input)?;
        let base = Config::read(&text, &self.overrides).with_context(|| path.to_string()).map_err(Failure::Input)?;
        let device = device::open_blocking(base.device).map_err(|error| Failure::Other(error.into()))?;
        let request = SweepRequest {
            config: &text,
            set: &self.overrides,
            vary: &self.vary,
            seeds: self.seeds,
            cifar10: self.cifar10.clone().unwrap_or_else(default_cifar10_folder),
            device: &device,
            threads: self.threads,
            commit: commit(),
            out: &self.out,
        };
        let interrupt = Interrupt::listen();
        let part = self.part.open(&self.out, &interrupt)?;
        let folder = part.as_ref().map_or(self.out.as_path(), |part| part.path());
        let mut display = Display::new("sweep", folder.to_owned());
        let mut on_event = |event: unmask_experiments::ExperimentEvent<'_>| {
            display.show(event);
            interrupt.flow()
        };
        let Some(part) = part else {
            let done = run(&request, &mut on_event);
            display.finish();
            return match done? {
                Some(page) => {
                    println!("{}", page.display());
                    Ok(())
                }
                None => Err(Failure::Other(anyhow!(
                    "stopped; finished trainings are kept, and the same command resumes the sweep"
                ))),
            };
        };
        let done = run_part(&request, &part, &mut on_event);
        display.finish();
        part::end(&part, done?)
    }
}
