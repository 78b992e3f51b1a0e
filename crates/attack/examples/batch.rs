//! Measures how many batches of photographs come back from one gradient, as a table in Markdown:
//!
//!     cargo xtask example batch vit_lab_patch8_32 2,3,4 f32 10
//!
//! The arguments are a model, sizes of batches, how the gradient comes about, and the number of batches:
//!
//! - `f32` or `f64`: of a batch, in this type;
//! - `sum:CLIP`: a secure sum of clients with one picture each, which shorten their gradients to an L2 norm of CLIP;
//! - `sum:CLIP:R`: each of them also drops a share R by a secret mask, and the attack uses the values that all kept. At
//!   `0.0` the masks keep all, and the whole numbers are as coarse;
//! - `masks:R`: such masks without clip and whole numbers.
//!
//! Batch k has other pictures and labels, and fresh weights of seed k. The pictures are the samples and, if CIFAR-10 is
//! there, twelve of its test set, all rounded to 8 bits. With a number of steps as the fifth argument, the weights are
//! first trained on CIFAR-10 by AdamW, once for all batches. A picture counts as back from 60 dB on.

use std::{error::Error, fs, ops::ControlFlow, path::Path};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use unmask_attack::{AttackError, Evidence, Levels, Needs, Rounding, TensorSource, Tensors, batch};
use unmask_core::{
    Architecture, Defence, InitOptions, MaskSeed, ParamLayout, SecureSumSettings, VitConfig, initial_weights,
};
use unmask_data::{chw_to_hwc, decode, hwc_to_chw, metrics};
use unmask_defence::{KeyMaterial, Mask, PlainUpdate, Protect};
use unmask_engine::{Engine, Normalisation, Wanted};
use unmask_secagg::{MeanOfSum, SumEncoding};

/// PSNR from which a picture counts as back.
const BACK: f64 = 60.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, sizes, precision, batches, rest @ ..] = arguments.as_slice() else {
        return Err(
            "give a model, sizes of batches, f32, f64, sum:CLIP, sum:CLIP:R or masks:R, and a number of batches: vit_lab_patch8_32 2,3,4 f32 10".into(),
        );
    };
    let config = model.parse::<Architecture>()?.vit().ok_or("the model must be a ViT")?;
    let kind = match (precision.as_str(), precision.strip_prefix("sum:")) {
        ("f32", _) => Kind::Batch(Rounding::F32),
        ("f64", _) => Kind::Batch(Rounding::F64),
        (_, Some(sum)) => {
            let (clip, rate) = sum.split_once(':').unwrap_or((sum, "0"));
            let defence = if rate == "0" { Defence::None } else { format!("random-binary:{rate}").parse()? };
            Kind::SecureSum { clip: clip.parse()?, defence }
        }
        (other, None) => match other.strip_prefix("masks:") {
            Some(rate) => Kind::Masks(format!("random-binary:{rate}").parse()?),
            None => {
                return Err(
                    format!("{other} is not a precision; give f32, f64, sum:CLIP, sum:CLIP:R or masks:R").into()
                );
            }
        },
    };
    let photographs = photographs(config.image)?;
    let steps: usize = rest.first().map_or(Ok(0), |steps| steps.parse())?;
    let trained = if steps > 0 { Some(train(&config, steps)?) } else { None };
    let state = if steps > 0 { format!("{steps} steps") } else { "fresh".to_owned() };
    println!(
        "| model | weights | B | gradient | batches whole | pictures back | certain | wrongly certain | tokens lost | median dB | least dB | median s | longest s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for size in sizes.split(',') {
        let size: usize = size.parse()?;
        let (mut whole, mut back, mut certain, mut wrong, mut lost) = (0, 0, 0, 0, 0);
        let (mut psnrs, mut times) = (Vec::new(), Vec::new());
        let batches: usize = batches.parse()?;
        for number in 0..batches {
            let truths: Vec<&Vec<f32>> =
                (0..size).map(|k| &photographs[(number * 5 + k * 7) % photographs.len()]).collect();
            let labels: Vec<usize> = (0..size).map(|k| (3 * number + 7 * k) % config.classes).collect();
            let fresh = || initial_weights(&config, number as u64, InitOptions::default());
            let weights = trained.clone().unwrap_or_else(fresh);
            let names = Needs::of_batch(&config)?.weights;
            let evidence = Evidence {
                weights: read(&config, TensorSource::Weights, Rounding::F32, (&wide(&weights), None), &names.all())?,
                gradients: gradient(&config, &truths, &labels, &weights, kind)?,
            };
            let mut last = None;
            let mut own = |label: usize, picture: &[f32]| {
                let own = gradient(&config, &[&picture.to_vec()], &[label], &weights, Kind::Batch(Rounding::F64));
                own.map_err(|error| AttackError::Search { reason: error.to_string() })
            };
            let found = batch(&evidence, Levels::default(), Some(&mut own), &mut |at| {
                last = Some(at);
                ControlFlow::Continue(())
            });
            lost += last.map_or(0, |at| at.tokens - at.found);
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    eprintln!("batch {number} of {size}: {error}");
                    psnrs.extend(std::iter::repeat_n(0.0, size));
                    continue;
                }
            };
            let mut here = Vec::new();
            for truth in &truths {
                let of = |image: &[f32]| metrics::psnr(image, truth, config.image, config.image).unwrap_or(0.0);
                here.push(found.pictures.iter().map(|picture| of(&picture.image)).fold(0.0, f64::max));
            }
            for picture in &found.pictures {
                let is_same = |(a, b): (&f32, &f32)| (a - b).abs() < 0.5 / 255.0;
                let matches = |truth: &&Vec<f32>| picture.image.iter().zip(truth.iter()).all(is_same);
                certain += usize::from(picture.is_certain);
                wrong += usize::from(picture.is_certain && !truths.iter().any(matches));
            }
            eprintln!("batch {number} of {size}: {here:.1?} in {:.1} s. {}", found.seconds, found.notes.join(" "));
            whole += usize::from(here.iter().all(|&db| db >= BACK));
            back += here.iter().filter(|&&db| db >= BACK).count();
            psnrs.extend(here);
            times.push(found.seconds);
        }
        psnrs.sort_by(f64::total_cmp);
        times.sort_by(f64::total_cmp);
        let middle = |values: &[f64]| values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
        println!(
            "| {model} | {state} | {size} | {precision} | {whole} of {batches} | {back} of {} | {certain} | {wrong} | {lost} | {:.1} | {:.1} | {:.1} | {:.1} |",
            batches * size,
            middle(&psnrs),
            psnrs.first().copied().unwrap_or(f64::NAN),
            middle(&times),
            times.last().copied().unwrap_or(f64::NAN),
        );
    }
    Ok(())
}

