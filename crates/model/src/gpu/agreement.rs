//! Compares engine and Burn on random networks: two implementations of the same passes.

use burn::tensor::Device;
use proptest::prelude::*;
use unmask_core::{Architecture, BlockKind, LenetConfig, ResnetConfig, ResnetSpec, Stem, VitConfig};
use unmask_engine::{Differentiated, Engine, Normalisation, Statistics, Wanted};

use super::Gpu;
use crate::block_on;

fn vit() -> impl Strategy<Value = Architecture> {
    (1..4usize, 1..4usize, 1..4usize, 1..5usize, 1..4usize, any::<bool>()).prop_map(
        |(patch, across, depth, heads, classes, april_block)| {
            let (image, dim) = (patch * across, 6 * heads);
            Architecture::Vit(VitConfig { image, patch, dim, depth, heads, classes: classes + 1, april_block })
        },
    )
}

fn resnet() -> impl Strategy<Value = Architecture> {
    let stages = prop::collection::vec((1..5u16, 1..3u16), 1..4);
    (any::<bool>(), any::<bool>(), stages, 5..14usize).prop_map(|(seven, is_bottleneck, some, side)| {
        let mut stages = [ResnetConfig::NO_STAGE; ResnetConfig::STAGES];
        stages[..some.len()].copy_from_slice(&some);
        let stem = if seven { Stem::Seven } else { Stem::Three };
        let block = if is_bottleneck { BlockKind::Bottleneck } else { BlockKind::Basic };
        Architecture::Resnet(ResnetSpec { config: ResnetConfig { stem, block, stages }, classes: 3, side })
    })
}

fn lenet() -> impl Strategy<Value = Architecture> {
    (1..6usize, 3..14usize).prop_map(|(width, side)| Architecture::Lenet(LenetConfig { width, side, classes: 4 }))
}

/// Returns numbers in [`low`, `high`] in no particular order.
fn numbers(len: usize, seed: usize, low: f32, high: f32) -> Vec<f32> {
    let unit = |i: usize| ((i * 7919 + seed * 104_729 + 17) % 10_007) as f32 / 10_006.0;
    (0..len).map(|i| low + (high - low) * unit(i)).collect()
}

/// Compares relative to the largest of `expected`, or 1e-3 if that is larger.
fn assert_close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-3, |scale: f64, value| scale.max(value.abs()));
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let apart = (f64::from(found) - expected).abs();
        assert!(apart < 2e-4 * scale, "{what} at {index}: {found} for {expected}, the largest is {scale}");
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// Compares Burn and the engine in f32 with the engine in f64.
fn agree(architecture: Architecture, batch: usize, seed: usize, normalisation: Normalisation) {
    let layout = architecture.layout();
    let weights = numbers(layout.len(), seed, -0.5, 0.5);
    let statistics = numbers(architecture.statistics().len(), seed + 1, 0.2, 1.5);
    let images = numbers(batch * 3 * architecture.side() * architecture.side(), seed + 2, 0.0, 1.0);
    let labels: Vec<usize> = (0..batch).map(|image| (image + seed) % architecture.classes()).collect();
    let wanted = Wanted { weights: layout.len(), images: true };
    let exact = Engine::<f64>::new(architecture).differentiate(
        &wide(&weights),
        &wide(&statistics),
        &wide(&images),
        &labels,
        normalisation,
        wanted,
    );
    // With one or two values per channel, the gradient of batch norm is only rounding. The network rejects a single
    // one.
    if exact.statistics.iter().any(|statistics| statistics.count < 3) {
        return;
    }
    let engine = Engine::<f32>::new(architecture);
    let gpu = Gpu::new(architecture, &Device::flex());
    let ours = engine.differentiate(&weights, &statistics, &images, &labels, normalisation, wanted);
    let burns = block_on(gpu.differentiate(&weights, &statistics, &images, &labels, normalisation, wanted)).unwrap();
    for (who, Differentiated { loss, gradient, images, statistics }) in [("engine", ours), ("Burn", burns)] {
        assert_close(&format!("{who}: loss"), &[loss], &[exact.loss]);
        for param in layout.iter() {
            let range = param.range.clone();
            assert_close(&format!("{who}: {}", param.name), &gradient[range.clone()], &exact.gradient[range]);
        }
        assert_close(&format!("{who}: images"), &images, &exact.images);
        assert_eq!(statistics.len(), exact.statistics.len(), "{who}");
        for (Statistics { mean, variance, count }, exact) in statistics.iter().zip(&exact.statistics) {
            assert_close(&format!("{who}: mean"), mean, &exact.mean);
            assert_close(&format!("{who}: variance"), variance, &exact.variance);
            assert_eq!(*count, exact.count, "{who}");
        }
    }
    let ours = engine.logits(&weights, &statistics, &images, batch);
    let burns = block_on(gpu.logits(&weights, &statistics, &images, batch)).unwrap();
    assert_close("logits", &ours, &wide(&burns));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn vits(architecture in vit(), batch in 1..4usize, seed in 0..1000usize) {
        agree(architecture, batch, seed, Normalisation::Batch);
    }

    /// Uses only running statistics: with a batch of few values, the variance is so small that f32 is meaningless.
    #[test]
    fn resnets(architecture in resnet(), batch in 1..4usize, seed in 0..1000usize) {
        agree(architecture, batch, seed, Normalisation::Running);
    }

    #[test]
    fn lenets(architecture in lenet(), batch in 1..4usize, seed in 0..1000usize) {
        agree(architecture, batch, seed, Normalisation::Batch);
    }
}

/// Enough places for a meaningful variance.
#[test]
fn resnets_by_their_batch() {
    for (seed, block) in [(1, BlockKind::Basic), (2, BlockKind::Bottleneck)] {
        for stem in Stem::ALL {
            let config = ResnetConfig { stem, block, stages: [(4, 1), (6, 2), (0, 0), (0, 0)] };
            let spec = ResnetSpec { config, classes: 3, side: 32 };
            agree(Architecture::Resnet(spec), 3, seed, Normalisation::Batch);
        }
    }
}
