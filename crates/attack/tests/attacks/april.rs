//! APRIL against a hand-derived attention block and against results from PyTorch.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use super::common::{
    File, lab_vectors, largest_difference, masked, patches, product, rng, shape, similarity, transpose, uniform,
    vectors,
};
use unmask_attack::{
    AttackError, Evidence, Needs, Reconstruction, Rounding, TensorSource, Tensors, april, april_aware,
};
use unmask_core::{AttackMethod, VitConfig, VitPreset};

const METHOD: AttackMethod = AttackMethod::April;

/// Weights and true gradients of a model with one block, multi-head attention, and the loss <R, attention(z)>.
struct Block {
    weights: Tensors,
    gradients: Tensors,
}

/// Computes the forward and backward pass in f64 as PyTorch's autograd would, with z = E x + b_E + p.
///
/// With P = softmax(Q K^T / sqrt(h)) and O = P V per head: dV = P^T dO, dS = P * (dO V^T - rowsum(dO V^T * P)), dQ = dS
/// K / sqrt(h), dK = dS^T Q / sqrt(h); then dW = d[q|k|v]^T z and dl/dz = d[q|k|v] W.
fn block(config: &VitConfig, image: &[f32], seed: u64) -> Block {
    let mut rng = rng(seed);
    let (t, d, l, heads) = (config.tokens(), config.dim, config.patch_len(), config.heads);
    let embedding = uniform(&mut rng, d * l, 0.3);
    let embedding_bias = uniform(&mut rng, d, 0.1);
    let position = uniform(&mut rng, t * d, 0.1);
    let class = uniform(&mut rng, d, 0.1);
    let qkv = uniform(&mut rng, 3 * d * d, 0.5);
    let qkv_bias = uniform(&mut rng, 3 * d, 0.2);
    let readout = uniform(&mut rng, t * d, 1.0);

    let embedded = product(&patches(image, config), &transpose(&embedding, d, l), t - 1, l, d);
    let z: Vec<f64> = (0..t * d)
        .map(|i| position[i] + if i < d { class[i] } else { embedded[i - d] + embedding_bias[i % d] })
        .collect();
    let mut projected = product(&z, &transpose(&qkv, 3 * d, d), t, d, 3 * d);
    projected.iter_mut().enumerate().for_each(|(i, value)| *value += qkv_bias[i % (3 * d)]);

    let h = d / heads;
    let scale = 1.0 / (h as f64).sqrt();
    let mut gradient = vec![0.0; t * 3 * d];
    for head in 0..heads {
        let part = |from: &[f64], stride: usize, start: usize| -> Vec<f64> {
            (0..t).flat_map(|row| from[row * stride + start..][..h].to_vec()).collect()
        };
        let [q, k, v] = [0, 1, 2].map(|which| part(&projected, 3 * d, which * d + head * h));
        let d_out = part(&readout, d, head * h);
        let mut p = product(&q, &transpose(&k, t, h), t, h, t);
        for row in p.chunks_exact_mut(t) {
            row.iter_mut().for_each(|value| *value = (*value * scale).exp());
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|value| *value /= sum);
        }
        let mut d_scores = product(&d_out, &transpose(&v, t, h), t, h, t);
        for (row, p) in d_scores.chunks_exact_mut(t).zip(p.chunks_exact(t)) {
            let mean: f64 = row.iter().zip(p).map(|(value, p)| value * p).sum();
            row.iter_mut().zip(p).for_each(|(value, p)| *value = p * (*value - mean) * scale);
        }
        let d_q = product(&d_scores, &k, t, t, h);
        let d_k = product(&transpose(&d_scores, t, t), &q, t, t, h);
        let d_v = product(&transpose(&p, t, t), &d_out, t, t, h);
        for (which, part) in [d_q, d_k, d_v].iter().enumerate() {
            for row in 0..t {
                gradient[row * 3 * d + which * d + head * h..][..h].copy_from_slice(&part[row * h..][..h]);
            }
        }
    }
    let d_qkv = product(&transpose(&gradient, t, 3 * d), &z, 3 * d, t, d);
    let d_position = product(&gradient, &qkv, t, 3 * d, d);

    let mut weights = Tensors::new(TensorSource::Weights, config, Rounding::F64);
    let mut gradients = Tensors::new(TensorSource::Gradients, config, Rounding::F64);
    let add = |to: &mut Tensors, name: &str, values: Vec<f64>| to.insert(name, &shape(config, name), values).unwrap();
    add(&mut weights, "pos_embed", position);
    add(&mut weights, "patch_embed.proj.weight", embedding);
    add(&mut weights, "patch_embed.proj.bias", embedding_bias);
    add(&mut weights, "blocks.0.attn.qkv.weight", qkv);
    add(&mut gradients, "pos_embed", d_position);
    add(&mut gradients, "blocks.0.attn.qkv.weight", d_qkv);
    Block { weights, gradients }
}

