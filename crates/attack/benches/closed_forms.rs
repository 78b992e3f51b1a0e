//! Time of the closed forms on the two sizes the papers use: `cargo bench -p unmask-attack`.
//!
//! Targets on two cores: embedding inversion below 5 ms (lab) and 40 ms (ViT-S), APRIL on ViT-S below 250 ms, five
//! iterations of alternating least squares below 3 s (lab), low-rank completion of a photograph's gradient masked at R = 0.5 below
//! 0.5 s (nano, patch 8).

use std::{hint::black_box, ops::ControlFlow};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::SafeTensors;
use unmask_attack::{
    AccumulatedRounds, Evidence, Needs, Rounding, TensorSource, Tensors, als, april, completion, embedding_inversion,
};
use unmask_core::{Architecture, AttackMethod, VitConfig, VitPreset};

/// What `method` reads of random values, of which a mask keeps half where there is one. The values do not matter for the
/// time, only that every singular value is there.
fn evidence(method: AttackMethod, architecture: Architecture, is_masked: bool) -> Evidence {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let weights = architecture.initial(1).weights;
    let gradient: Vec<f32> = weights.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
    let kept: Option<Vec<bool>> = is_masked.then(|| weights.iter().map(|_| rng.random()).collect());
    let needs = Needs::of(method, architecture).expect("a ViT");
    needs.read_flat(architecture, &weights, &gradient, kept.as_deref()).expect("made for this model")
}

fn closed_forms(criterion: &mut Criterion) {
    for preset in [VitPreset::Lab, VitPreset::Small] {
        let architecture = Architecture::from(preset).with_april_block(true);
        let seen = evidence(AttackMethod::Embedding, architecture, false);
        criterion.bench_function(&format!("embedding/{preset}"), |bencher| {
            bencher.iter(|| embedding_inversion(black_box(&seen.gradients)));
        });
        let seen = evidence(AttackMethod::April, architecture, false);
        criterion.bench_function(&format!("april/{preset}"), |bencher| {
            bencher.iter(|| april(black_box(&seen.weights), black_box(&seen.gradients)));
        });
    }
}

fn alternating_least_squares(criterion: &mut Criterion) {
    let seen = evidence(AttackMethod::EmbeddingAware, VitPreset::Lab.into(), true);
    let round = AccumulatedRounds::of(&seen).expect("half of it is there");
    criterion.bench_function("als/vit_lab_patch4_32/5", |bencher| {
        bencher.iter(|| als(black_box(&round), 5, |_| ControlFlow::Continue(())));
    });
}

/// A photograph's gradient, as the time depends on its spectrum.
fn low_rank_completion(criterion: &mut Criterion) {
    const GRADIENT: &[u8] = include_bytes!("../tests/data/completion/vit_nano_patch8_32-fresh-sgd-cat.safetensors");
    let config = VitConfig::from(VitPreset::NanoPatch8);
    let file = SafeTensors::deserialize(GRADIENT).expect("made by a script");
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut gradients = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
    for name in ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"] {
        let view = file.tensor(name).expect("one of the embeddings'");
        let values: Vec<f64> =
            view.data().as_chunks().0.iter().map(|&chunk| f64::from(f32::from_le_bytes(chunk))).collect();
        let kept = values.iter().map(|_| rng.random()).collect();
        gradients.insert_kept(name, view.shape(), values, kept).expect("the model's shape");
    }
    let seen = Evidence { weights: Tensors::new(TensorSource::Weights, &config, Rounding::F32), gradients };
    criterion.bench_function("completion/vit_nano_patch8_32/0.5", |bencher| {
        bencher.iter(|| completion(black_box(&seen), &mut |_| ControlFlow::Continue(())));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = closed_forms, alternating_least_squares, low_rank_completion
}
criterion_main!(benches);
