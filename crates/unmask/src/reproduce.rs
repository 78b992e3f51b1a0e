//! `unmask reproduce`: the papers' experiments.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::{anyhow, bail};
use clap::Args;
use unmask_data::datasets::default_cifar10_folder;
use unmask_experiments::{
    Experiment, ExperimentEvent, ExperimentRequest, PartFolder, Scale, estimate, reproduce, reproduce_part, verdict,
    write_overview,
};
use unmask_model::device::OpenDevice;

use crate::{
    Failure, commit, device,
    display::Display,
    interrupt::Interrupt,
    part::{self, PartArgument},
    say,
};

const HELP: &str = "\
Example: what a fine-tuned ViT loses under masks and noise, in minutes

    unmask data cifar10
    unmask reproduce vit-fine-tuned --out reports
    unmask reproduce --list

DIR/NAME/ then holds report.html (one page with our figure, the papers' numbers beside it, and a verdict computed from
the numbers), results.json, results.csv and run.json (seed, commit, device). DIR/README.md lists every claim of the
papers with what the reports in the folder found; --claims rewrites only that file.

--scale small uses nano models and CIFAR-10; all experiments take about two hours on two fast cores. --scale quick is a
shorter version for a lesson, a quarter of an hour; few of its numbers decide a claim. --scale paper uses the papers'
models and sizes, and ImageNet weights (--weights FILE) for fine-tuning. It first measures a few steps and estimates the
total time; if that is more than an hour, it asks before it starts (--yes answers). --estimate only prints the estimate;
with --device gpu it estimates for a GPU.

Finished cases are kept: after Ctrl-C or a power cut, the same command resumes. --part i/n computes one of n parts, with
exactly --seeds seeds for each training (3 at the small scale by default); `unmask merge` writes the reports. Exit code
2: pictures or weights are missing; one line says which.";

/// Hours of the longest run that starts without asking.
const UNASKED_HOURS: f64 = 1.0;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Reproduce {
    /// The experiment, or `all`; --list prints the names.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// List the experiments, and the figure that each repeats.
    #[arg(long)]
    list: bool,
    /// Write the README.md of the reports' folder, with every claim of the papers and its verdict; run nothing.
    #[arg(long, conflicts_with_all = ["name", "list", "estimate"])]
    claims: bool,
    /// The size: quick, small, or paper for the papers' own sizes [default: small]
    #[arg(long, value_name = "SCALE")]
    scale: Option<Scale>,
    /// Folder of the reports; each report gets its own folder inside.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    out: PathBuf,
    /// The first seed; further ones are counted up from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repeat each training with this many seeds, to show the influence of chance. By default 1 at the papers' scale;
    /// at the small scale 3 to 8, until intervals are narrower than the margins that decide.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// Start vit-fine-tuned and encrypted from the weights in this safetensors file, such as timm's
    /// vit_small_patch16_224.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The device: cpu, or gpu in a program built with `--features gpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Threads to train with; by default as many as there are processors.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Estimate what --scale paper takes on this device, and do nothing else.
    #[arg(long)]
    estimate: bool,
    /// Start a run of several hours without asking.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    part: PartArgument,
}

impl Reproduce {
    /// Runs the unfinished experiments and prints where their reports are.
    ///
    /// # Errors
    /// [`Failure::Input`] if the arguments cannot work or a file is missing; [`Failure::Other`] if the machine fails,
    /// or Ctrl-C ended a run.
    pub fn run(self) -> Result<(), Failure> {
        if self.list {
            say(&list());
            return Ok(());
        }
        if self.claims {
            println!("{}", write_overview(&self.out)?.display());
            return Ok(());
        }
        let experiments = self.experiments().map_err(Failure::Input)?;
        let scale = self.scale().map_err(Failure::Input)?;
        let device = device::open(&self.device)?;
        let requests: Vec<ExperimentRequest<'_>> =
            experiments.into_iter().map(|experiment| self.request(experiment, scale, &device)).collect();
        if !self.estimate {
            // All checks come before the first run, which may take hours.
            requests.iter().try_for_each(ExperimentRequest::check)?;
        }
        let interrupt = Interrupt::listen();
        let part = if self.estimate { None } else { self.part.open(&self.out, &interrupt)? };
        for request in &requests {
            eprintln!("{}", request.describe()?);
            if scale == Scale::Paper {
                // Every part measures for itself, because each may run on another machine.
                let out = part.as_ref().map_or(request.out.as_path(), PartFolder::path).to_owned();
                self.tell_cost(&ExperimentRequest { out, ..request.clone() })?;
            }
            if !self.estimate {
                run(request, part.as_ref(), &interrupt)?;
            }
        }
        part.map_or(Ok(()), |part| part::end(&part, true))
    }

