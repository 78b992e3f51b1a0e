//! Measures, on one core, what it costs a client to protect an update of 21.7 million parameters
//! (`vit_small_patch16_224`) and to frame it: `cargo bench -p unmask-defence`.
//!
//! Rates count bytes of the *plain* update, 4 per model parameter. Target: 1 GB/s.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use unmask_core::{Defence, InitOptions, MaskSeed, ParamLayout, VitConfig, VitPreset, initial_weights};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
use unmask_wire::{ClientMessage, Framer};

const DEFENCES: [&str; 7] = [
    "none",
    "fixed-position",
    "random-binary:0.2",
    "random-binary:0.5",
    "random-binary:0.8",
    "random-binary:patch=0.95,pos=0.95,0.2",
    "frozen-binary:0.5",
];

fn protect_and_encode(criterion: &mut Criterion) {
    let config = VitConfig::from(VitPreset::Small);
    let layout = ParamLayout::vit(&config);
    let plain = initial_weights(&config, 1, InitOptions::default());
    let mut group = criterion.benchmark_group("protect and encode");
    group.sample_size(10).throughput(Throughput::BytesDecimal(4 * plain.len() as u64));
    for text in DEFENCES {
        let defence: Defence = text.parse().expect("a defence");
        group.bench_function(text, |bencher| {
            let protect_and_encode = |values| {
                let keys = KeyMaterial { seed: MaskSeed([1; 32]), cipher: None };
                let update = defence.protect(&layout, PlainUpdate { values, reference: None }, keys);
                let update = update.expect("made for this layout");
                let header =
                    ClientMessage::Update { round: 1, policy: 1, loss: 1.0, samples: 1, form: update.form, draw: None };
                let frames = Framer::new(&header, &update.values).expect("a short header");
                frames.map(|frame| black_box(frame).len()).sum::<usize>()
            };
            bencher.iter_batched(|| plain.clone(), protect_and_encode, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, protect_and_encode);
criterion_main!(benches);
