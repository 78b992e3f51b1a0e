//! Measures how many batches of photographs come back from one gradient, as a table in Markdown:
//!
//!     cargo xtask example batch vit_lab_patch8_32 2,3,4 f32 10
//!
//! The arguments are a model, sizes of batches, the type of the gradient (f32 or f64) and the number of batches. Batch k
//! takes the sample photographs from k on, in turn with those of CIFAR-10 if they are there, other labels, and fresh
//! weights of seed k. A picture counts as back from 60 dB on.

use std::{error::Error, fs, ops::ControlFlow, path::Path};

use unmask_attack::{AttackError, Needs, Rounding, TensorSource, Tensors, batch};
use unmask_core::{Architecture, InitOptions, ParamLayout, VitConfig, initial_weights};
use unmask_data::{chw_to_hwc, decode, hwc_to_chw, metrics};
use unmask_engine::{Engine, Normalisation, Wanted};

/// PSNR from which a picture counts as back.
const BACK: f64 = 60.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, sizes, precision, batches] = arguments.as_slice() else {
        return Err(
            "give a model, sizes of batches, f32 or f64 and a number of batches: vit_lab_patch8_32 2,3,4 f32 10".into(),
        );
    };
    let config = model.parse::<Architecture>()?.vit().ok_or("the model must be a ViT")?;
    let rounding = match precision.as_str() {
        "f32" => Rounding::F32,
        "f64" => Rounding::F64,
        other => return Err(format!("{other} is not a precision; give f32 or f64").into()),
    };
    let photographs = photographs(config.image)?;
    println!(
        "| model | B | gradient | batches whole | pictures back | certain | wrongly certain | tokens lost | median dB | least dB | median s | longest s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for size in sizes.split(',') {
        let size: usize = size.parse()?;
        let (mut whole, mut back, mut certain, mut wrong, mut lost) = (0, 0, 0, 0, 0);
        let (mut psnrs, mut times) = (Vec::new(), Vec::new());
        let batches: usize = batches.parse()?;
        for number in 0..batches {
            if std::env::var("ONLY").is_ok_and(|only| only != number.to_string()) {
                continue;
            }
            let truths: Vec<&Vec<f32>> =
                (0..size).map(|k| &photographs[(number * 5 + k * 7) % photographs.len()]).collect();
            let labels: Vec<usize> = (0..size).map(|k| (3 * number + 7 * k) % config.classes).collect();
            let evidence = evidence(&config, &truths, &labels, number as u64, rounding)?;
            let mut last = None;
            let mut own = |label: usize, picture: &[f32]| {
                let own = gradient(&config, &[&picture.to_vec()], &[label], number as u64, Rounding::F64);
                own.map_err(|error| AttackError::Search { reason: error.to_string() })
            };
            let found = batch(&evidence, Some(&mut own), &mut |at| {
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
            "| {model} | {size} | {precision} | {whole} of {batches} | {back} of {} | {certain} | {wrong} | {lost} | {:.1} | {:.1} | {:.1} | {:.1} |",
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
    let cifar = std::env::home_dir().map(|home| home.join(".cache/unmask/cifar10/test_batch.bin"));
    if let Some(bytes) = cifar.filter(|_| side == 32).and_then(|path| fs::read(path).ok()) {
        for picture in bytes.chunks_exact(3073).take(12) {
            let chw: Vec<f32> = picture[1..].iter().map(|&value| f32::from(value) / 255.0).collect();
            pictures.push(chw_to_hwc(&chw, side, side));
        }
    }
    Ok(pictures)
}

/// The gradient of a batch at fresh weights, with the weights.
fn evidence(
    config: &VitConfig,
    pictures: &[&Vec<f32>],
    labels: &[usize],
    seed: u64,
    rounding: Rounding,
) -> Result<unmask_attack::Evidence, Box<dyn Error>> {
    let weights = wide(&initial_weights(config, seed, InitOptions::default()));
    let names = Needs::of_batch(config)?.weights;
    Ok(unmask_attack::Evidence {
        weights: read(config, TensorSource::Weights, Rounding::F32, &weights, &names.all())?,
        gradients: gradient(config, pictures, labels, seed, rounding)?,
    })
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn gradient(
    config: &VitConfig,
    pictures: &[&Vec<f32>],
    labels: &[usize],
    seed: u64,
    rounding: Rounding,
) -> Result<Tensors, Box<dyn Error>> {
    let weights = initial_weights(config, seed, InitOptions::default());
    let images: Vec<f32> =
        pictures.iter().flat_map(|picture| hwc_to_chw(picture, config.image, config.image)).collect();
    let architecture = Architecture::Vit(*config);
    let wanted = Wanted { weights: weights.len(), images: false };
    let gradient = if rounding == Rounding::F64 {
        let engine = Engine::<f64>::new(architecture);
        engine.differentiate(&wide(&weights), &[], &wide(&images), labels, Normalisation::Running, wanted).gradient
    } else {
        let engine = Engine::<f32>::new(architecture);
        wide(&engine.differentiate(&weights, &[], &images, labels, Normalisation::Running, wanted).gradient)
    };
    read(config, TensorSource::Gradients, rounding, &gradient, &Needs::of_batch(config)?.gradients.all())
}

/// Takes tensors from a flat vector in the layout's order.
fn read(
    config: &VitConfig,
    source: TensorSource,
    rounding: Rounding,
    flat: &[f64],
    names: &[&str],
) -> Result<Tensors, Box<dyn Error>> {
    let layout = ParamLayout::vit(config);
    let mut tensors = Tensors::new(source, config, rounding);
    for name in names {
        let param = layout.get(name).ok_or("no such parameter")?;
        tensors.insert(name, &param.shape, flat[param.range.clone()].to_vec())?;
    }
    Ok(tensors)
}