fn noise(config: &VitConfig, seed: u64) -> Vec<f32> {
    let values = uniform(&mut rng(seed), config.image * config.image * 3, 0.5);
    values.iter().map(|value| (value + 0.5) as f32).collect()
}

#[test]
fn inverts_an_attention_block_exactly() {
    for (seed, dim, heads) in [(1, 30, 3), (2, 64, 1), (3, 48, 6)] {
        let config = VitConfig { image: 12, patch: 3, dim, depth: 1, heads, classes: 2, april_block: true, mlp: None };
        let image = noise(&config, seed);
        let block = block(&config, &image, seed);
        let result = april(&block.weights, &block.gradients).unwrap();
        let difference = largest_difference(&result.image, &image);
        assert!(difference < 1e-5, "D {dim}, {heads} heads: {difference}, ratio {}", result.singular_ratio);
        assert!(result.notes.is_empty(), "{:?}", result.notes);
    }
}

/// With D < L the tokens are exact but the patches are not. A photograph's patches are smooth, so the prior finds them.
#[test]
fn prior_fills_what_the_embedding_drops() {
    let config =
        VitConfig { image: 32, patch: 8, dim: 96, depth: 1, heads: 3, classes: 2, april_block: true, mlp: None };
    let smooth: Vec<f32> = (0..32 * 32 * 3)
        .map(|i| {
            let (x, y, c) = ((i / 3 % 32) as f32, (i / 96) as f32, (i % 3) as f32);
            0.5 + 0.2 * (0.15 * x + 0.02 * c).sin() + 0.2 * (0.11 * y).cos()
        })
        .collect();
    let block = block(&config, &smooth, 4);
    let result = april(&block.weights, &block.gradients).unwrap();
    let (psnr, ssim) = similarity(&result.image, &smooth, 32);
    assert!(psnr > 30.0 && ssim > 0.95, "{psnr} dB, {ssim}");
    assert!(result.notes.iter().any(|note| note.contains("D = 96")), "{:?}", result.notes);
}

#[test]
fn refuses_what_it_cannot_solve() {
    let config =
        VitConfig { image: 12, patch: 3, dim: 16, depth: 1, heads: 1, classes: 2, april_block: true, mlp: None };
    let few = block(&config, &noise(&config, 5), 5);
    assert_eq!(
        april(&few.weights, &few.gradients),
        Err(AttackError::TooFewDimensions { method: METHOD, dim: 16, unknowns: 17 })
    );

    let config = VitConfig { dim: 30, heads: 3, ..config };
    let good = block(&config, &noise(&config, 6), 6);
    let zeroed = |name: &str| {
        let mut gradients = good.gradients.clone();
        let shape = shape(&config, name);
        let len = shape.iter().product();
        gradients.insert(name, &shape, vec![0.0; len]).unwrap();
        april(&good.weights, &gradients)
    };
    assert_eq!(zeroed("pos_embed"), Err(AttackError::FixedPosition));
    assert_eq!(zeroed("blocks.0.attn.qkv.weight"), Err(AttackError::ZeroGradient { name: "blocks.0.attn.qkv.weight" }));
    let without = Tensors::new(TensorSource::Weights, &config, Rounding::F64);
    let message = april(&without, &good.gradients).unwrap_err().to_string();
    assert_eq!(message, "the weights lack \"blocks.0.attn.qkv.weight\"");
}

