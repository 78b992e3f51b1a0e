//! `unmask train`: runs a federation in one process, from a config file.

mod display;

use std::{fs, path::PathBuf, time::Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use unmask_data::datasets::{DataSet, default_cifar10_folder};
use unmask_model::{device, weights::Storage};
use unmask_relay::privacy::{Mechanism, guarantee};
use unmask_simulation::{Config, EXAMPLE, Files, RunEvent, RunOutcome, add_to_record, train};

use self::display::Display;
use crate::{
    Failure,
    canaries::{NoisyRound, tried},
    commit, counted,
    interrupt::Interrupt,
    say,
};

const HELP: &str = "\
Example: five clients train on CIFAR-10, and half of every update stays with its client

    unmask data cifar10
    unmask train --example > masked.toml
    unmask train --config masked.toml --out runs/masked

and the same without a defence, for comparison:

    unmask train --config masked.toml --set defence=none --out runs/plain

A config is a TOML file; `unmask train --example` prints one that explains every key. Missing keys have defaults, and
--set KEY=VALUE overrides the file. configs/ in the repository holds more of them.

Clients and server run on this machine, with the code of the room: each client computes on its own pictures and protects
its update, and the server sees nothing else. On one kind of processor the same config gives the same weights bit for
bit, with any number of threads and after any interruption. Ctrl-C or SIGTERM writes a checkpoint; --resume continues
from it.

DIR/ then holds model.safetensors (timm's names), metrics.csv (a line for each round), loss.svg and accuracy.svg,
run.json (config, seed, commit, device, times, results) and checkpoints/ (the last two). Exit code 2: config or data
cannot work; one line says why.

Gaussian noise is put to the test at the end, with the trained weights: a guesser who knows all pictures but one tells
which of two an update holds. What it gets right is a lower bound of epsilon, beside the upper bound that holds.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Train {
    /// The config, a TOML file; --example prints one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a key of the config, such as clients=10 or defence=random-binary:0.5; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Folder of the run; created if missing. By default runs/ and the config's name.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`; same as the config's key data-dir.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// Continue from the last checkpoint in the folder of the run.
    #[arg(long)]
    resume: bool,
    /// Threads to compute with; by default as many as there are processors. The weights do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Also write order.csv (which client trained on which pictures in each round) and start.safetensors, so that
    /// another program can repeat the run.
    #[arg(long, conflicts_with = "resume")]
    write_order: bool,
    /// Trials of Gaussian noise at the end, on the CPU; 0 for none. They take two gradients each, and none under FedAvg.
    #[arg(long, value_name = "K", default_value_t = 100)]
    canaries: u32,
    /// Store the model in half precision: half the size, 11 significant bits.
    #[arg(long)]
    half: bool,
    /// Print a config that explains every key, and do nothing else.
    #[arg(long)]
    example: bool,
}

impl Train {
    /// Trains and prints where the results are.
    ///
    /// # Errors
    /// [`Failure::Input`] if config or data cannot work; [`Failure::Other`] if the machine fails, or Ctrl-C ended the
    /// run before its last round.
    pub fn run(self) -> Result<(), Failure> {
        if self.example {
            say(EXAMPLE);
            return Ok(());
        }
        let (config, out) = self.config().map_err(Failure::Input)?;
        let device = device::open_blocking(config.device).map_err(|error| Failure::Other(error.into()))?;
        let data = load(&config).map_err(Failure::Input)?;
        let storage = if self.half { Storage::F16 } else { Storage::F32 };
        let files = Files { out, resume: self.resume, write_order: self.write_order, storage, commit: commit() };
        let interrupt = Interrupt::listen();
        let mut display = Display::new(&config, &data, device.description());
        let begin = Instant::now();
        let trained = train(&config, &data, &device, &files, &mut |event| {
            display.show(event);
            interrupt.flow()
        });
        display.finish();
        let outcome = trained.map_err(|error| match error.is_input() {
            true => Failure::Input(error.into()),
            false => Failure::Other(error.into()),
        })?;
        let out = files.out.display();
        if !outcome.finished {
            let done = outcome.metrics.last().map_or(0, |metrics| metrics.round);
            return Err(Failure::Other(match done {
                0 => anyhow!("stopped before the first round; the same command starts again ({out})"),
                done => anyhow!("stopped after round {done}; --resume continues from there ({out})"),
            }));
        }
        println!("{} in {:.0} s: {out}", result(&outcome), begin.elapsed().as_secs_f64());
        if let Some(sentence) = self.try_noise(&config, &data, &outcome, &files, &interrupt)? {
            println!("{sentence}");
        }
        Ok(())
    }

    /// Tries the noise, if there is any, and adds the result to `run.json`.
    fn try_noise(
        &self,
        config: &Config,
        data: &DataSet,
        outcome: &RunOutcome,
        files: &Files,
        interrupt: &Interrupt,
    ) -> Result<Option<String>, Failure> {
        let Some(noise) = config.defence.noise().copied().filter(|_| self.canaries > 0) else { return Ok(None) };
        if config.rule.is_fedavg() {
            return Ok(Some("The noise was not tried: trials are of gradients, and FedAvg sends weights.".to_owned()));
        }
        let model = config.architecture(data.train.classes().len()).map_err(|error| Failure::Input(error.into()))?;
        let (pictures, side) = (data.train.len() as u64, model.side());
        let picture = |number: u64| {
            let index = usize::try_from(number % pictures.max(1)).unwrap_or_default();
            data.train.chw_resized(index, side).unwrap_or_default()
        };
        let (batch, threads) = (config.batch.into(), config.threads);
        let round = NoisyRound { model, state: &outcome.state, noise, batch, threads };
        let bound = match tried(round, (self.canaries, config.seed), &picture, interrupt) {
            Ok(bound) => bound,
            // The model is written all the same.
            Err(Failure::Input(error) | Failure::Other(error)) => {
                return Ok(Some(format!("noise: not tried, because {error:#}")));
            }
        };
        let mechanism = Mechanism { clip: noise.clip(), deviation: noise.deviation() };
        let rounds = outcome.metrics.last().map_or(1, |metrics| metrics.round);
        let [one, all] = [1, rounds].map(|rounds| guarantee(mechanism, rounds, bound.delta).epsilon);
        let value = serde_json::to_value(bound).map_err(|error| Failure::Other(error.into()))?;
        add_to_record(&files.out, "tried_noise", value)
            .with_context(|| format!("{} cannot be written", files.out.join("run.json").display()))
            .map_err(Failure::Other)?;
        if let Some(one) = one.filter(|one| *one < bound.epsilon) {
            return Err(Failure::Other(anyhow!(
                "the noise does not hold what it promises: epsilon of one round is at least {:.2} by {} right guesses in {} \
                 trials, and at most {one:.2} by the accountant; please report this",
                bound.epsilon,
                bound.right,
                bound.trials
            )));
        }
        let [one, all] = [one, all]
            .map(|held| held.map_or_else(|| "infinite".to_owned(), |epsilon| format!("at most {epsilon:.2}")));
        Ok(Some(format!(
            "noise: a guesser who knows all pictures but one was right in {} of {} trials, so epsilon of one round is at \
             least {:.2} ({} % confidence) at delta = {:e}; by the accountant it is {one}, and after all rounds {all}",
            bound.right,
            bound.trials,
            bound.epsilon,
            100.0 * bound.confidence,
            bound.delta,
        )))
    }

    /// The config with the command line's overrides, and the folder of the run.
    fn config(&self) -> anyhow::Result<(Config, PathBuf)> {
        let Some(path) = &self.config else {
            bail!(
                "no config is given; `unmask train --example > my.toml` writes one with every key explained, and \
                 `unmask train --config my.toml` trains by it"
            )
        };
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut overrides = self.overrides.clone();
        overrides.extend(self.threads.map(|threads| format!("threads={threads}")));
        let read = Config::read(&text, &overrides).and_then(Config::resolved);
        let read = read.and_then(|config| config.validate().map(|_| config));
        let mut config = read.with_context(|| path.display().to_string())?;
        config.data_dir = self.cifar10.clone().or(config.data_dir);
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        Ok((config, self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(stem))))
    }
}

fn load(config: &Config) -> anyhow::Result<DataSet> {
    let folder = config.data_dir.clone().unwrap_or_else(default_cifar10_folder);
    let data = DataSet::load(&config.data, &folder, config.seed)?;
    data.left_out.iter().for_each(|sentence| eprintln!("{sentence}"));
    Ok(data)
}

fn result(outcome: &RunOutcome) -> String {
    let rounds = outcome.metrics.last().map_or(0, |metrics| metrics.round);
    match outcome.last_test().and_then(|metrics| metrics.test_accuracy) {
        Some(accuracy) => format!("{}, {:.2} % of the test pictures right", counted(rounds, "round"), 100.0 * accuracy),
        None => counted(rounds, "round"),
    }
}
