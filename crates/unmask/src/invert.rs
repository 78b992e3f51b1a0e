//! `unmask invert`: attacks a gradient that was dumped from anywhere.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, anyhow};
use clap::Args;
use serde::Serialize;
use unmask_attack::{AttackKind, Evidence, Precision, Reconstruction, Source, Tensors, run};
use unmask_data::{Picture, chw_to_hwc, decode, encode_png, metrics};
use unmask_model::weights::{NamedTensor, TensorReader, encode};
use unmask_params::{ModelSpec, ParamLayout, Preset, VitConfig};

use crate::Failure;

const EXAMPLE: &str = "\
Example, from PyTorch with timm (images normalised to [-1, 1], one image in the batch):

    loss = torch.nn.functional.cross_entropy(model(image), label)
    loss.backward()
    safetensors.torch.save_file(
        {name: p.grad.contiguous() for name, p in model.named_parameters()}, \"gradients.safetensors\")

    unmask invert --model vit_small_patch16_224 --gradients gradients.safetensors \\
        --attack embedding --truth photo.jpg --out result

Only these tensors are read, in f16, bf16, f32 or f64:
    embedding   gradients pos_embed, patch_embed.proj.weight
    april       gradients pos_embed, blocks.0.attn.qkv.weight
                weights   pos_embed, patch_embed.proj.weight, patch_embed.proj.bias, blocks.0.attn.qkv.weight

result/ then holds reconstruction.png, reconstruction.safetensors (\"reconstruction\", f32 [H, W, 3] in [0, 1]) and
report.json. Exit code 2: the input is incomplete or wrong, or the attack cannot work on it; one line says why.";

/// Arguments of `unmask invert`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Invert {
    /// The model, such as vit_small_patch16_224.
    #[arg(long, value_name = "NAME")]
    model: Preset,
    /// The first block has no LayerNorm before attention and no residual around it, as APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The weights at which the gradient was taken (safetensors, timm's names). The embedding inversion needs none.
    #[arg(long, value_name = "FILE", required_if_eq("attack", "april"))]
    weights: Option<PathBuf>,
    /// The gradient (safetensors, timm's names).
    #[arg(long, value_name = "FILE")]
    gradients: PathBuf,
    /// What the defence kept (safetensors, u8, 1 = kept, same names); the gradient is multiplied by it first. Without
    /// it nothing is hidden.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// The attack: embedding or april.
    #[arg(long, value_name = "ATTACK")]
    attack: AttackKind,
    /// The picture's label, for the report; neither attack needs it.
    #[arg(long, value_name = "N")]
    label: Option<usize>,
    /// The private picture (PNG, JPEG or WebP): cropped to a square, resized, and compared with what came out.
    #[arg(long, value_name = "IMAGE")]
    truth: Option<PathBuf>,
    /// Folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// `report.json`.
#[derive(Debug, Serialize)]
struct Report {
    attack: AttackKind,
    model: Preset,
    april_block: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<usize>,
    /// Time of the attack itself, without reading and writing.
    seconds: f64,
    /// In dB, at most 99.
    #[serde(skip_serializing_if = "Option::is_none")]
    psnr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssim: Option<f64>,
    /// Smallest over largest.
    singular_values_ratio: f64,
    /// Share of the gradient's values, among those read, that the mask hid.
    hidden_share: f64,
    notes: Vec<String>,
}

impl Invert {
    /// Attacks, writes the results and prints a summary.
    pub fn run(self) -> Result<(), Failure> {
        let config = ModelSpec::new(self.model).with_april_block(self.april_block).config();
        // The truth is read first, so that a wrong path is reported before any work is done.
        let truth = self.truth.as_deref().map(|path| read_truth(path, config.image)).transpose();
        let truth = truth.map_err(Failure::Input)?;
        let (evidence, hidden_share) = self.evidence(&config).map_err(Failure::Input)?;

        let start = Instant::now();
        let reconstruction = run(self.attack, &evidence)
            .with_context(|| format!("{} cannot work", self.attack.title()))
            .map_err(Failure::Input)?;
        let seconds = start.elapsed().as_secs_f64();

        let (psnr, ssim) = match &truth {
            Some(truth) => compare(&reconstruction, truth).map(|(psnr, ssim)| (Some(psnr), Some(ssim))),
            None => Ok((None, None)),
        }
        .map_err(Failure::Other)?;
        let report = Report {
            attack: self.attack,
            model: self.model,
            april_block: self.april_block,
            label: self.label,
            seconds,
            psnr,
            ssim,
            singular_values_ratio: reconstruction.singular_ratio,
            hidden_share,
            notes: reconstruction.notes.clone(),
        };
        write(&self.out, &reconstruction, &report).map_err(Failure::Other)?;
        summarise(&self.out, &report);
        Ok(())
    }

    fn evidence(&self, config: &VitConfig) -> anyhow::Result<(Evidence, f64)> {
        let layout = ParamLayout::vit(config);
        let weights = match &self.weights {
            Some(path) => TensorReader::open(path)?.read_params(&layout, self.attack.weights())?,
            None => BTreeMap::new(),
        };
        let mut gradients: BTreeMap<String, NamedTensor<f64>> =
            TensorReader::open(&self.gradients)?.read_params(&layout, self.attack.gradients())?;
        // Before masking: a tensor's type shows in all of its values.
        let precision = gradients.values().map(|tensor| Precision::of(&tensor.values)).max().unwrap_or_default();
        let hidden_share = match &self.mask {
            Some(path) => {
                let mask = TensorReader::open(path)?.read_params(&layout, self.attack.gradients())?;
                hide(&mut gradients, &mask).with_context(|| path.display().to_string())?
            }
            None => 0.0,
        };
        let evidence = Evidence {
            weights: tensors(Source::Weights, config, Precision::F32, weights)?,
            gradients: tensors(Source::Gradients, config, precision, gradients)?,
        };
        Ok((evidence, hidden_share))
    }
}

/// Multiplies by the mask; returns the share it hid.
fn hide(
    gradients: &mut BTreeMap<String, NamedTensor<f64>>,
    mask: &BTreeMap<String, NamedTensor<f32>>,
) -> anyhow::Result<f64> {
    let (mut hidden, mut total) = (0_usize, 0_usize);
    for (name, gradient) in gradients {
        let mask = mask.get(name).ok_or_else(|| anyhow!("{name} is missing"))?;
        for (index, (value, &keep)) in gradient.values.iter_mut().zip(&mask.values).enumerate() {
            if keep != 0.0 && keep != 1.0 {
                return Err(anyhow!("{name} holds {keep} at value {index}; a mask is 0 (hidden) or 1 (kept)"));
            }
            *value *= f64::from(keep);
            hidden += usize::from(keep == 0.0);
            total += 1;
        }
    }
    Ok(hidden as f64 / total.max(1) as f64)
}

fn tensors(
    source: Source,
    config: &VitConfig,
    precision: Precision,
    named: BTreeMap<String, NamedTensor<f64>>,
) -> anyhow::Result<Tensors> {
    let mut tensors = Tensors::new(source, config, precision);
    for (name, tensor) in named {
        tensors.insert(&name, &tensor.shape, tensor.values)?;
    }
    Ok(tensors)
}

/// What the model saw of the picture, `[side, side, 3]` in [0, 1].
fn read_truth(path: &Path, side: usize) -> anyhow::Result<Vec<f32>> {
    let bytes = fs::read(path).with_context(|| format!("the truth {} cannot be opened", path.display()))?;
    let picture = decode(&bytes).with_context(|| format!("the truth {}", path.display()))?;
    Ok(chw_to_hwc(&picture.for_model(side), side, side))
}

fn compare(reconstruction: &Reconstruction, truth: &[f32]) -> anyhow::Result<(f64, f64)> {
    let Reconstruction { image, side, .. } = reconstruction;
    Ok((metrics::psnr(image, truth, *side, *side)?, metrics::ssim(image, truth, *side, *side)?))
}

fn write(out: &Path, reconstruction: &Reconstruction, report: &Report) -> anyhow::Result<()> {
    let save = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
    };
    let Reconstruction { image, side, .. } = reconstruction;
    fs::create_dir_all(out).with_context(|| format!("the folder {} cannot be made", out.display()))?;
    save("reconstruction.png", &encode_png(&Picture::from_hwc(*side, *side, image)?)?)?;
    let shape = [*side, *side, VitConfig::CHANNELS];
    save("reconstruction.safetensors", &encode([("reconstruction", shape.as_slice(), image.as_slice())])?)?;
    save("report.json", &serde_json::to_vec_pretty(report)?)
}

fn summarise(out: &Path, report: &Report) {
    println!(
        "{} in {:.0} ms: {}",
        report.attack.title(),
        report.seconds * 1e3,
        out.join("reconstruction.png").display()
    );
    if let (Some(psnr), Some(ssim)) = (report.psnr, report.ssim) {
        let verdict = if ssim < metrics::PROTECTED_BELOW { "protected" } else { "not protected" };
        println!("PSNR {psnr:.1} dB, SSIM {ssim:.3}: {verdict}");
    }
    for note in &report.notes {
        println!("{note}");
    }
}