    fn experiments(&self) -> anyhow::Result<Vec<Experiment>> {
        match self.name.as_deref() {
            None => {
                eprint!("{}", list());
                bail!("which of these experiments? Give its name, as in `unmask reproduce encrypted`, or all")
            }
            Some("all") => Ok(Experiment::all().to_vec()),
            Some(name) => Ok(vec![name.parse()?]),
        }
    }

    /// The scale to run or estimate.
    fn scale(&self) -> anyhow::Result<Scale> {
        match (self.scale, self.estimate) {
            (None | Some(Scale::Paper), true) => Ok(Scale::Paper),
            (Some(scale), true) => {
                bail!("--estimate measures what --scale paper takes; drop --scale {scale}, or --estimate")
            }
            (scale, false) => Ok(scale.unwrap_or(Scale::Small)),
        }
    }

    fn request<'a>(&self, experiment: Experiment, scale: Scale, device: &'a OpenDevice) -> ExperimentRequest<'a> {
        let is_one_of_all = self.name.as_deref() == Some("all");
        ExperimentRequest {
            experiment,
            scale,
            seed: self.seed,
            seeds: self.seeds,
            out: self.out.clone(),
            cifar10: self.cifar10.clone().unwrap_or_else(default_cifar10_folder),
            // With `all`, the experiments that take no weights ignore `--weights`.
            weights: self.weights.clone().filter(|_| !is_one_of_all || experiment.takes_weights()),
            device,
            threads: self.threads,
            commit: commit(),
        }
    }

    /// Prints the cost at the papers' scale, and asks for confirmation if it is high.
    fn tell_cost(&self, request: &ExperimentRequest<'_>) -> Result<(), Failure> {
        let Some(cost) = estimate(request)? else {
            println!("{}: no estimate; it is closed forms and few rounds.", request.experiment);
            return Ok(());
        };
        println!("{}: {cost}", request.experiment);
        if self.estimate || self.yes || cost.seconds() <= 3600.0 * UNASKED_HOURS {
            return Ok(());
        }
        ask().map_err(Failure::Input)
    }
}

fn list() -> String {
    let line = |experiment: Experiment| {
        format!("{:18} {:38} {}\n", experiment.name(), experiment.repeats(), experiment.title())
    };
    Experiment::all().map(line).concat()
}

fn ask() -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("that is more than an hour; start it with --yes");
    }
    print!("Start? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("not started"),
    }
}

fn run(request: &ExperimentRequest<'_>, part: Option<&PartFolder>, interrupt: &Interrupt) -> Result<(), Failure> {
    let out = part.map_or(request.out.as_path(), PartFolder::path);
    let mut display = Display::new(request.experiment.name(), out.join(request.experiment.name()));
    let mut on_event = |event: ExperimentEvent<'_>| {
        display.show(event);
        interrupt.flow()
    };
    if let Some(part) = part {
        let done = reproduce_part(request, part, &mut on_event);
        display.finish();
        return if done? { Ok(()) } else { part::end(part, false) };
    }
    let done = reproduce(request, &mut on_event);
    display.finish();
    match done? {
        Some(reproduced) => {
            println!("{}: {}", request.experiment, verdict(&reproduced.claims));
            println!("{}", page(&reproduced.folder).display());
            Ok(())
        }
        None => Err(Failure::Other(anyhow!(
            "{} was stopped; finished cases are kept, and the same command resumes",
            request.experiment
        ))),
    }
}

fn page(folder: &Path) -> PathBuf {
    folder.join("report.html")
}
