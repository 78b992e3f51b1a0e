//! `unmask matrix`: every attack against every defence.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use indicatif::ProgressBar;
use unmask_core::{Architecture, Defence, InitialWeights, ModelState, Rule, Verdict};
use unmask_data::load_folder;
use unmask_experiments::{
    PartFolder,
    matrix::{MatrixEvent, MatrixOutcome, MatrixRequest, MatrixSettings, run, run_part},
};
use unmask_inversion::InferenceAttack;
use unmask_simulation::{StartWeights, load_start};

use crate::{
    Failure, commit, counted, device, interrupt::Interrupt, model::model_argument, part::PartArgument, progress,
    with_april_block,
};

const EXAMPLE: &str = "\
Example: what the papers' attackers and better ones see of your own photographs, under masks and under none

    unmask matrix --model vit_lab_patch4_32 --images photos --out result \\
        --attacks embedding,embedding-aware,matching,matching-aware \\
        --defences 'none; random-binary:0.5; random-binary:pos=0,0.5'

Attacks are separated by commas, defences by semicolons, since a defence may hold commas; both arguments may be repeated
instead. `unmask invert --help` lists the attacks. The defences are none, fixed-position, random-binary:R, frozen-binary:R
(or random-binary:patch=R,pos=R,R), gaussian:eps=E,delta=D,clip=S, encrypted and encrypted:keyed.

A client is played here: it computes the gradient of each picture (or trains on it, under --rule fedavg) at the model's
initial weights, or at those of --start, protects it, and every attack gets what the relay would have. A picture's class is the one of airplane,
automobile, bird, cat, deer, dog, frog, horse, ship, truck that its file name contains, or else follows from its place.

result/ holds matrix.html, one page with all pictures in it, matrix.csv, matrix.json (rows, means and what they were
computed by; docs/schema/matrix.json describes it), and each picture in pictures/. Rows are kept as they are finished: after
Ctrl-C, or a power cut, the same command of the same build goes on where it stopped. The same seed gives the same rows, to
the bit, whatever the number of threads. --seeds 5 computes each row with five seeds and gives every mean its 95 % interval,
by Student's t over the seeds. With --part 2/5 it computes the second of five parts, for `unmask merge` to put together.

A row is recognisable, not recognisable by this attack, or cannot be told: where the attack has nothing to work on, and where
a search explains the update worse than the private picture does, so that it has not converged. A search takes thousands of passes through the model, so a matrix with searches takes minutes for
each picture; --iterations makes it shorter and the searches weaker.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Matrix {
    /// The model: a name such as vit_lab_patch4_32 or resnet_nano, one made of numbers such as
    /// vit_patch8_dim128_depth6_heads2_64, or a TOML file with such numbers.
    #[arg(long, value_name = "NAME|FILE", value_parser = model_argument)]
    model: Architecture,
    /// Give the model the first block that APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The weights: scratch for initial ones, pretrained for those that come with the program, or a file (safetensors, .npz or
    /// torch.save).
    #[arg(long, value_name = "START", default_value = "scratch")]
    start: StartWeights,
    /// A folder of PNG, JPEG or WebP pictures.
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// The attacks, separated by commas; all that have something to work on if absent.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    attacks: Vec<InferenceAttack>,
    /// The defences, separated by semicolons; each kind, and random-binary at 0.2, 0.5 and 0.8, if absent.
    #[arg(long, value_name = "LIST", value_delimiter = ';')]
    defences: Vec<Defence>,
    /// The first seed, of the model's weights, masks, noise, keys and starts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compute every row with so many seeds, counted up from --seed: means then have an interval.
    #[arg(long, value_name = "K", default_value_t = 1)]
    seeds: u64,
    /// Steps of a search; what suits the attack if absent.
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// A search's first step size, in units of pixels in [-1, 1].
    #[arg(long, value_name = "SIZE")]
    step: Option<f64>,
    /// Rounds that the attack `rounds` gathers; the other attacks see the first.
    #[arg(long, value_name = "K", default_value_t = 5)]
    rounds: usize,
    /// The server's learning rate between the rounds, under FedSGD.
    #[arg(long, value_name = "LR", default_value_t = 1e-5)]
    rate: f32,
    /// What a client sends: fedsgd, or fedavg:epochs=1,rate=0.1.
    #[arg(long, value_name = "RULE", default_value_t = Rule::FedSgd)]
    rule: Rule,
    /// Pictures in one update.
    #[arg(long, value_name = "B", default_value_t = 1)]
    batch: usize,
    /// What computes: cpu, or gpu in a program built with `--features gpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Rows to compute side by side; all processors if absent. A GPU takes one after another.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    part: PartArgument,
}