/// Reference vectors of one photograph, with PyTorch's PSNR and SSIM for each mask.
struct Reference {
    folder: PathBuf,
    config: VitConfig,
    /// Expected PSNR from f32 gradients, in dB.
    blurred: Range<f64>,
    masked: [(&'static str, f64, f64); 3],
}

impl Reference {
    fn file(&self, name: &str) -> File {
        File::read(&self.folder.join(format!("{name}.safetensors")))
    }

    /// Runs APRIL; returns its result, PSNR and SSIM.
    fn attacked(&self, precision: Rounding, mask: Option<&str>) -> (Reconstruction, f64, f64) {
        let mask = mask.map(|rate| self.file(&format!("mask_{rate}")));
        let Needs { weights: read, gradients: sent, .. } = Needs::of(METHOD, &self.config).unwrap();
        let weights = self.file("weights");
        let weights = weights.tensors(TensorSource::Weights, &self.config, Rounding::F32, &read.all(), None);
        let gradients = self.file("gradients_f64");
        let gradients = gradients.tensors(TensorSource::Gradients, &self.config, precision, &sent.all(), mask.as_ref());
        let result = april(&weights, &gradients).unwrap();
        let (psnr, ssim) = similarity(&result.image, &self.picture("image"), self.config.image);
        (result, psnr, ssim)
    }

    fn picture(&self, name: &str) -> Vec<f32> {
        self.file("expected").image(name)
    }

    fn is_exact_in_f64(&self) {
        let (result, psnr, _) = self.attacked(Rounding::F64, None);
        assert!(psnr >= 99.0, "{psnr} dB");
        assert!(largest_difference(&result.image, &self.picture("april")) < 1e-4);
    }

    /// With a condition number of 1e9, f32 gradients lose what the filter cannot save.
    fn is_blurred_from_f32(&self) {
        let (result, psnr, ssim) = self.attacked(Rounding::F32, None);
        assert!(self.blurred.contains(&psnr) && ssim > 0.95, "{psnr} dB, {ssim}");
        assert!(result.notes.iter().any(|note| note.contains("noise of the equations")), "{:?}", result.notes);
        let difference = largest_difference(&result.image, &self.picture("april_f32"));
        assert!(difference < 1e-4, "{difference}");
    }

    fn is_not_recognisable_under_masks(&self) {
        for (rate, want_psnr, want_ssim) in self.masked {
            let (result, psnr, ssim) = self.attacked(Rounding::F64, Some(rate));
            assert!((psnr - want_psnr).abs() < 0.01 && (ssim - want_ssim).abs() < 1e-3, "{rate}: {psnr} dB, {ssim}");
            assert!(largest_difference(&result.image, &self.picture(&format!("naive_april_{rate}"))) < 1e-4);
        }
    }

    fn gives_nothing_away(&self, want_psnr: f64, want_ssim: f64) {
        let (result, psnr, ssim) = self.attacked(Rounding::F64, None);
        assert!((psnr - want_psnr).abs() < 0.01 && (ssim - want_ssim).abs() < 1e-3, "{psnr} dB, {ssim}");
        assert!(result.notes[0].contains("residual"), "{:?}", result.notes);
    }
}

/// Tests on the committed vectors.
mod pico {
    use super::*;

    fn reference(april_block: bool, folder: &str) -> Reference {
        let masked = [("r0.2", 5.194, -0.0590), ("r0.5", 5.548, 0.0441), ("r0.8", 5.405, 0.0098)];
        let config = VitConfig::from(VitPreset::Pico).with_april_block(april_block);
        Reference { folder: vectors(folder), config, blurred: 36.2..36.3, masked }
    }

    #[test]
    fn is_exact_in_f64() {
        reference(true, "pico_april").is_exact_in_f64();
    }

    #[test]
    fn is_blurred_from_f32() {
        reference(true, "pico_april").is_blurred_from_f32();
    }

    #[test]
    fn is_not_recognisable_under_masks() {
        reference(true, "pico_april").is_not_recognisable_under_masks();
    }

    #[test]
    fn gives_nothing_away_on_a_standard_block() {
        reference(false, "pico_standard").gives_nothing_away(5.221, -0.0113);
    }
}

mod lab {
    use super::*;

    fn reference(april_block: bool) -> Reference {
        let folder = lab_vectors(if april_block { "april" } else { "standard" });
        let masked = [("r0.2", 7.0, -0.0171), ("r0.5", 7.08, -0.0029), ("r0.8", 7.25, -0.003)];
        let config = VitConfig::from(VitPreset::Lab).with_april_block(april_block);
        Reference { folder, config, blurred: 30.0..60.0, masked }
    }

    #[test]
    #[ignore = "needs `python scripts/make_vectors.py --lab`"]
    fn is_exact_in_f64() {
        reference(true).is_exact_in_f64();
    }

    #[test]
    #[ignore = "needs `python scripts/make_vectors.py --lab`"]
    fn is_blurred_from_f32() {
        reference(true).is_blurred_from_f32();
    }

    #[test]
    #[ignore = "needs `python scripts/make_vectors.py --lab`"]
    fn is_not_recognisable_under_masks() {
        reference(true).is_not_recognisable_under_masks();
    }

    #[test]
    #[ignore = "needs `python scripts/make_vectors.py --lab`"]
    fn gives_nothing_away_on_a_standard_block() {
        reference(false).gives_nothing_away(5.03, -0.0018);
    }
}

/// PSNR and SSIM of APRIL on a sample photograph's f32 gradients, as a tab of a new room computes them: from all
/// entries, and from half of them. Without a mask the result must match PyTorch's.
fn classroom(folder: &Path, preset: VitPreset, name: &str) -> [(f64, f64); 2] {
    let config = VitConfig::from(preset).with_april_block(true);
    let Needs { weights: read, gradients: sent, .. } = Needs::of(METHOD, &config).unwrap();
    let file = |name: &str| File::read(&folder.join(name).with_extension("safetensors"));
    let weights = file("weights").tensors(TensorSource::Weights, &config, Rounding::F32, &read.all(), None);
    let picture = file(name);
    let whole = picture.tensors(TensorSource::Gradients, &config, Rounding::F32, &sent.all(), None);
    let found = april(&weights, &whole).unwrap().image;
    let difference = largest_difference(&found, &picture.image("april_f32"));
    assert!(difference < 1e-3, "{name}: PyTorch's differs by {difference}");
    let halved = april(&weights, &masked(&whole, &mut rng(13), 0.5, 0.5)).unwrap().image;
    [found, halved].map(|found| similarity(&found, &picture.image("image"), config.image))
}

fn is_seen_and_hidden(folder: &Path, preset: VitPreset, name: &str, at_least: f64) {
    let [(psnr, ssim), (_, hidden)] = classroom(folder, preset, name);
    assert!(psnr >= at_least && ssim > 0.9, "{preset}, {name}: {psnr} dB, {ssim}");
    assert!(hidden < 0.3, "{preset}, {name}, half of it: {hidden}");
    println!("{preset} {name}: {psnr:.1} dB, SSIM {ssim:.3}; R = 0.5: SSIM {hidden:.3}");
}

/// In darker pictures more singular values drown in rounding. A fixed cutoff would leave 12 dB of the stars.
#[test]
fn dark_pictures_come_back_from_f32() {
    for name in ["rocket", "hubble"] {
        is_seen_and_hidden(&vectors("pico_dark"), VitPreset::Pico, name, 40.0);
    }
}

#[test]
#[ignore = "needs `python scripts/make_vectors.py --lab`"]
fn all_samples_come_back_from_f32() {
    for preset in [VitPreset::Nano, VitPreset::Lab] {
        let folder = lab_vectors("april").with_file_name(format!("{preset}_april_samples"));
        for name in ["astronaut", "cameraman", "cat", "coffee", "hubble", "rocket"] {
            is_seen_and_hidden(&folder, preset, name, 30.0);
        }
    }
}

/// The block's gradients with separate masks on the two matrices that APRIL reads.
fn hidden(block: &Block, seed: u64, position: f64, attention: f64) -> Evidence {
    let gradients = masked(&block.gradients, &mut rng(seed), position, attention);
    Evidence { weights: block.weights.clone(), gradients }
}

/// With T = 17 tokens and D = 96, rows of A are filled from the row space of the whole attention gradient.
#[test]
fn aware_fills_the_position_gradient() {
    let config =
        VitConfig { image: 12, patch: 3, dim: 96, depth: 1, heads: 3, classes: 2, april_block: true, mlp: None };
    let image = noise(&config, 7);
    let block = block(&config, &image, 7);
    for rate in [0.2, 0.5] {
        let evidence = hidden(&block, 8, rate, 0.0);
        let result = april_aware(&evidence).unwrap();
        let difference = largest_difference(&result.image, &image);
        assert!(difference < 1e-3, "R {rate}: {difference}, ratio {}", result.singular_ratio);
        let naive = april(&evidence.weights, &evidence.gradients).unwrap();
        assert!(largest_difference(&naive.image, &image) > 0.1);
    }
}

/// The 3 D R missing entries of a column of dW and the T unknowns of the tokens share D equations.
#[test]
fn aware_solves_for_the_attention_gradient_too() {
    let config =
        VitConfig { image: 12, patch: 3, dim: 96, depth: 1, heads: 3, classes: 2, april_block: true, mlp: None };
    let image = noise(&config, 9);
    let block = block(&config, &image, 9);
    let result = april_aware(&hidden(&block, 10, 0.0, 0.1)).unwrap();
    let difference = largest_difference(&result.image, &image);
    assert!(difference < 1e-3, "{difference}, ratio {}", result.singular_ratio);
}

#[test]
fn aware_says_what_it_cannot_fill() {
    let config =
        VitConfig { image: 12, patch: 3, dim: 96, depth: 1, heads: 3, classes: 2, april_block: true, mlp: None };
    let block = block(&config, &noise(&config, 11), 11);
    for (position, attention, part) in [
        (0.5, 0.5, "both its matrices have gaps"),
        (0.95, 0.0, "filling in the others takes 17"),
        (0.0, 0.5, "96 equations"),
    ] {
        let error = april_aware(&hidden(&block, 12, position, attention)).unwrap_err();
        assert!(matches!(error, AttackError::TooMuchHidden { .. }), "{error}");
        let message = error.to_string();
        assert!(message.starts_with("april-aware cannot work: ") && message.contains(part), "{message}");
    }
    let open = Evidence { weights: block.weights.clone(), gradients: block.gradients.clone() };
    assert_eq!(april_aware(&open), april(&block.weights, &block.gradients));
}