/// Pictures `[side, side, 3]` in [0, 1] of 8 bits.
fn photographs(side: usize) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let mut pictures = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let mut files: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "png" || kind == "jpg")) {
        let chw = decode(&fs::read(file)?)?.for_model(side);
        let bytes = |value: f32| (value * 255.0).round() / 255.0;
        pictures.push(chw_to_hwc(&chw, side, side).into_iter().map(bytes).collect());
    }
    let of_cifar = if side == 32 { cifar("test_batch.bin").unwrap_or_default() } else { Vec::new() };
    pictures.extend(of_cifar.iter().take(12).map(|(_, chw)| chw_to_hwc(chw, side, side)));
    Ok(pictures)
}

/// A label and a picture `[3, side, side]` in [0, 1].
type Labelled = (usize, Vec<f32>);

/// The pictures of a file of CIFAR-10.
fn cifar(file: &str) -> Result<Vec<Labelled>, Box<dyn Error>> {
    let home = std::env::home_dir().ok_or("there is no home directory")?;
    let bytes = fs::read(home.join(".cache/unmask/cifar10").join(file))?;
    let pixels = |bytes: &[u8]| bytes.iter().map(|&value| f32::from(value) / 255.0).collect();
    Ok(bytes.chunks_exact(3073).map(|row| (row[0].into(), pixels(&row[1..]))).collect())
}

