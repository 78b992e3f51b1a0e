//! `unmask audit`: what a federation gives away, on one page.

mod folder;
mod trial;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::Args;
use unmask_audit::{Audit as Report, Deployment, Guarantee, page};
use unmask_core::{Architecture, Defence, InitialWeights, Rule};
use unmask_data::{hwc_to_chw, synthetic_picture};
use unmask_inversion::{Asked, DumpedModel, InferenceAttack, PixelSpace};
use unmask_model::weights::TensorFile;
use unmask_relay::privacy::{Mechanism, guarantee};
use unmask_simulation::{StartWeights, files::write_whole, load_start};

use self::trial::Trial;
use crate::{
    Failure,
    canaries::{NoisyRound, tried},
    commit,
    interrupt::Interrupt,
    model::model_argument,
    say, with_april_block,
};

const EXAMPLE: &str = "\
Example: a plan of a federation, before it has any data

    unmask audit --model vit_small_patch32_224 --rule fedsgd --batch 1 --cohort 20 --defence none --out audit

and the same with the weights of your own ViT, four local epochs and secure aggregation:

    unmask audit --model weights.safetensors --rule fedavg:4 --batch 8 --cohort 20 --secagg --out audit

For each attack, counting its equations predicts one of three things. Exact: the equations have one solution, and
rounding leaves it. Counting forbids: these equations have many solutions. Unknown: counting decides nothing. Then the
command makes updates of synthetic pictures at these weights, protects them with the real defence, and attacks them. If
the result contradicts a prediction, the page says so. Searches take minutes each; --searches tries them too.

Example: updates that were recorded

    unmask audit received --out audit

The folder is a recording (what `unmask_flower.Received` or the Python package's `Recorder` wrote: round-1/global.*,
round-1/node-NAME.*), or any folder of gradients: one file for each update, NAME.mask.* where a mask hid values, and
weights.* or model.* with the weights at which all were made. A file config.json with \"lr\" and \"steps\" says that the updates are
weights after local training instead. --heads, --mean, --std and --truth are as in `unmask invert`.

audit/ then holds audit.html, one page to read, print and mail; audit.json (docs/schema/audit.json describes it); and
the attacked updates in tried-server/ and tried-client/. The same command resumes.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Audit {
    /// A folder of recorded updates to attack, instead of a plan.
    #[arg(value_name = "DIR", conflicts_with_all = ["model", "rule", "batch", "cohort", "defence", "secagg", "searches"])]
    folder: Option<PathBuf>,
    /// The model: a preset such as vit_small_patch16_224, a name made of numbers, a TOML file with such numbers, or a
    /// file with weights (safetensors, .npz or torch.save), whose shapes give the model.
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "folder")]
    model: Option<String>,
    /// Give the model the first block that APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// Attention heads of the weights' model, which no shape gives; by default the preset's number, or D/64.
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// What a client sends: fedsgd, or fedavg:EPOCHS (fedavg:epochs=4,rate=0.1).
    #[arg(long, value_name = "RULE", default_value_t = Rule::FedSgd)]
    rule: Rule,
    /// Pictures in one update.
    #[arg(long, value_name = "B", default_value_t = 1)]
    batch: u16,
    /// Clients whose updates make one round.
    #[arg(long, value_name = "N", default_value_t = 10)]
    cohort: u32,
    /// The defence: none, random-binary:R, frozen-binary:R, fixed-position, gaussian:eps=E,delta=D,clip=S (with
    /// per=picture, DP-SGD), encrypted or encrypted:keyed.
    #[arg(long, value_name = "DEFENCE", default_value_t = Defence::None)]
    defence: Defence,
    /// Secure aggregation: the server sees only the sum of the cohort's updates.
    #[arg(long)]
    secagg: bool,
    /// Synthetic updates to attack; 0 only predicts.
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u16).range(..=64))]
    updates: u16,
    /// Try the searches too.
    #[arg(long)]
    searches: bool,
    /// Trials of Gaussian noise, which give a lower bound of its epsilon; 0 for none. They take two gradients each.
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=100_000))]
    canaries: u32,
    /// The seed of fresh weights, masks, noise and keys.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// For a folder: the attacks, separated by commas; by default embedding and label, and completion where values are
    /// hidden.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    attacks: Vec<InferenceAttack>,
    /// For a folder: the local learning rate, if its files do not say it.
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// For a folder: side of the images in pixels, for models without a position embedding that gives it.
    #[arg(long, value_name = "PIXELS")]
    side: Option<usize>,
    /// For a folder: mean used to normalise the images [default: 0.5]
    #[arg(long, value_name = "MEAN", value_delimiter = ',')]
    mean: Vec<f64>,
    /// For a folder: standard deviation used to normalise the images [default: 0.5]
    #[arg(long, value_name = "STD", value_delimiter = ',')]
    std: Vec<f64>,
    /// For a folder: a private picture to compare with each update. It confirms a reconstruction of it; of another
    /// client's picture it says nothing. Repeat it for a batch.
    #[arg(long, value_name = "IMAGE")]
    truth: Vec<PathBuf>,
    /// Folder for the results; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The model of a plan, and its weights.
