//! Time of the closed forms on the two sizes the papers use: `cargo bench -p unmask-attack`.
//!
//! Targets on two cores: embedding inversion below 5 ms (lab) and 40 ms (ViT-S), APRIL on ViT-S below 250 ms, five
//! iterations of alternating least squares below 3 s (lab).

use std::{hint::black_box, ops::ControlFlow};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{Accumulated, AlsOptions, Attack, AttackKind, Evidence, als, solve};
use unmask_core::{InitOptions, ParamLayout, VitPreset, VitSpec, initial_weights};

fn closed_forms(criterion: &mut Criterion) {
    for preset in [VitPreset::Lab, VitPreset::Small] {
        let config = VitSpec::new(preset).with_april_block(true).config();
        let weights = initial_weights(&config, 1, InitOptions::default());
        // The values do not matter for the time, only that every singular value is there.
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let gradient: Vec<f32> = (0..ParamLayout::vit(&config).len()).map(|_| rng.random_range(-1.0..1.0)).collect();
        for kind in AttackKind::ALL {
            let evidence = Evidence::from_flat(kind, &config, &weights, &gradient).expect("made for this model");
            criterion.bench_function(&format!("{kind}/{preset}"), |bencher| {
                bencher.iter(|| solve(kind, black_box(&evidence)));
            });
        }
    }
}

fn alternating_least_squares(criterion: &mut Criterion) {
    let config = VitSpec::new(VitPreset::Lab).config();
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let gradient: Vec<f32> = (0..ParamLayout::vit(&config).len()).map(|_| rng.random_range(-1.0..1.0)).collect();
    let kept: Vec<bool> = gradient.iter().map(|_| rng.random()).collect();
    let attack = Attack::aware(AttackKind::Embedding);
    let evidence = Evidence::from_flat_kept(attack, &config, &gradient, &gradient, &kept).expect("made for this model");
    let round = Accumulated::of(&evidence).expect("half of it is there");
    criterion.bench_function("als/vit_lab_patch4_32/5", |bencher| {
        bencher.iter(|| als(black_box(&round), AlsOptions { iterations: 5 }, |_| ControlFlow::Continue(())));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = closed_forms, alternating_least_squares
}
criterion_main!(benches);
