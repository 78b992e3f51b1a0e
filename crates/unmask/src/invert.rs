//! `unmask invert`: attacks an update dumped by any framework.

mod output;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use unmask_attack::{Needs, SearchOptions};
use unmask_core::{Architecture, ParamLayout, VitPreset};
use unmask_data::{Picture, decode, decode_as_stored};
use unmask_inversion::{
    Asked, DumpError, Fed, InferenceAttack, Inversion, InversionError, KnownPictures, LocalTraining, PixelSpace,
    Report, Told, Update, UpdateFiles, other_ways, round_files,
};
use unmask_matching::GradientMatching;
use unmask_model::{
    device::OpenDevice,
    weights::{Role, TensorFile},
};

use self::output::Output;
use crate::{Failure, interrupt::Interrupt, model::model_argument};

const EXAMPLE: &str = "\
Example, from PyTorch with any ViT of timm, torchvision or Hugging Face (one image in the batch):

    loss = torch.nn.functional.cross_entropy(model(image), label)
    loss.backward()
    torch.save({name: p.grad for name, p in model.named_parameters()}, \"gradients.pt\")

    unmask invert --gradients gradients.pt --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 \\
        --attack embedding --truth photo.jpg --out result

Give --mean and --std as they were used to normalise the images, so that reconstructions have the right colours. Without
them, images are assumed to be scaled to [-1, 1]. Files are safetensors, NumPy's .npz, or what torch.save writes for a
dict of tensors; no code in a file is run. Names may start with DataParallel's \"module.\".

The shapes of the tensors give the model: patch, image side, width, depth, classes, April block. They do not give the
number of heads: it is the preset's, or D/64 as in timm's models, unless --heads is given. Closed forms do not need it.
If a file lacks the tensors that give the model, name the model: --model vit_small_patch16_224, or by its numbers,
--model vit_patch16_dim192_depth12_heads3_64 (the last number is the images' side), or in a file, --model FILE.toml. For
a ViT that is distilled (DeiT), average-pooled or without a class token, embedding, embedding-aware, rounds and label
work; the attacks that run the model or read its blocks refuse it.

Below are the attacks with the tensors that they read, in f16, bf16, f32 or f64. Attacks whose name ends in -aware learn
from --mask which values arrived; the others treat a hidden value as zero. rounds reads every update in the folder
--rounds. known-start reads the weights in both forms, --weights and --encrypted-weights. membership needs --candidate
and --weights with the whole model. colluder needs a key, which no file holds: try it in a room or with `unmask matrix`.
label and membership give no picture. batch takes several pictures in one update apart, and the sum of several clients:
`result/` then holds the certain ones first.

The tensor names are timm's for a ViT. For a ResNet, label reads fc.weight and, if there, fc.bias; inverting-gradients
reads the whole state_dict(). The other attacks need patch embeddings and refuse a ResNet.
";

const SEARCHES: &str = "
The searches are matching, jigsaw and inverting-gradients. A search runs the model thousands of times. It needs the
labels: it reads them from the gradients of head.weight and head.bias, or takes --labels. Watch reconstruction.png while
it runs. Ctrl-C stops a search and keeps what it found. It stops closed forms too. Press it again to end the program.

result/ then holds reconstruction.png, reconstruction.safetensors (\"reconstruction\", f32 [H, W, 3] in [0, 1]) and
report.json (docs/schema/report.json describes it). For a batch it holds reconstruction-0.png, reconstruction-1.png and
so on, and the tensor is [B, H, W, 3]. The verdict is recognisable, not recognisable by this attack, or cannot tell.
The picture's own gradient and the embeddings' equations can show that no other picture is possible; for that, --weights
must hold the whole model. Otherwise the SSIM to --truth decides, which is tried as it is, mirrored, squashed, in grey,
with red and blue exchanged and without its EXIF orientation. Exit code 2: the input is incomplete or wrong, or the
attack cannot work on it; one line says why.";

/// The example, then each attack with the tensors that it reads.
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

/// A short list of `names`: a whole block becomes `blocks.0.*`, the full set of parameters becomes `all`.
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
    /// The model: a preset such as vit_small_patch16_224 or resnet34, a name made of numbers, or a TOML file. Without
    /// it, the shapes in the files give the model. The number of classes always comes from the files.
    #[arg(long, value_name = "NAME|FILE", value_parser = model_argument)]
    model: Option<Architecture>,
    /// Attention heads, which no shape gives; by default the preset's number, or D/64.
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Side of the images in pixels, for models without a position embedding that gives it, such as a ResNet.
    #[arg(long, value_name = "PIXELS")]
    side: Option<usize>,
    /// Width and height of the images in pixels, such as 64x16, if they are not squares: shapes show only the number of
    /// patches.
    #[arg(long, value_name = "WxH", value_parser = size, conflicts_with = "side")]
    size: Option<(usize, usize)>,
    /// Mean used to normalise the images, for pixels in [0, 1]: one number, or three for red, green and blue [default:
    /// 0.5]
    #[arg(long, value_name = "MEAN", value_delimiter = ',')]
    mean: Vec<f64>,
    /// Standard deviation used to normalise the images [default: 0.5]
    #[arg(long, value_name = "STD", value_delimiter = ',')]
    std: Vec<f64>,
    /// The first block has no LayerNorm before attention and no residual around it, as APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The gradient was taken in evaluation mode (model.eval()), where batch norm uses its running statistics. Without
    /// this flag, batch norm uses the batch's own moments, as in training. A ViT has no batch norm.
    #[arg(long)]
    eval: bool,
    /// The weights at which the gradient was taken (safetensors, .npz or torch.save), for attacks that read weights.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The same weights as an encrypted room holds them, for known-start.
    #[arg(long, value_name = "FILE")]
    encrypted_weights: Option<PathBuf>,
    /// The gradient (safetensors, .npz or torch.save).
    #[arg(long, value_name = "FILE", required_unless_present = "rounds")]
    gradients: Option<PathBuf>,
    /// The update is not a gradient but the weights after local training, as in federated averaging. The attack then
    /// uses the difference to --weights, divided by RATE times STEPS.
    #[arg(long, value_name = "rate=RATE,steps=STEPS", requires_all = ["gradients", "weights"])]
    fedavg: Option<LocalTraining>,
    /// The values that the defence kept (u8 or bool, 1 = kept, same names as the gradient). All other values are
    /// removed first. Without it, nothing is hidden.
    #[arg(long, value_name = "FILE", requires = "gradients")]
    mask: Option<PathBuf>,
    /// Updates from several rounds with the same picture, in the order of their names: NAME.safetensors (or .npz, .pt,
    /// .pth, .bin), with NAME.mask.safetensors where values are hidden.
    #[arg(long, value_name = "DIR", conflicts_with = "gradients")]
    rounds: Option<PathBuf>,
    /// The attack, one of those listed below.
    #[arg(long, value_name = "ATTACK")]
    attack: InferenceAttack,
    /// The pictures' labels, if known: 3 or 3,4. Closed forms need none.
    #[arg(long, value_name = "N", visible_alias = "label", value_delimiter = ',')]
    labels: Vec<usize>,
    /// Number of pictures in the update. By default one for each label, or the rank of the last block's gradient.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u16).range(1..))]
    batch: Option<u16>,
    /// Steps of a search; the default depends on the attack.
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// First step size of a search, in units of pixels in [-1, 1]; use 0.05 or less for trained models.
    #[arg(long, value_name = "SIZE")]
    step: Option<f64>,
    /// Seed of the noise that a search starts from if no closed form gives it a start.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A picture (PNG, JPEG or WebP): was it in the update?
    #[arg(long, value_name = "IMAGE", required_if_eq("attack", "membership"))]
    candidate: Option<PathBuf>,
    /// The private picture (PNG, JPEG or WebP): cropped to a square, resized, and compared with the reconstruction.
    /// Repeat it for a batch. The pieces of a jigsaw are first put in their best order.
    #[arg(long, value_name = "IMAGE")]
    truth: Vec<PathBuf>,
    /// Folder for the results; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Invert {
    /// Attacks, writes the results and prints a summary.
    ///
    /// # Errors
    /// [`Failure::Input`] if the input cannot work; [`Failure::Other`] if the results cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let inversion = self.inversion().map_err(Failure::Input)?;
        let told = match inversion.tell() {
            // Labels need no model, only the gradient of a head.
            Err(InversionError::Dump(DumpError::Shapes(_)))
                if let Ok(report) = inversion.labels_alone(None, &mut || ControlFlow::Continue(())) =>
            {
                let any = Architecture::from(VitPreset::Pico).into();
                return finish(&Output::new(&self.out, any, self.attack), &report, &self.out);
            }
            told => told.map_err(refused)?,
        };
        let Told { model, notes } = told;
        for note in notes {
            println!("{note}");
        }
        // Read first, so that a wrong path is reported before any work is done.
        let known = known(&self.truth, self.candidate.as_deref(), model.size).map_err(Failure::Input)?;
        let mut output = Output::new(&self.out, model, self.attack);
        let interrupt = Interrupt::listen();
        let searches = GradientMatching::new(OpenDevice::cpu());
        let found = inversion.run(&model, &known, &searches, &mut || interrupt.flow(), &mut |progress| {
            output.progress(progress);
            interrupt.flow()
        });
        output.progress_ends();
        let (pictures, report) = found.map_err(refused)?;
        if !pictures.is_empty() {
            output.pictures(&pictures).map_err(Failure::Other)?;
        }
        finish(&output, &report, &self.out)
    }

    fn inversion(&self) -> anyhow::Result<Inversion> {
        let Self { attack, model, heads, side, april_block, .. } = *self;
        let file = |path: &Option<PathBuf>| path.clone().map(TensorFile::from);
        let weights = |path| file(path).map(|file| file.with_role(Role::Weights));
        // The update of federated averaging consists of weights.
        let role = if self.fedavg.is_some() { Role::Weights } else { Role::Gradients };
        let update = match (&self.rounds, file(&self.gradients).map(|file| file.with_role(role))) {
            (Some(folder), _) => Update::Rounds { name: folder.display().to_string(), rounds: round_files(folder)? },
            (None, Some(gradients)) => Update::One(UpdateFiles { gradients, mask: file(&self.mask) }),
            (None, None) => return Err(DumpError::NoUpdate.into()),
        };
        Ok(Inversion {
            attack,
            model: Asked {
                model,
                heads,
                side,
                size: self.size,
                april_block,
                pixels: PixelSpace::new(&self.mean, &self.std)?,
            },
            update,
            weights: weights(&self.weights),
            encrypted_weights: weights(&self.encrypted_weights),
            fedavg: self.fedavg,
            is_training: !self.eval,
            labels: self.labels.clone(),
            batch: self.batch.map(usize::from),
            search: SearchOptions { iterations: self.iterations, step: self.step, seed: self.seed },
        })
    }
}

/// The pictures that the user knows, at this width and height.
pub fn known(
    truths: &[PathBuf],
    candidate: Option<&Path>,
    (width, height): (usize, usize),
) -> anyhow::Result<KnownPictures> {
    let mut known = KnownPictures::default();
    let mut ways: Vec<Vec<Fed>> = Vec::new();
    for path in truths {
        let (picture, stored) = read_picture("the truth", path)?;
        known.truths.push(picture.fitted(width, height));
        ways.push(other_ways(&picture, stored.as_ref(), width, height));
    }
    // All pictures of a batch go through the same code.
    for (how, _) in ways.first().into_iter().flatten() {
        let of = |ways: &Vec<Fed>| Some(ways.iter().find(|(other, _)| other == how)?.1.clone());
        if let Some(truths) = ways.iter().map(of).collect() {
            known.other_truths.push((how.clone(), truths));
        }
    }
    if let Some(path) = candidate {
        known.candidate = Some(read_picture("the candidate", path)?.0.fitted(width, height));
    }
    Ok(known)
}

/// Writes the report and prints its summary.
fn finish(output: &Output, report: &Report, out: &Path) -> Result<(), Failure> {
    output.report(report).map_err(Failure::Other)?;
    report.summary(out).iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn refused(error: InversionError) -> Failure {
    match error {
        InversionError::Score(_) => Failure::Other(error.into()),
        error => Failure::Input(error.into()),
    }
}

/// Reads a picture, and as it is stored if that is turned.
fn read_picture(what: &str, path: &Path) -> anyhow::Result<(Picture, Option<Picture>)> {
    let bytes = fs::read(path).with_context(|| format!("{what} {} cannot be opened", path.display()))?;
    let about = || format!("{what} {}", path.display());
    Ok((decode(&bytes).with_context(about)?, decode_as_stored(&bytes).with_context(about)?))
}

/// Width and height, such as `64x16`.
fn size(text: &str) -> Result<(usize, usize), String> {
    let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    sides.filter(|&(width, height)| width > 0 && height > 0).ok_or_else(|| format!("\"{text}\" is no size; give 64x16"))
}
