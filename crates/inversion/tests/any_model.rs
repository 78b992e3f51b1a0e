//! Identifies timm models of common sizes from the shapes of their gradients, and attacks them in their own pixel
//! space.

use std::{
    env,
    path::{Path, PathBuf},
};

use unmask_attack::{
    Evidence, Needs, NoSearches, Observation, Recovered, Rounding, SearchOptions, TensorSource, Tensors, read_labels,
    run,
};
use unmask_core::{Architecture, AttackMethod};
use unmask_inversion::{Asked, DumpedModel, PixelSpace, Told, read_update};
use unmask_tensors::{TensorFile, TensorReader};

fn tell(folder: &Path, name: &str, has_weights: bool) -> Told {
    let pixels = PixelSpace::new(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225]).unwrap();
    let file = |suffix: &str| folder.join(format!("{name}{suffix}"));
    let weights = has_weights.then(|| file(".pt"));
    let files: Vec<TensorFile> = weights.into_iter().chain([file(".gradients.pt")]).map(TensorFile::from).collect();
    DumpedModel::tell(&Asked { pixels, ..Asked::default() }, &files).unwrap()
}

fn observe(folder: &Path, name: &str, model: &DumpedModel, needs: Needs) -> Observation {
    let file = TensorFile::from(folder.join(format!("{name}.gradients.pt")));
    let gradients = read_update(model, &file, None, &needs.gradients).unwrap().gradients;
    let weights = Tensors::new(TensorSource::Weights, model.architecture, Rounding::F32);
    Observation::new(Ok(Evidence { weights, gradients }))
}

fn embedding(folder: &Path, name: &str, model: &DumpedModel) -> Result<Recovered, String> {
    let method = AttackMethod::Embedding;
    let needs = Needs::of(method, model.architecture).unwrap();
    model.check_fits(method.name(), &needs, false).unwrap();
    let observation = observe(folder, name, model, needs);
    run(method, &observation, &NoSearches, SearchOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()))
        .map_err(|error| error.to_string())
}

/// PSNR in dB, for pixels in [0, 1].
fn psnr(folder: &Path, model: &DumpedModel, found: &Recovered) -> f64 {
    let side = model.architecture.side();
    let mut truth = TensorReader::open(&folder.join(format!("truth_{side}.safetensors"))).unwrap();
    let truth = truth.read::<f64>("image").unwrap().values;
    let found = model.pixels.pixels(&found.pictures[0]);
    let error = |(i, value): (usize, &f32)| (f64::from(*value) - truth[i % 3 * side * side + i / 3]).powi(2);
    -10.0 * (found.iter().enumerate().map(error).sum::<f64>() / found.len() as f64).log10()
}

#[test]
#[ignore = "needs files that scripts/make_model_files.py --large FOLDER makes; UNMASK_MODEL_FILES names the folder"]
fn models_of_timm_are_told_and_their_picture_recovered() {
    let folder = PathBuf::from(env::var_os("UNMASK_MODEL_FILES").unwrap());
    for (name, expected, classes) in [
        ("vit_base", "vit_patch16_dim768_depth12_heads12_224", 1000),
        ("vit_small_patch32", "vit_patch32_dim384_depth12_heads6_224", 1000),
        ("vit_small_64", "vit_patch8_dim384_depth12_heads6_64", 1000),
        ("vit_small_no_head", "vit_patch32_dim384_depth12_heads6_224", 0),
        ("vit_small_pooled", "vit_patch32_dim384_depth12_heads6_224", 10),
        ("deit_small_distilled", "vit_small_patch16_224", 1000),
    ] {
        for has_weights in [false, true] {
            let Told { model, notes } = tell(&folder, name, has_weights);
            let Architecture::Vit(config) = model.architecture else { panic!("{name}") };
            // Parsing gives the preset's name if one has these dimensions.
            let numbered: Architecture = expected.parse().unwrap();
            assert_eq!(model.architecture, numbered.with_classes(classes), "{name}: {config:?}");
            let found = embedding(&folder, name, &model).unwrap();
            let psnr = psnr(&folder, &model, &found);
            eprintln!("{name}: {psnr:.1} dB in {:.2} s; {}", found.seconds, notes.join(" "));
            assert!(psnr > 60.0, "{name}: {psnr:.1} dB");
            if classes > 0 {
                let labels = observe(&folder, name, &model, Needs::of_labels(model.architecture));
                assert_eq!(labels.read_labels().unwrap().labels(), [3], "{name}");
            }
        }
    }
}

#[test]
#[ignore = "needs files that scripts/make_model_files.py --large FOLDER makes; UNMASK_MODEL_FILES names the folder"]
fn what_does_not_fit_a_model_of_timm_is_named() {
    let folder = PathBuf::from(env::var_os("UNMASK_MODEL_FILES").unwrap());
    let model = tell(&folder, "deit_tiny", true).model;
    assert_eq!(model.architecture, Architecture::named("vit_tiny_patch16_224", 1000).unwrap());
    let refused = embedding(&folder, "deit_tiny", &model).unwrap_err();
    assert!(refused.contains("192") && refused.contains("196"), "{refused}");
    for name in ["deit_small_distilled", "vit_small_pooled"] {
        let model = tell(&folder, name, true).model;
        let needs = Needs::of(AttackMethod::Matching, model.architecture).unwrap();
        let refused = model.check_fits("matching", &needs, true).unwrap_err().to_string();
        assert!(refused.contains("matching works only on a standard ViT"), "{refused}");
    }
    let Told { model, notes } = tell(&folder, "resnet50", true);
    assert_eq!(model.architecture, Architecture::named("resnet50", 1000).unwrap());
    assert!(notes.iter().any(|note| note.contains("--side overrides this")), "{notes:?}");
    let observation = observe(&folder, "resnet50", &model, Needs::of_labels(model.architecture));
    assert_eq!(read_labels(&observation.evidence().unwrap().gradients, 1).unwrap().labels(), [3]);
}
