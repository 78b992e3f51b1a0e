//! Repeats the measured table of low-rank completion in docs/reports/attack-notes.md:
//!
//!     python scripts/completion_gradients.py --all
//!     cargo xtask example completion vit_lab_patch8_32-fresh-sgd- 0.5 3
//!
//! Attacks every gradient in data/completion whose name starts with the first argument. The second argument is the rate
//! of the random binary masks, and the third is the number of their seeds. A fourth is the number of rounds, each with
//! its own mask: over one gradient, or over those of a file with several. With `frozen` as the fifth, all rounds share
//! one mask. The script makes the gradients.
//!
//! On Linux the times are processor time, which other work on the machine hardly affects; elsewhere they are elapsed
//! time.

use std::{
    error::Error,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Instant,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::{Dtype, SafeTensors};
use unmask_attack::{
    AccumulatedRounds, AttackError, Evidence, OnProgress, Reconstruction, Rounding, TensorSource, Tensors, completion,
    completion_of_rounds,
};
use unmask_core::{Architecture, VitConfig};
use unmask_data::metrics;

/// PSNR from which a picture counts as exact: unmasked f32 gradients give 89 to 99 dB.
const EXACT: f64 = 89.0;
/// PSNR from which a picture looks right at a glance.
const SEEN: f64 = 30.0;
const READ: [&str; 3] = ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [prefix, rate, seeds, rest @ ..] = arguments.as_slice() else {
        return Err(
            "give the start of the files' names, a rate, a number of seeds and, for several rounds, their number: \
                    vit_lab_patch8_32-fresh-sgd- 0.5 3"
                .into(),
        );
    };
    let (rate, seeds) = (rate.parse()?, seeds.parse()?);
    let rounds = rest.first().map_or(Ok(1), |rounds| rounds.parse())?;
    let is_frozen = rest.get(1).is_some_and(|word| word == "frozen");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/completion");
    let (mut exact, mut seen, mut refused, mut times) = (0, 0, 0, Vec::new());
    for path in files(&folder, prefix)? {
        for seed in 0..seeds {
            let (clock, before) = (Instant::now(), processor_seconds());
            let (found, psnr) = attack(&path, rate, seed, (rounds, is_frozen))?;
            let by_processor = before.and_then(|before| Some(processor_seconds()? - before));
            times.push(by_processor.unwrap_or_else(|| clock.elapsed().as_secs_f64()));
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let seconds = times.last().copied().unwrap_or_default();
            match found {
                Ok(found) => println!(
                    "{name}, mask {seed}: {psnr:.1} dB in {seconds:.2} s, {:?}. {}",
                    found.ending,
                    found.notes.join(" ")
                ),
                Err(reason) => println!("{name}, mask {seed}: refused after {seconds:.2} s: {reason}"),
            }
            exact += usize::from(psnr >= EXACT);
            seen += usize::from(psnr >= SEEN);
            refused += usize::from(psnr.is_nan());
        }
    }
    times.sort_by(f64::total_cmp);
    let count = times.len();
    println!(
        "{prefix} at R = {rate}: of {count} exact {exact}, above {SEEN} dB {seen}, refused {refused}; median {:.2} s, longest {:.2} s",
        times.get(count / 2).copied().unwrap_or(f64::NAN),
        times.last().copied().unwrap_or(f64::NAN),
    );
    Ok(())
}

/// Processor time of all threads of this process so far, in steps of 10 ms.
fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may contain spaces and brackets. User and system time are the 12th and 13th fields after it, in
    // hundredths of a second.
    let ticks = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    Some(ticks.map(|ticks| ticks.parse::<f64>().ok()).sum::<Option<f64>>()? / 100.0)
}

fn files(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let listed = fs::read_dir(folder).map_err(|error| {
        format!("{}: {error}; scripts/completion_gradients.py --all makes the gradients", folder.display())
    })?;
    let mut found: Vec<PathBuf> = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    found.sort();
    Ok(found)
}

/// Attacks `count` rounds, with one mask or one each. Returns the result and its PSNR in dB, NaN if there is no
/// picture.
fn attack(
    path: &Path,
    rate: f64,
    seed: u64,
    (count, is_frozen): (usize, bool),
) -> Result<(Result<Reconstruction, AttackError>, f64), Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let config = config(name.split('-').next().unwrap_or_default())?;
    let fresh = || ChaCha8Rng::seed_from_u64(seed);
    let mut rng = fresh();
    let mut rounds = Vec::new();
    for number in 0..count {
        if is_frozen {
            rng = fresh();
        }
        let rounding = if file.tensor("pos_embed").is_ok_and(|view| view.dtype() == Dtype::F64) {
            Rounding::F64
        } else {
            Rounding::F32
        };
        let mut gradients = Tensors::new(TensorSource::Gradients, &config, rounding);
        for tensor in READ {
            let view = file.tensor(tensor).or_else(|_| file.tensor(&format!("{tensor}.{number}")))?;
            let values: Vec<f64> = match view.dtype() {
                Dtype::F64 => view.data().as_chunks().0.iter().map(|&chunk| f64::from_le_bytes(chunk)).collect(),
                _ => view.data().as_chunks().0.iter().map(|&chunk| f64::from(f32::from_le_bytes(chunk))).collect(),
            };
            let kept = values.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
            gradients.insert_kept(tensor, view.shape(), values, kept)?;
        }
        rounds.push(Evidence { weights: Tensors::new(TensorSource::Weights, &config, Rounding::F32), gradients });
    }
    let truth: Vec<f32> = file.tensor("image")?.data().iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let on_step: OnProgress<'_> = &mut |_| ControlFlow::Continue(());
    let found = match rounds.as_slice() {
        [alone] => completion(alone, on_step),
        rounds => completion_of_rounds(&AccumulatedRounds::gather(rounds)?, rounds[0].gradients.rounding(), on_step),
    };
    let psnr = match &found {
        Ok(found) => metrics::psnr(&found.image, &truth, config.image, config.image)?,
        Err(_) => f64::NAN,
    };
    Ok((found, psnr))
}

/// Configuration of a preset, or of timm's ViT-B/32, which has no preset.
fn config(model: &str) -> Result<VitConfig, Box<dyn Error>> {
    if model == "vit_base_patch32_224" {
        return Ok(VitConfig {
            image: 224,
            patch: 32,
            dim: 768,
            depth: 0,
            heads: 12,
            classes: 10,
            april_block: false,
            mlp: None,
        });
    }
    match model.parse()? {
        Architecture::Vit(config) => Ok(config),
        other => Err(format!("{other} has no embeddings").into()),
    }
}
