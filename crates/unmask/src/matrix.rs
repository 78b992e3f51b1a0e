//! `unmask matrix`: every attack against every defence.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use indicatif::ProgressBar;
use unmask_core::{Architecture, Defence, InitialWeights, ModelState, Rule, ThreatModel, Verdict};
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
Example: what the attackers of the papers, and better ones, see of your own photographs, with masks and without

    unmask matrix --model vit_lab_patch4_32 --images photos --out result \\
        --attacks embedding,embedding-aware,matching,matching-aware \\
        --defences 'none; random-binary:0.5; random-binary:pos=0,0.5'

Separate attacks with commas and defences with semicolons, because a defence may contain commas; or repeat either
argument. `unmask invert --help` lists the attacks. The defences are none, fixed-position, random-binary:R,
frozen-binary:R (or random-binary:patch=R,pos=R,R), gaussian:eps=E,delta=D,clip=S, encrypted and encrypted:keyed.

The command plays a client. For each picture it computes the gradient (or, under --rule fedavg, trains) at the model's
initial weights or at those of --start, and protects the update. Every attack gets what the relay would receive. A
picture's class is the word among airplane, automobile, bird, cat, deer, dog, frog, horse, ship and truck that its file
name contains, or else follows from its position.

result/ holds matrix.html (one page that contains all pictures), matrix.csv, matrix.json (rows, means and the settings;
docs/schema/matrix.json describes it), and each picture in pictures/. Each row is saved when it is finished: after
Ctrl-C or a power cut, the same command of the same build resumes. The same seed gives the same rows, bit for bit, with
any number of threads. --seeds 5 computes each row with five seeds and gives every mean its 95 % interval, by Student's
t over the seeds. --part 2/5 computes the second of five parts, which `unmask merge` then combines.

--threats asks what a relay sees that chooses the weights. Under fishing, the head leaves only the class with the fewest
pictures of a batch a gradient; feature-fishing also picks one picture of the class with the most; under
inconsistent-models, all clients but the first get a head of zeros. Each works on a copy of the model
(docs/threat-models.md).

    unmask matrix --model vit_nano_patch4_32 --images photos --out fished --batch 4 \
        --attacks embedding,embedding-aware --defences 'none; random-binary:0.5' --threats honest,fishing

A row is recognisable, not recognisable by this attack, or cannot be told. The last means that the attack had nothing to
work on, or that a search did not converge: its picture explains the update worse than the private picture does. A
search runs the model thousands of times, so a matrix with searches takes minutes for each picture. A lower --iterations
makes it faster, and the searches weaker.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Matrix {
    /// The model: a preset such as vit_lab_patch4_32 or resnet_nano, a name made of numbers such as
    /// vit_patch8_dim128_depth6_heads2_64, or a TOML file with such numbers.
    #[arg(long, value_name = "NAME|FILE", value_parser = model_argument)]
    model: Architecture,
    /// Give the model the first block that APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The weights: scratch for initial ones, pretrained for the checkpoint in this program, or a file (safetensors,
    /// .npz or torch.save).
    #[arg(long, value_name = "START", default_value = "scratch")]
    start: StartWeights,
    /// A folder of PNG, JPEG or WebP pictures.
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// The attacks, separated by commas; by default, all that have something to work on.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    attacks: Vec<InferenceAttack>,
    /// The defences, separated by semicolons; by default one of each kind, and random-binary at 0.2, 0.5 and 0.8.
    #[arg(long, value_name = "LIST", value_delimiter = ';')]
    defences: Vec<Defence>,
    /// The first seed, for the model's weights, masks, noise, keys and the starts of searches.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compute every row with this many seeds, counted up from --seed; means then have an interval.
    #[arg(long, value_name = "K", default_value_t = 1)]
    seeds: u64,
    /// Steps of a search; the default depends on the attack.
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// First step size of a search, in units of pixels in [-1, 1].
    #[arg(long, value_name = "SIZE")]
    step: Option<f64>,
    /// Number of rounds that the attack `rounds` collects; the other attacks see only the first.
    #[arg(long, value_name = "K", default_value_t = 5)]
    rounds: usize,
    /// The server's learning rate between rounds, under FedSGD.
    #[arg(long, value_name = "LR", default_value_t = 1e-5)]
    rate: f32,
    /// What a client sends: fedsgd, or fedavg:epochs=1,rate=0.1.
    #[arg(long, value_name = "RULE", default_value_t = Rule::FedSgd)]
    rule: Rule,
    /// Pictures in one update.
    #[arg(long, value_name = "B", default_value_t = 1)]
    batch: usize,
    /// Clients whose updates are averaged before anybody attacks, as in a secure sum. Each has its own pictures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    sum: usize,
    /// What the relay does with the weights, separated by commas: honest, fishing, feature-fishing, inconsistent-models.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "honest")]
    threats: Vec<ThreatModel>,
    /// The device: cpu, or gpu in a program built with `--features gpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Rows to compute in parallel; by default as many as there are processors. A GPU computes one row at a time.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Folder for the results; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    part: PartArgument,
}

impl Matrix {
    /// Computes the missing rows and prints where the results are.
    ///
    /// # Errors
    /// [`Failure::Input`] if the arguments cannot work; [`Failure::Other`] if results cannot be written, or Ctrl-C
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
        let mut bar = Bar::new();
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
        bar.clear();
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
            return Err(Failure::Other(anyhow!("stopped with {left} rows to go; the same command resumes")));
        }
        Ok(())
    }

    /// The weights that replace each seed's initial ones.
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
        let Self { seed, seeds, iterations, step, rounds, rate, rule, batch, sum, .. } = *self;
        let threats = self.threats.clone();
        Ok(MatrixSettings {
            model,
            attacks,
            defences,
            seed,
            seeds,
            iterations,
            step,
            rounds,
            rate,
            rule,
            batch,
            sum,
            threats,
        })
    }
}

/// The bar over all rows. Its length is their work, so that quick closed forms do not make the searches look short.
pub struct Bar {
    bar: ProgressBar,
    rows: usize,
    finished: usize,
    beside: usize,
}

impl Bar {
    pub fn new() -> Self {
        Self { bar: ProgressBar::no_length(), rows: 0, finished: 0, beside: 0 }
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    pub fn show(&mut self, event: MatrixEvent<'_>) {
        match event {
            MatrixEvent::Started { rows, left, work } => {
                (self.rows, self.finished) = (rows, rows - left);
                progress::style(&self.bar, progress::STYLE);
                self.bar.set_length(work);
            }
            MatrixEvent::RowStarted { attack, defence, threat, image, seed } => {
                self.beside += 1;
                let dishonest = if threat.is_honest() { String::new() } else { format!(", {threat}") };
                self.bar.set_message(format!(
                    "{} of {} rows, {} under way: {attack}, {defence}{dishonest}, {image}, seed {seed}",
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
