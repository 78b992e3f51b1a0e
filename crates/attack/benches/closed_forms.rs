//! Time of the closed forms on the two sizes the papers use: `cargo bench -p unmask-attack`.
//!
//! Targets on two cores: embedding inversion below 5 ms (lab) and 40 ms (ViT-S), APRIL on ViT-S below 250 ms, five
//! iterations of alternating least squares below 3 s (lab).

use std::{hint::black_box, ops::ControlFlow};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{AccumulatedRounds, Evidence, Needs, als, april, embedding_inversion};
use unmask_core::{Architecture, AttackMethod, VitPreset};

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

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = closed_forms, alternating_least_squares
}
criterion_main!(benches);
