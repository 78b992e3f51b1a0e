//! `unmask invert`: attacks an update that was dumped from anywhere.

mod fedavg;
mod output;
mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::Args;
use unmask_attack::{
    AccumulatedRounds, AttackError, BatchSize, Encryption, Evidence, KeySource, KnownStart, Needs, Observation,
    Recovered, Rounding, SearchOptions, TensorNames, TensorSource, Tensors, WholeUpdate, batch_size, run,
};
use unmask_core::{Architecture, AttackMethod, ParamLayout, VitPreset};
use unmask_data::{chw_to_hwc, decode};
use unmask_experiments::{
    Asked, Check, DumpedModel, DumpedUpdate, InferenceAttack, PixelSpace, Told, read_model, read_rounds, read_update,
    read_weights, round_files, score,
};
use unmask_matching::GradientMatching;
use unmask_model::device::OpenDevice;

use self::{
    fedavg::{LocalTraining, refuse_weights},
    output::Output,
    report::Report,
};
use crate::{Failure, interrupt::Interrupt, model::model_argument, with_april_block};

const EXAMPLE: &str = "\
Example, from PyTorch with any ViT of timm, torchvision or Hugging Face (one image in the batch):

    loss = torch.nn.functional.cross_entropy(model(image), label)
    loss.backward()
    torch.save({name: p.grad for name, p in model.named_parameters()}, \"gradients.pt\")

    unmask invert --gradients gradients.pt --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 \\
        --attack embedding --truth photo.jpg --out result

--mean and --std are those that the images were normalised with, so that pictures come out in their own colours; without
them images were taken to [-1, 1]. Files are safetensors, NumPy's .npz, or what torch.save writes of a dict of tensors,
of which no code is run; names may have DataParallel's module. in front.

The model is told by the shapes of the tensors: patch, image side, width, depth, classes, the April block. No shape tells
the heads: they are a preset's, or D/64 as in timm's models, and --heads says otherwise. Closed forms do not ask. Where a
file lacks the tensors that tell it, name it: --model vit_small_patch16_224, or by its numbers,
--model vit_patch16_dim192_depth12_heads3_64 (the last is the images' side), or in a file, --model FILE.toml. Of a
distilled (DeiT) or average-pooled ViT, and of one without a class token, embedding, embedding-aware, rounds and label
work; the attacks that run the model, or read its blocks, refuse it by its name.

The attacks, and which tensors they read, in f16, bf16, f32 or f64. Those whose name ends in -aware are told by --mask
which values arrived; the others take a hidden value for a zero. rounds reads each update in the folder --rounds;
known-start the weights in both forms, --weights and --encrypted-weights; colluder a key, which no file holds: the room
and `unmask matrix` show it; membership --candidate. label and membership make no picture.

The names are timm's of a ViT. Of a ResNet label reads fc.weight and, if there, fc.bias, and inverting-gradients all of the
state_dict(); the other attacks need embeddings, and refuse.
";

const SEARCHES: &str = "
A search, which is matching, jigsaw and inverting-gradients, runs the model thousands of times. It needs the labels: it
reads them off head.weight and head.bias, or takes --labels. Watch reconstruction.png meanwhile; Ctrl-C ends the search
and keeps what it found.

result/ then holds reconstruction.png, reconstruction.safetensors (\"reconstruction\", f32 [H, W, 3] in [0, 1]) and
report.json (docs/schema/report.json describes it); of a batch reconstruction-0.png, reconstruction-1.png and so on, and
[B, H, W, 3]. The verdict is recognisable, not recognisable by this attack, or cannot tell: with --truth by its SSIM, and
without by the picture's own gradient and the embeddings' equations, for which --weights must hold the whole model.
Exit code 2: the input is incomplete or wrong, or the attack cannot work on it; one line says why.";

/// The example, then each attack with what it reads.
fn after_help() -> String {
    let vit = Architecture::from(VitPreset::Pico);
    let layout = vit.layout();
    let reads = |attack: InferenceAttack| {
        let Needs { gradients, weights, .. } = attack.needs(vit).unwrap_or_default();
        let parts = [("gradients", gradients), ("weights", weights)].map(|(what, wanted)| {
            let required = listed(&wanted.required, &layout);
            let optional = listed(&wanted.optional, &layout);
            match (required.as_str(), optional.as_str()) {
                ("", "") => String::new(),
                (required, "") => format!("    {what} {required}\n"),
                ("", optional) => format!("    {what}, if there, {optional}\n"),
                (required, optional) => format!("    {what} {required}; if there, {optional}\n"),
            }
        });
        format!("  {attack}\n{}", parts.concat())
    };
    format!("{EXAMPLE}{}{SEARCHES}", InferenceAttack::all().into_iter().map(reads).collect::<String>())
}

/// Names as a person lists them: a whole block by its front, all parameters as such.
fn listed(names: &[String], layout: &ParamLayout) -> String {
    const BLOCK: &str = "blocks.0.";
    let blocks = layout.iter().filter(|param| param.name.ends_with("mlp.fc1.weight")).count();
    let last = format!("blocks.{}.", blocks.saturating_sub(1));
    if names.len() == layout.iter().count() {
        return "all".to_owned();
    }
    let in_block = |name: &str| name.starts_with(BLOCK);
    let count = |in_names: usize| in_names == layout.iter().filter(|param| in_block(&param.name)).count();
    let is_whole = count(names.iter().filter(|name| in_block(name)).count());
    let mut listed: Vec<&str> = names.iter().map(String::as_str).filter(|name| !(is_whole && in_block(name))).collect();
    listed.extend(is_whole.then_some("blocks.0.*"));
    listed.join(", ").replace(&last, "blocks.LAST.")
}

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Invert {
    /// The model: a name such as vit_small_patch16_224 or resnet34, one made of numbers, or a TOML file; told by the
    /// shapes in the files if absent. The number of classes is theirs.
    #[arg(long, value_name = "NAME|FILE", value_parser = model_argument)]
    model: Option<Architecture>,
    /// Attention heads, which no shape tells; a preset's, or D/64, if absent.
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Side of the images in pixels, where no position embedding tells it: a ResNet's.
    #[arg(long, value_name = "PIXELS")]
    side: Option<usize>,
    /// Mean that the images were normalised with, of pixels in [0, 1]: one number, or one each of red, green and blue; 0.5
    /// if absent.
    #[arg(long, value_name = "MEAN", value_delimiter = ',')]
    mean: Vec<f64>,
    /// Standard deviation that the images were normalised with; 0.5 if absent.
    #[arg(long, value_name = "STD", value_delimiter = ',')]
    std: Vec<f64>,
    /// The first block has no LayerNorm before attention and no residual around it, as APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The gradient was taken in evaluation mode (model.eval()), in which batch norm uses its running statistics; without
    /// it, by the batch's own moments, as a model trains. A ViT has no batch norm.
    #[arg(long)]
    eval: bool,
    /// The weights at which the gradient was taken (safetensors, .npz or torch.save), for the attacks that read some.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The same weights as an encrypted room holds them, for known-start.
    #[arg(long, value_name = "FILE")]
    encrypted_weights: Option<PathBuf>,
    /// The gradient (safetensors, .npz or torch.save).
    #[arg(long, value_name = "FILE", required_unless_present = "rounds")]
    gradients: Option<PathBuf>,
    /// The update is not a gradient but the weights after local training, as under federated averaging: attack the
    /// difference to --weights over RATE times STEPS.
    #[arg(long, value_name = "rate=RATE,steps=STEPS", requires_all = ["gradients", "weights"])]
    fedavg: Option<LocalTraining>,
    /// What the defence kept (u8 or bool, 1 = kept, same names); all other values are taken away first. Without it
    /// nothing is hidden.
    #[arg(long, value_name = "FILE", requires = "gradients")]
    mask: Option<PathBuf>,
    /// Updates of several rounds with the same picture: NAME.safetensors (or .npz, .pt, .pth, .bin), and
    /// NAME.mask.safetensors where something is hidden, in the order of their names.
    #[arg(long, value_name = "DIR", conflicts_with = "gradients")]
    rounds: Option<PathBuf>,
    /// The attack, one of those listed below.
    #[arg(long, value_name = "ATTACK")]
    attack: InferenceAttack,
    /// The pictures' labels, where they are known: 3 or 3,4. Closed forms need none.
    #[arg(long, value_name = "N", visible_alias = "label", value_delimiter = ',')]
    labels: Vec<usize>,
    /// How many pictures are in the update. If absent one for each label, or as many as the rank of the last block's
    /// gradient shows.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u16).range(1..))]
    batch: Option<u16>,
    /// Steps of a search; what suits the attack if absent.
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// A search's first step size, in units of pixels in [-1, 1]; trained models want 0.05 or less.
    #[arg(long, value_name = "SIZE")]
    step: Option<f64>,
    /// Of the noise that a search starts from where no closed form helps.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A picture (PNG, JPEG or WebP), to be told whether it was in the update.
    #[arg(long, value_name = "IMAGE", required_if_eq("attack", "membership"))]
    candidate: Option<PathBuf>,
    /// The private picture (PNG, JPEG or WebP): cropped to a square, resized, and compared with what came out. Repeat it
    /// for a batch; a jigsaw's pieces are laid in their best order first.
    #[arg(long, value_name = "IMAGE")]
    truth: Vec<PathBuf>,
    /// Folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// What the files hold.
struct Dump {
    observation: Observation,
    /// Share of the values, among those read, that masks hid.
    hidden_share: f64,
    /// Pictures in the update, where it tells.
    by_rank: Option<BatchSize>,
}

impl Invert {
    /// Attacks, writes the results and prints a summary.
    ///
    /// # Errors
    /// [`Failure::Input`] where the input cannot work; [`Failure::Other`] where results cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let dumped = self.model().map_err(Failure::Input)?;
        let (model, pixels) = (dumped.architecture, dumped.pixels);
        let side = model.side();
        // Pictures are read first, so that a wrong path is reported before any work is done.
        let read = |what: &'static str| move |path: &PathBuf| read_picture(what, path, side);
        let truths: Vec<Vec<f32>> =
            self.truth.iter().map(read("the truth")).collect::<Result<_, _>>().map_err(Failure::Input)?;
        let candidate = self.candidate.as_ref().map(read("the candidate")).transpose().map_err(Failure::Input)?;
        let candidate = candidate.map(|picture| pixels.findable(&picture).into_owned());
        let Dump { observation, hidden_share, by_rank } =
            self.observation(&dumped, candidate.is_some()).map_err(Failure::Input)?;

        let mut report = Report::new(self.attack, model, (observation.batch, &self.labels), hidden_share, self.fedavg);
        report.pictures_by_rank(by_rank);
        let mut output = Output::new(&self.out, side, pixels);
        match self.attack {
            InferenceAttack::Reconstruction(method) => {
                let searches = GradientMatching::new(OpenDevice::cpu());
                let mut found = self.attack(method, &observation, &searches, &mut output).map_err(Failure::Input)?;
                let findable: Vec<Vec<f32>> = truths.iter().map(|truth| pixels.findable(truth).into_owned()).collect();
                let check = Check::new(method, &observation, &searches, &found.pictures, &findable);
                for picture in &mut found.pictures {
                    *picture = pixels.pixels(picture).into_owned();
                }
                let score = (!truths.is_empty()).then(|| score(method, &found.pictures, &truths, model));
                let score = score.transpose().map_err(|error| Failure::Other(error.into()))?;
                report.found(&found);
                report.judge(score.as_ref(), &check);
                output.pictures(&found.pictures).map_err(Failure::Other)?;
                // Beside a picture they are told where the update holds them.
                report.read_labels(observation.read_labels().ok());
            }
            InferenceAttack::Labels => {
                report.read_labels(Some(
                    observation.read_labels().context("labels cannot be read").map_err(Failure::Input)?,
                ));
            }
            InferenceAttack::Membership => (),
        }
        if let Some(candidate) = candidate {
            let searches = GradientMatching::new(OpenDevice::cpu());
            let pictures = (self.batch.is_some() || !self.labels.is_empty()).then_some(observation.batch);
            let go_on = &mut || std::ops::ControlFlow::Continue(());
            let found = observation.membership(&searches, &candidate, pictures, go_on);
            report.membership(&found.context("membership cannot be told").map_err(Failure::Input)?);
        }
        output.report(&report).map_err(Failure::Other)?;
        report.summarise(&self.out);
        Ok(())
    }

    fn attack(
        &self,
        method: AttackMethod,
        observation: &Observation,
        searches: &GradientMatching,
        output: &mut Output,
    ) -> anyhow::Result<Recovered> {
        let options = SearchOptions { iterations: self.iterations, step: self.step, seed: self.seed };
        let interrupt = method.is_search().then(Interrupt::listen);
        let found = run(method, observation, searches, options, &mut |progress| {
            output.progress(progress);
            interrupt.as_ref().map_or(std::ops::ControlFlow::Continue(()), Interrupt::flow)
        });
        output.progress_ends();
        found.with_context(|| format!("{} cannot work", method.title()))
    }

    /// The model as it is asked for, or as the files tell it; says how.
    fn model(&self) -> anyhow::Result<DumpedModel> {
        if let Some(model) = self.model {
            with_april_block(model, self.april_block)?;
        }
        let Self { model, heads, side, april_block, .. } = *self;
        let pixels = PixelSpace::new(&self.mean, &self.std)?;
        let asked = Asked { model, heads, side, april_block, pixels };
        let update = match (&self.rounds, &self.gradients) {
            (Some(folder), _) => round_files(folder)?.into_iter().next().map(|(update, _)| update),
            (None, file) => file.clone(),
        };
        let files: Vec<&Path> = self.weights.iter().chain(&update).map(PathBuf::as_path).collect();
        let Told { model, notes } = DumpedModel::tell(&asked, &files)?;
        for note in notes {
            println!("{note}");
        }
        Ok(model)
    }

    /// Reads what the attack needs, and what can be told besides.
    fn observation(&self, dumped: &DumpedModel, has_candidate: bool) -> anyhow::Result<Dump> {
        let model = dumped.architecture;
        let needs = self.attack.needs(model).with_context(|| format!("{} cannot work", self.attack.title()))?;
        self.check_arguments(&needs)?;
        dumped.check_fits(self.attack.name(), &needs, self.attack.method().is_some_and(AttackMethod::is_search))?;
        let is_encrypted = needs.key.is_some();
        let is_search = self.attack.method().is_some_and(AttackMethod::is_search);
        // A search takes the whole state instead.
        let weights = if is_search { TensorNames::default() } else { needs.weights };
        let mut read = Needs { weights, ..needs }.and(Needs::of_labels(model).if_there());
        if has_candidate {
            read = read.and(Needs::of_membership(model).context("membership cannot be told")?);
        }
        let weights_of = |path: Option<&Path>| match path {
            Some(path) => read_weights(dumped, path, &read.weights),
            None => Ok(Tensors::new(TensorSource::Weights, model, Rounding::F32)),
        };
        let weights = weights_of(self.weights.as_deref())?;
        let updates = self.updates(dumped, &read.gradients)?;
        // More than the attack reads: what it makes is compared with all of it. A file need not hold more.
        let every = model.layout().iter().map(|param| param.name.clone()).collect();
        let everything = self.updates(dumped, &TensorNames { required: Vec::new(), optional: every });
        let everything = everything.ok().and_then(|updates| Some(updates.into_iter().next()?.gradients));
        if let (Some(everything), None, Some(path)) = (&everything, self.fedavg, &self.gradients) {
            refuse_weights(everything, self.weights_like(dumped, everything).as_ref(), path)?;
        }
        let hidden_share = updates.iter().map(|update| update.hidden_share).sum::<f64>() / updates.len() as f64;
        let mut encryption = None;
        let held = if is_encrypted {
            let encrypted = weights_of(self.encrypted_weights.as_deref())?;
            let known_start = Some(Arc::new(KnownStart::new(weights, encrypted.clone())));
            encryption = Some(Encryption { known_start, key: None });
            encrypted
        } else {
            weights
        };
        let round = |update: DumpedUpdate| Evidence { weights: held.clone(), gradients: update.gradients };
        let rounds: Vec<Evidence> = updates.into_iter().map(round).collect();
        let gathered = AccumulatedRounds::gather(&rounds);
        let first = rounds.into_iter().next().ok_or(AttackError::NoRounds)?;
        // A closed form may be given some of the weights; what it makes is checked where all of them are there.
        let runs_model = is_search || has_candidate;
        let state = self.weights.as_deref().map(|path| read_model(dumped, path)).transpose();
        let state = if runs_model { state? } else { state.unwrap_or_default() };
        let whole = state.map(|state| {
            let gradients = everything.as_ref().unwrap_or(&first.gradients);
            Arc::new(WholeUpdate::from_tensors(model, state, gradients, !self.eval))
        });
        let mut observation = Observation::new(Ok(first));
        let by_rank = everything.as_ref().and_then(|gradients| batch_size(gradients).ok());
        observation.batch = match (self.batch, self.labels.len(), by_rank) {
            (Some(batch), ..) => batch.into(),
            // Several local steps over one picture leave as many directions as steps.
            (None, 0, Some(BatchSize::Exactly(pictures))) if self.fedavg.is_none() => pictures,
            (None, labels, _) => labels.max(1),
        };
        observation.local_steps = self.fedavg.map_or(1, LocalTraining::steps);
        observation.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        observation.whole = whole;
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        Ok(Dump { observation, hidden_share, by_rank })
    }

    /// Whether the files that the attack needs are named, and no others.
    fn check_arguments(&self, needs: &Needs) -> anyhow::Result<()> {
        let attack = self.attack;
        match (needs.key, &self.encrypted_weights, &self.rounds) {
            (Some(KeySource::Colluder), ..) => bail!(
                "{attack} needs the key that clients make of their passphrase, which no file holds; a room shows it, and so \
                 does `unmask matrix --attacks {attack} --defences encrypted`"
            ),
            (Some(KeySource::KnownStart), None, _) => {
                bail!("{attack} needs the weights in both forms; give --encrypted-weights too")
            }
            (None, Some(path), _) => {
                bail!("{} is read by the attack known-start alone; leave --encrypted-weights out", path.display())
            }
            (.., Some(folder)) if !needs.rounds => {
                bail!("{attack} attacks one update; give --gradients, or --attack rounds for {}", folder.display())
            }
            _ if self.weights.is_none() && !needs.weights.required.is_empty() => {
                bail!("{attack} reads the model's {}; give --weights", needs.weights.required[0])
            }
            _ => Ok(()),
        }
    }

    fn updates(&self, model: &DumpedModel, wanted: &TensorNames) -> anyhow::Result<Vec<DumpedUpdate>> {
        let mut updates = match (&self.rounds, &self.gradients) {
            (Some(folder), _) => read_rounds(model, folder, wanted)?,
            (None, Some(file)) => vec![read_update(model, file, self.mask.as_deref(), wanted)?],
            (None, None) => bail!("there is no update; give --gradients, or --rounds"),
        };
        if let Some(local) = self.fedavg {
            for update in &mut updates {
                let before = self.weights_like(model, &update.gradients);
                update.gradients = local.gradient(before.as_ref(), &update.gradients)?;
            }
        }
        Ok(updates)
    }

    /// The weights of --weights that have the names of `update`'s tensors, as far as they are there.
    fn weights_like(&self, dumped: &DumpedModel, update: &Tensors) -> Option<Tensors> {
        let layout = dumped.architecture.layout();
        let names = layout.iter().map(|param| param.name.clone());
        let optional = names.filter(|name| update.values(name).is_some()).collect();
        read_weights(dumped, self.weights.as_deref()?, &TensorNames { required: Vec::new(), optional }).ok()
    }
}

/// What the model saw of a picture, `[side, side, 3]` in [0, 1].
fn read_picture(what: &str, path: &Path, side: usize) -> anyhow::Result<Vec<f32>> {
    let bytes = fs::read(path).with_context(|| format!("{what} {} cannot be opened", path.display()))?;
    let picture = decode(&bytes).with_context(|| format!("{what} {}", path.display()))?;
    Ok(chw_to_hwc(&picture.for_model(side), side, side))
}