struct Planned {
    model: Architecture,
    start: StartWeights,
    /// Why its weights cannot be run, as a clause.
    not_run: Option<String>,
    notes: Vec<String>,
}

/// What every plan assumes.
const ASSUMED: &str = "Assumed: cross entropy with one class for each picture, numbers of 32 bits, no dropout, pictures as the \
                       model is fed them, and a server that averages plainly.";

/// Rounds for which the page says which epsilon holds.
const ROUNDS: [u32; 3] = [1, 10, 100];

impl Audit {
    /// Predicts, tries, writes the page and prints the conclusion.
    ///
    /// # Errors
    /// [`Failure::Input`] if the arguments or files cannot work; [`Failure::Other`] if results cannot be written, or
    /// Ctrl-C ended the attempts.
    pub fn run(self) -> Result<(), Failure> {
        fs::create_dir_all(&self.out)
            .with_context(|| format!("the folder {} cannot be made", self.out.display()))
            .map_err(Failure::Other)?;
        let interrupt = Interrupt::listen();
        let report = match &self.folder {
            Some(folder) => self.of_folder(folder, &interrupt)?,
            None => {
                self.refuse_options_of_a_folder()?;
                self.of_plan(&interrupt)?
            }
        };
        self.write(&report).map_err(Failure::Other)?;
        say(&format!("{}\n{}\n", report.conclusion, self.out.join("audit.html").display()));
        Ok(())
    }