impl Matrix {
    /// Computes the rows that are not there yet, and says where they are.
    ///
    /// # Errors
    /// [`Failure::Input`] where the arguments cannot work; [`Failure::Other`] where results cannot be written, or Ctrl-C
    /// ended the run before the last row.
    pub fn run(self) -> Result<(), Failure> {
        let folder = load_folder(&self.images).map_err(|error| Failure::Input(error.into()))?;
        for (path, failure) in &folder.failures {
            eprintln!("{} is left out: {failure}", path.display());
        }
        let settings = self.settings().map_err(Failure::Input)?;
        let start = self.start(settings.model)?;
        let device = device::open(&self.device)?;
        let interrupt = Interrupt::listen();
        let mut bar = Bar { bar: ProgressBar::no_length(), rows: 0, finished: 0, beside: 0 };
        let request = MatrixRequest {
            settings: &settings,
            pictures: &folder.pictures,
            start: start.as_ref(),
            device: &device,
            threads: self.threads,
            commit: commit(),
            out: &self.out,
        };
        let part = self.part.open(&self.out, &interrupt)?;
        let mut on_event = |event: MatrixEvent<'_>| {
            bar.show(event);
            interrupt.flow()
        };
        let done = match &part {
            Some(part) => run_part(&request, part, &mut on_event),
            None => run(&request, &mut on_event),
        };
        bar.bar.finish_and_clear();
        let MatrixOutcome { rows, planned } = done?;
        let count = |verdict: &Verdict| rows.iter().filter(|row| row.verdict == *verdict).count();
        let recognisable = count(&Verdict::Recognisable);
        let others = count(&Verdict::NotRecognisableByThisAttack);
        let page = self.out.join("matrix.html");
        println!(
            "{}: {recognisable} recognisable, {others} not recognisable by their attack, {} that cannot be told: {}",
            counted(rows.len() as u64, "row"),
            rows.len() - recognisable - others,
            part.as_ref().map_or(page.as_path(), PartFolder::path).display()
        );
        if rows.len() < planned {
            let left = planned - rows.len();
            return Err(Failure::Other(anyhow!("stopped with {left} rows to go; the same command goes on from here")));
        }
        Ok(())
    }

    /// The weights in place of each seed's initial ones.
    fn start(&self, model: Architecture) -> Result<Option<ModelState>, Failure> {
        if self.start == StartWeights::Initial(InitialWeights::Scratch) {
            return Ok(None);
        }
        let (state, notes) = load_start(&self.start, model, self.seed).map_err(|error| Failure::Input(error.into()))?;
        notes.iter().for_each(|note| eprintln!("{note}"));
        Ok(Some(state))
    }

    fn settings(&self) -> anyhow::Result<MatrixSettings> {
        let model = with_april_block(self.model, self.april_block)?;
        let mut defences = self.defences.clone();
        if defences.is_empty() {
            defences = MatrixSettings::default_defences(model);
        }
        let mut attacks = self.attacks.clone();
        if attacks.is_empty() {
            attacks = MatrixSettings::default_attacks(model, &defences);
        }
        let Self { seed, seeds, iterations, step, rounds, rate, rule, batch, .. } = *self;
        Ok(MatrixSettings { model, attacks, defences, seed, seeds, iterations, step, rounds, rate, rule, batch })
    }
}

/// The bar over all rows: its length is their work, so that a closed form does not promise too much of the searches, and the
/// time that is left follows from how fast the work is done.
struct Bar {
    bar: ProgressBar,
    rows: usize,
    /// Rows that are there.
    finished: usize,
    /// Rows under way.
    beside: usize,
}

impl Bar {
    fn show(&mut self, event: MatrixEvent<'_>) {
        match event {
            MatrixEvent::Started { rows, left, work } => {
                (self.rows, self.finished) = (rows, rows - left);
                progress::style(&self.bar, progress::STYLE);
                self.bar.set_length(work);
            }
            MatrixEvent::RowStarted { attack, defence, image, seed } => {
                self.beside += 1;
                self.bar.set_message(format!(
                    "{} of {} rows, {} under way: {attack}, {defence}, {image}, seed {seed}",
                    self.finished, self.rows, self.beside
                ));
            }
            MatrixEvent::Progress { done } => self.bar.set_position(done),
            MatrixEvent::RowFinished { done } => {
                (self.finished, self.beside) = (self.finished + 1, self.beside.saturating_sub(1));
                self.bar.set_position(done);
            }
        }
    }
}