/// Weights of seed 0 after steps of AdamW on batches of 32 pictures of CIFAR-10.
fn train(config: &VitConfig, steps: usize) -> Result<Vec<f32>, Box<dyn Error>> {
    const BATCH: usize = 32;
    const RATE: f32 = 1e-3;
    const DECAY: f32 = 0.05;
    let pictures =
        cifar("data_batch_1.bin").map_err(|error| format!("training needs CIFAR-10 (unmask fetch): {error}"))?;
    let mut weights = initial_weights(config, 0, InitOptions::default());
    let engine = Engine::<f32>::new(Architecture::Vit(*config));
    let wanted = Wanted { weights: weights.len(), images: false };
    let mut moments = vec![(0.0f32, 0.0f32); weights.len()];
    for step in 0..steps {
        let batch = (0..BATCH).map(|k| &pictures[(step * BATCH + k) % pictures.len()]);
        let (labels, images): (Vec<usize>, Vec<&[f32]>) = batch.map(|(label, chw)| (*label, chw.as_slice())).unzip();
        let found = engine.differentiate(&weights, &[], &images.concat(), &labels, Normalisation::Running, wanted);
        let power = i32::try_from(step + 1)?;
        let (first, second) = (1.0 - 0.9f32.powi(power), 1.0 - 0.999f32.powi(power));
        for ((weight, (mean, square)), slope) in weights.iter_mut().zip(&mut moments).zip(&found.gradient) {
            *mean = 0.9 * *mean + 0.1 * slope;
            *square = 0.999 * *square + 0.001 * slope * slope;
            *weight -= RATE * (DECAY * *weight + *mean / first / ((*square / second).sqrt() + 1e-8));
        }
        if step % 100 == 0 {
            eprintln!("step {step}: loss {}", found.loss);
        }
    }
    Ok(weights)
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// How a gradient comes about.
#[derive(Clone, Copy)]
enum Kind {
    Batch(Rounding),
    SecureSum {
        clip: f64,
        defence: Defence,
    },
    /// A mask for each picture, and a plain mean.
    Masks(Defence),
}

/// A mean `[P]`, and which of its values all clients kept.
type Summed = (Vec<f64>, Option<Vec<bool>>);

/// The mean that a secure sum of these pictures' clients gives, in f32, and the values that all of them kept.
fn of_secure_sum(
    gradients: Vec<Vec<f32>>,
    layout: &ParamLayout,
    (clip, defence): (f64, Defence),
    seed: u64,
) -> Result<Summed, Box<dyn Error>> {
    let settings = SecureSumSettings { clip: Some(clip), ..SecureSumSettings::default() };
    let clients = gradients.len();
    let encoding = SumEncoding::new(settings, defence, clients, clients)?;
    let mut sum = vec![0_u32; gradients.first().map_or(0, Vec::len)];
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    for values in gradients {
        let keys = KeyMaterial { seed: MaskSeed(random.random()), cipher: None };
        let update = defence.protect(layout, PlainUpdate { values, reference: None }, keys)?;
        let encoded = encoding.encode(update, layout, None)?;
        sum.iter_mut().zip(encoded).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    let MeanOfSum { values, kept } = encoding.mean(&sum, clients, None)?;
    let by_all = |kept: Vec<u8>| kept.into_iter().map(|kept| usize::from(kept) == clients).collect();
    Ok((wide(&values), kept.map(by_all)))
}

/// The plain mean `[P]` of updates behind a mask each, and which of its values all clients kept.
fn of_masked(gradients: Vec<Vec<f32>>, layout: &ParamLayout, defence: Defence, seed: u64) -> (Vec<f64>, Vec<bool>) {
    let clients = gradients.len() as f64;
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let (mut mean, mut by_all) = (vec![0.0; layout.len()], vec![true; layout.len()]);
    for values in gradients {
        let seed = MaskSeed(random.random());
        mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += f64::from(value) / clients);
        if let Some(rates) = defence.rates() {
            let mask = Mask::new(seed, rates, layout);
            by_all.iter_mut().zip(mask.entries()).for_each(|(all, kept)| *all &= kept);
        }
    }
    (mean, by_all)
}

/// The gradient of a batch.
fn gradient(
    config: &VitConfig,
    pictures: &[&Vec<f32>],
    labels: &[usize],
    weights: &[f32],
    kind: Kind,
) -> Result<Tensors, Box<dyn Error>> {
    let images: Vec<f32> =
        pictures.iter().flat_map(|picture| hwc_to_chw(picture, config.image, config.image)).collect();
    let architecture = Architecture::Vit(*config);
    let wanted = Wanted { weights: weights.len(), images: false };
    let single = |images: &[f32], labels: &[usize]| {
        let engine = Engine::<f32>::new(architecture);
        engine.differentiate(weights, &[], images, labels, Normalisation::Running, wanted).gradient
    };
    let each = || {
        let pairs = images.chunks(images.len() / labels.len()).zip(labels);
        pairs.map(|(image, label)| single(image, &[*label])).collect()
    };
    // Other masks for other labels, which differ from batch to batch.
    let seed = labels.iter().fold(1, |seed, label| 31 * seed + *label as u64);
    let layout = architecture.layout();
    let (gradient, kept, rounding) = match kind {
        Kind::Batch(Rounding::F64) => {
            let engine = Engine::<f64>::new(architecture);
            let found =
                engine.differentiate(&wide(weights), &[], &wide(&images), labels, Normalisation::Running, wanted);
            (found.gradient, None, Rounding::F64)
        }
        Kind::Batch(rounding) => (wide(&single(&images, labels)), None, rounding),
        Kind::SecureSum { clip, defence } => {
            let (mean, kept) = of_secure_sum(each(), &layout, (clip, defence), seed)?;
            (mean, kept, Rounding::F32)
        }
        Kind::Masks(defence) => {
            let (mean, kept) = of_masked(each(), &layout, defence, seed);
            (mean, Some(kept), Rounding::F32)
        }
    };
    read(
        config,
        TensorSource::Gradients,
        rounding,
        (&gradient, kept.as_deref()),
        &Needs::of_batch(config)?.gradients.all(),
    )
}

/// Takes tensors from a flat vector in the layout's order, of which only the marked entries arrived.
fn read(
    config: &VitConfig,
    source: TensorSource,
    rounding: Rounding,
    (flat, kept): (&[f64], Option<&[bool]>),
    names: &[&str],
) -> Result<Tensors, Box<dyn Error>> {
    let layout = ParamLayout::vit(config);
    let mut tensors = Tensors::new(source, config, rounding);
    for name in names {
        let param = layout.get(name).ok_or("no such parameter")?;
        let values = flat[param.range.clone()].to_vec();
        match kept {
            Some(kept) => tensors.insert_kept(name, &param.shape, values, kept[param.range.clone()].to_vec())?,
            None => tensors.insert(name, &param.shape, values)?,
        }
    }
    Ok(tensors)
}
