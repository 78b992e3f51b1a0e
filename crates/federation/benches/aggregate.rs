//! Cost of one update with 21.7 million parameters (`vit_small_patch16_224`) for the relay, on one core: `cargo bench
//! -p unmask-federation`.
//!
//! Rates refer to the *plain* update, 4 bytes for each parameter, no matter how many bytes were sent. Targets: decoding
//! and adding a masked update at 2 GB/s, an unmasked one at half the rate of `copy`.

use std::{hint::black_box, sync::Arc};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use unmask_core::{
    Aggregation, Defence, InitOptions, MaskSeed, ParamLayout, Rule, VitConfig, VitPreset, initial_weights,
};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{Aggregate, Optimiser, UpdateCounts};
use unmask_wire::{Assembler, ClientMessage, frames};

const DEFENCES: [&str; 5] =
    ["none", "random-binary:0.2", "random-binary:0.5", "random-binary:0.8", "random-binary:patch=0.95,pos=0.95,0.2"];
const CLIENTS: u8 = 30;

struct Model {
    layout: Arc<ParamLayout>,
    weights: Vec<f32>,
}

impl Model {
    fn new() -> Self {
        let config = VitConfig::from(VitPreset::Small);
        let layout = Arc::new(ParamLayout::vit(&config));
        Self { layout, weights: initial_weights(&config, 1, InitOptions::default()) }
    }

    fn update(&self, defence: Defence, seed: u8) -> ProtectedUpdate {
        let plain = PlainUpdate { values: self.weights.clone(), reference: None };
        let keys = KeyMaterial { seed: MaskSeed([seed; 32]), cipher: None };
        defence.protect(&self.layout, plain, keys).expect("made for this layout")
    }
}

fn header(update: &ProtectedUpdate) -> ClientMessage {
    ClientMessage::Update { round: 1, policy: 1, loss: 1.0, samples: 1, form: update.form, draw: None }
}

/// Decodes the frames of a socket into an update.
fn decode(assembler: &mut Assembler, frames: &[Vec<u8>]) -> ProtectedUpdate {
    let message = frames.iter().find_map(|frame| assembler.push(frame).expect("whole frames"));
    match message.expect("all frames of a message") {
        (ClientMessage::Update { form, .. }, values) => ProtectedUpdate { form, values },
        (other, _) => panic!("no update but {other:?}"),
    }
}

fn copy(group: &mut BenchmarkGroup<'_, WallTime>, model: &Model) {
    let mut target = vec![0f32; model.weights.len()];
    group.bench_function("copy", |bencher| {
        bencher.iter(|| target.copy_from_slice(black_box(&model.weights)));
    });
}

fn decode_and_add(group: &mut BenchmarkGroup<'_, WallTime>, model: &Model) {
    for text in DEFENCES {
        let defence: Defence = text.parse().expect("a defence");
        let frames = {
            let update = model.update(defence, 1);
            frames(&header(&update), &update.values).expect("a short header")
        };
        let bytes: usize = frames.iter().map(Vec::len).sum();
        println!("{text}: {bytes} bytes received for {} of plain update", 4 * model.weights.len());
        let mut assembler = Assembler::new(bytes);
        let mut aggregate = Aggregate::new(Arc::clone(&model.layout), defence, Aggregation::Mean);
        group.bench_function(format!("decode and add/{text}"), |bencher| {
            bencher.iter(|| {
                let update = decode(&mut assembler, black_box(&frames));
                aggregate.add(&update, 1, None).expect("made for this layout");
                assembler.reuse(update.values);
            });
        });
        if text == "none" {
            let mut assembler = Assembler::new(bytes);
            group.bench_function("decode and add/none, in memory fresh from the system", |bencher| {
                bencher.iter(|| {
                    let update = decode(&mut assembler, black_box(&frames));
                    aggregate.add(&update, 1, None).expect("made for this layout");
                });
            });
        }
    }
}

/// Measures drawing the masks again, the step, and the update counts.
fn close(group: &mut BenchmarkGroup<'_, WallTime>, model: &Model) {
    for text in DEFENCES {
        let defence: Defence = text.parse().expect("a defence");
        let mut aggregate = Aggregate::new(Arc::clone(&model.layout), defence, Aggregation::Mean);
        for client in 0..CLIENTS {
            aggregate.add(&model.update(defence, client), 1, None).expect("made for this layout");
        }
        for optimiser in ["sgd:0.1", "adam:0.001"] {
            let mut weights = model.weights.clone();
            let mut step = Optimiser::new(optimiser.parse().expect("an optimiser"));
            let mut counts = UpdateCounts::new(Arc::clone(&model.layout), defence);
            group.bench_function(format!("close after {CLIENTS} clients/{text}, {optimiser}"), |bencher| {
                bencher.iter(|| aggregate.close(Rule::FedSgd, &mut step, black_box(&mut weights), &mut counts));
            });
        }
    }
}

fn vit_small(criterion: &mut Criterion) {
    let model = Model::new();
    let mut group = criterion.benchmark_group("vit_small");
    group.sample_size(10).throughput(Throughput::BytesDecimal(4 * model.weights.len() as u64));
    copy(&mut group, &model);
    decode_and_add(&mut group, &model);
    close(&mut group, &model);
    group.finish();
}

criterion_group!(benches, vit_small);
criterion_main!(benches);