    fn refuse_options_of_a_folder(&self) -> Result<(), Failure> {
        let given = [
            ("--attacks", !self.attacks.is_empty()),
            ("--rate", self.rate.is_some()),
            ("--side", self.side.is_some()),
            ("--mean", !self.mean.is_empty()),
            ("--std", !self.std.is_empty()),
            ("--truth", !self.truth.is_empty()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::Input(anyhow!("{option} is for a folder of recorded updates; leave it out")))
            }
            None => Ok(()),
        }
    }

    fn of_plan(&self, interrupt: &Interrupt) -> Result<Report, Failure> {
        let Planned { model, start, not_run, notes } = self.planned().map_err(Failure::Input)?;
        let Self { rule, defence, secagg: secure_sum, .. } = *self;
        let (batch, cohort) = (self.batch.into(), self.cohort as usize);
        let deployment =
            Deployment { model, april_block: model.april_block(), rule, batch, cohort, defence, secure_sum };
        let mut report = Report::of_deployment(deployment).map_err(|error| Failure::Input(error.into()))?;
        if let StartWeights::File(path) = &start {
            report.read_weights(&TensorFile::from(path.clone())).map_err(|error| Failure::Input(error.into()))?;
        }
        report.notes = notes;
        report.notes.push(ASSUMED.to_owned());
        if let (Some(claim), Some(noise)) = (&mut report.privacy, defence.noise()) {
            let mechanism = Mechanism { clip: noise.clip(), deviation: noise.deviation() };
            claim.holds = ROUNDS
                .map(|rounds| guarantee(mechanism, rounds, noise.delta()))
                .map(|held| Guarantee { rounds: held.rounds, epsilon: held.epsilon, delta: held.delta })
                .into();
        }
        // Nobody sees a single gradient under FedAvg or in a secure sum.
        let sees_gradients = not_run.is_none() && !secure_sum && !rule.is_fedavg();
        if let (Some(claim), Some(noise), true) =
            (&mut report.privacy, defence.noise(), sees_gradients && self.canaries > 0)
        {
            let (state, _) = load_start(&start, model, self.seed).map_err(|error| Failure::Input(error.into()))?;
            let side = model.side();
            let picture = |number| hwc_to_chw(&synthetic_picture(side, number), side, side);
            let round = NoisyRound { model, state: &state, noise: *noise, batch, threads: None };
            claim.tried = Some(tried(round, (self.canaries, self.seed), &picture, interrupt)?);
        }
        let trial = Trial {
            deployment,
            start: &start,
            not_run,
            updates: self.updates.into(),
            with_searches: self.searches,
            seed: self.seed,
        };
        trial.run(&mut report, &self.out, interrupt)?;
        Ok(report)
    }

    /// Parses `--model`.
    fn planned(&self) -> anyhow::Result<Planned> {
        let text = self.model.as_deref().ok_or_else(|| anyhow!("give --model, or a folder of recorded updates"))?;
        let path = PathBuf::from(text);
        match model_argument(text) {
            Ok(_) if self.heads.is_some() => {
                anyhow::bail!("--heads is for a file of weights; the name {text} gives the heads")
            }
            Ok(model) => {
                let model = with_april_block(model, self.april_block)?;
                let start = StartWeights::Initial(InitialWeights::Scratch);
                let notes = vec![format!(
                    "The weights are random ones, of seed {}; trained ones may leak differently: give their file.",
                    self.seed
                )];
                return Ok(Planned { model, start, not_run: None, notes });
            }
            // A file of weights may have any name.
            Err(_) if text.contains(['/', '\\']) && !path.exists() => {
                anyhow::bail!("there is no file {text}, and no model has that name")
            }
            Err(_) if path.is_dir() => anyhow::bail!("{text} is a folder; give a model's name or file"),
            Err(error) if !path.is_file() => return Err(error.into()),
            Err(_) => (),
        }
        let asked = Asked { heads: self.heads, april_block: self.april_block, ..Asked::default() };
        let file = TensorFile::from(path.clone());
        let told = DumpedModel::tell(&asked, std::slice::from_ref(&file))?;
        let model = told.model.architecture;
        let foreign = file.open()?.foreign(model);
        let not_run = (!foreign.is_empty())
            .then(|| format!("the file has layers that this program's network lacks, such as {}", foreign[0]));
        Ok(Planned { model, start: StartWeights::File(path), not_run, notes: told.notes })
    }

    fn asked(&self) -> anyhow::Result<Asked> {
        let pixels = PixelSpace::new(&self.mean, &self.std)?;
        Ok(Asked { heads: self.heads, side: self.side, april_block: self.april_block, pixels, ..Asked::default() })
    }

    fn write(&self, report: &Report) -> anyhow::Result<()> {
        let commit = commit().map_or_else(String::new, |commit| format!(", {commit}"));
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        // A page that is mailed names no folders of this machine.
        let arguments: Vec<&str> = arguments.iter().map(|argument| file_name(argument)).collect();
        let made = format!("Made by unmask {}{commit}: unmask {}", env!("CARGO_PKG_VERSION"), arguments.join(" "));
        let save = |name: &str, bytes: &[u8]| {
            let path = self.out.join(name);
            write_whole(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
        };
        save("audit.json", &serde_json::to_vec_pretty(report)?)?;
        save("audit.html", page(report, &made).as_bytes())
    }
}

/// An argument without the folders of a path.
fn file_name(argument: &str) -> &str {
    let path = Path::new(argument);
    let name = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_absolute() || path.exists());
    name.unwrap_or(argument)
}
