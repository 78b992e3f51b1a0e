//! A batch of two photographs, taken apart from PyTorch's gradients.

use std::ops::ControlFlow;

use super::common::{File, vectors};
use unmask_attack::{
    AttackError, AttackProgress, Ending, Evidence, Needs, NoSearches, Observation, Rounding, SearchOptions,
    TensorSource, Tensors, run,
};
use unmask_core::{AttackMethod, ParamLayout, VitConfig, VitPreset};
use unmask_data::metrics;

fn small() -> VitConfig {
    VitConfig { image: 16, patch: 8, dim: 20, depth: 2, heads: 2, ..VitPreset::Pico.into() }
}

/// The weights of `scripts/batch_vectors.py`, which has the same function.
fn weight(name: &str, shape: &[usize]) -> Vec<f64> {
    let state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |state: u64, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let uniform = |index: u64| {
        let x = state.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let value = |uniform: f64| match name {
        _ if name.contains("norm") => f64::from(u8::from(name.ends_with("weight"))) + 0.1 * uniform,
        _ if name.ends_with("bias") || shape.len() == 3 => 0.1 * uniform,
        _ => uniform * (3.0 / shape[1..].iter().product::<usize>() as f64).sqrt(),
    };
    (0..shape.iter().product::<usize>() as u64).map(|index| f64::from(value(uniform(index)) as f32)).collect()
}

/// The update in f32 or f64, and the pictures `[16, 16, 3]` in [0, 1].
fn update(rounding: Rounding) -> (Evidence, Vec<Vec<f32>>) {
    let (file, config) = (File::read(&vectors("batch.safetensors")), small());
    let names = Needs::of(AttackMethod::Batch, &config).unwrap();
    let mut evidence = Evidence {
        weights: Tensors::new(TensorSource::Weights, &config, Rounding::F32),
        gradients: Tensors::new(TensorSource::Gradients, &config, rounding),
    };
    for param in ParamLayout::vit(&config).iter() {
        if names.weights.required.contains(&param.name) {
            evidence.weights.insert(&param.name, &param.shape, weight(&param.name, &param.shape)).unwrap();
        }
        if names.gradients.required.contains(&param.name) {
            let precision = if rounding == Rounding::F64 { "f64" } else { "f32" };
            let values = file.get(&format!("{}.{precision}", param.name)).1.to_vec();
            evidence.gradients.insert(&param.name, &param.shape, values).unwrap();
        }
    }
    let pictures = file.get("pictures").1.chunks(16 * 16 * 3);
    (evidence, pictures.map(|one| one.iter().map(|&value| value as f32 / 255.0).collect()).collect())
}

fn take_apart(evidence: Evidence) -> Result<unmask_attack::Recovered, AttackError> {
    let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
    run(AttackMethod::Batch, &Observation::new(Ok(evidence)), &NoSearches, SearchOptions::default(), go_on)
}

#[test]
fn pytorch_gradients_of_a_batch_give_both_photographs() {
    for rounding in [Rounding::F64, Rounding::F32] {
        let (evidence, pictures) = update(rounding);
        let found = take_apart(evidence).unwrap();
        assert_eq!((found.pictures.len(), found.ending), (2, Ending::Settled), "{:?}", found.notes);
        assert_eq!(found.certain, Some(2));
        for picture in &pictures {
            let psnr = |found: &Vec<f32>| metrics::psnr(found, picture, 16, 16).unwrap();
            let best = found.pictures.iter().map(psnr).fold(0.0, f64::max);
            assert!(best >= metrics::PSNR_CAP, "{rounding:?}: {best} dB, and a certain picture is right to the bit");
        }
    }
}

/// The pictures of another model's gradient are none of this one's.
#[test]
fn another_models_gradient_gives_no_picture() {
    let (mut evidence, _) = update(Rounding::F32);
    let config = small();
    let qkv = "blocks.0.attn.qkv.weight";
    let shape = ParamLayout::vit(&config).get(qkv).unwrap().shape.clone();
    evidence.weights.insert(qkv, &shape, weight("another", &shape)).unwrap();
    match take_apart(evidence) {
        Ok(found) => assert_eq!(found.certain, Some(0), "{:?}", found.notes),
        Err(error) => assert!(error.to_string().contains("cannot tell, because"), "{error}"),
    }
}
