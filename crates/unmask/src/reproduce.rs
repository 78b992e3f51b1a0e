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

DIR/NAME/ then holds report.html (one page with our figure, the papers' numbers beside it, and a verdict computed from the
numbers), results.json, results.csv and run.json (seed, commit, device); DIR/README.md says of every claim of the papers
what the reports of the folder found, and --claims writes it anew.

--scale small takes nano models and CIFAR-10, all experiments about two hours on two quick cores; --scale quick the same in short, a
quarter of an hour, for a lesson: few of its numbers decide anything. --scale paper takes
the papers' models and sizes, and ImageNet weights (--weights FILE) where they fine-tune: it first measures a few steps,
says how long all of them will take, and asks before it begins if that is more than an hour (--yes answers). --estimate
does that and no more; with --device gpu it says what a GPU needs.

Finished cases are kept: after Ctrl-C, or a power cut, the same command goes on where it stopped. With --part i/n it computes
one of n parts, each training with exactly --seeds, 3 at the small scale if absent; `unmask merge` makes the reports. Exit
code 2: pictures or weights are missing; one line says which.";

/// Hours of the longest run that begins without asking.
const UNASKED_HOURS: f64 = 1.0;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Reproduce {
    /// The experiment, or `all`; --list names them.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Say which experiments there are, and which figure each repeats.
    #[arg(long)]
    list: bool,
    /// Write README.md of the reports' folder, every claim of the papers with its verdict, and run nothing.
    #[arg(long, conflicts_with_all = ["name", "list", "estimate"])]
    claims: bool,
    /// How large: quick, small, or paper for the papers' own sizes; small if absent.
    #[arg(long, value_name = "SCALE")]
    scale: Option<Scale>,
    /// Folder of the reports, each of which gets a folder of its own there.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    out: PathBuf,
    /// The first seed; further ones are counted up from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repeat each training with so many seeds, which shows how much chance there is in it; if absent 1 at the papers' scale,
    /// and at the small one 3 to 8, until intervals are narrower than the margins that decide.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Where the CIFAR-10 files are, if not where `unmask data cifar10` puts them.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// Begin vit-fine-tuned and encrypted from the weights of this safetensors file, such as timm's
    /// vit_small_patch16_224.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// What computes: cpu, or gpu in a program built with `--features gpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Threads to train with; all processors if absent.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Say what --scale paper would take on this device, and do nothing else.
    #[arg(long)]
    estimate: bool,
    /// Begin a run of hours without asking.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    part: PartArgument,
}

impl Reproduce {
    /// Runs the experiments that are not finished yet, and says where their reports are.
    ///
    /// # Errors
    /// [`Failure::Input`] where the arguments cannot work or something is missing; [`Failure::Other`] where the machine
    /// cannot, or Ctrl-C ended a run.
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
            // All of them before the first begins, which may take hours.
            requests.iter().try_for_each(ExperimentRequest::check)?;
        }
        let interrupt = Interrupt::listen();
        let part = if self.estimate { None } else { self.part.open(&self.out, &interrupt)? };
        for request in &requests {
            eprintln!("{}", request.describe()?);
            if scale == Scale::Paper {
                // Parts measure beside each other, each for its own machine.
                let out = part.as_ref().map_or(request.out.as_path(), PartFolder::path).to_owned();
                self.tell_cost(&ExperimentRequest { out, ..request.clone() })?;
            }
            if !self.estimate {
                run(request, part.as_ref(), &interrupt)?;
            }
        }
        part.map_or(Ok(()), |part| part::end(&part, true))
    }

    /// The experiments that are named.
    fn experiments(&self) -> anyhow::Result<Vec<Experiment>> {
        match self.name.as_deref() {
            None => {
                eprint!("{}", list());
                bail!("which of these experiments? Give its name, as in `unmask reproduce encrypted`, or all")
            }
            Some("all") => Ok(Experiment::ALL.to_vec()),
            Some(name) => Ok(vec![name.parse()?]),
        }
    }

    /// The scale that is run or measured.
    fn scale(&self) -> anyhow::Result<Scale> {
        match (self.scale, self.estimate) {
            (None | Some(Scale::Paper), true) => Ok(Scale::Paper),
            (Some(scale), true) => {
                bail!("--estimate measures what --scale paper takes; leave --scale {scale} away, or --estimate")
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
            // Of all experiments, those that begin without weights do so here too.
            weights: self.weights.clone().filter(|_| !is_one_of_all || experiment.takes_weights()),
            device,
            threads: self.threads,
            commit: commit(),
        }
    }

    /// Says what the papers' scale takes, and asks whether to begin where that is long.
    fn tell_cost(&self, request: &ExperimentRequest<'_>) -> Result<(), Failure> {
        let Some(cost) = estimate(request)? else {
            println!(
                "{}: what its steps take was not measured; it is closed forms and few rounds.",
                request.experiment
            );
            return Ok(());
        };
        println!("{}: {cost}", request.experiment);
        if self.estimate || self.yes || cost.seconds() <= 3600.0 * UNASKED_HOURS {
            return Ok(());
        }
        ask().map_err(Failure::Input)
    }
}

/// A line for each experiment.
fn list() -> String {
    let line = |experiment: Experiment| {
        format!("{:18} {:38} {}\n", experiment.name(), experiment.repeats(), experiment.title())
    };
    Experiment::ALL.map(line).concat()
}

fn ask() -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("that is more than an hour; --yes begins it");
    }
    print!("Begin? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("not begun"),
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
            "{} was stopped; what is finished is kept, and the same command goes on from there",
            request.experiment
        ))),
    }
}

fn page(folder: &Path) -> PathBuf {
    folder.join("report.html")
}
