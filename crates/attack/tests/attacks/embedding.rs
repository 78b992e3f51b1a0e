//! Embedding inversion against results from PyTorch and on generated cases.

use super::common::{committed, largest_difference, patches, product, rng, shape, similarity, transpose, uniform};
use proptest::prelude::*;
use unmask_attack::{
    AttackError, ModelShape, Needs, Reconstruction, Rounding, TensorSource, Tensors, embedding_inversion,
};
use unmask_core::{AttackMethod, ParamLayout, VitConfig, VitPreset};

const METHOD: AttackMethod = AttackMethod::Embedding;
const READS: [&str; 2] = ["pos_embed", "patch_embed.proj.weight"];

fn lab() -> VitConfig {
    VitConfig::from(VitPreset::Lab)
}

#[test]
fn exact_without_defence() {
    let expected = committed("expected.safetensors");
    let truth = expected.image("image");
    for (file, precision, least) in
        [("gradients_f64.safetensors", Rounding::F64, 99.0), ("gradients.safetensors", Rounding::F32, 89.0)]
    {
        let gradients = committed(file).tensors(TensorSource::Gradients, &lab(), precision, &READS, None);
        let result = embedding_inversion(&gradients).unwrap();
        let (psnr, ssim) = similarity(&result.image, &truth, 32);
        assert!(psnr >= least && ssim > 0.9999, "{file}: {psnr} dB, {ssim}");
        assert!(largest_difference(&result.image, &expected.image("embedding")) < 1e-4);
        assert!((1e-4..2e-4).contains(&result.singular_ratio), "{}", result.singular_ratio);
        assert!(result.notes.is_empty(), "{:?}", result.notes);
    }
}

/// The papers' claim holds for an attacker who takes zeros for values.
#[test]
fn masks_defeat_the_naive_attacker() {
    let expected = committed("expected.safetensors");
    let truth = expected.image("image");
    for (rate, want_psnr, want_ssim) in [("r0.2", 8.01, 0.165), ("r0.5", 7.42, 0.065), ("r0.8", 7.19, 0.0387)] {
        let mask = committed(&format!("mask_{rate}.safetensors"));
        for (file, precision) in
            [("gradients_f64.safetensors", Rounding::F64), ("gradients.safetensors", Rounding::F32)]
        {
            let file = committed(file);
            let gradients = file.tensors(TensorSource::Gradients, &lab(), precision, &READS, Some(&mask));
            let result = embedding_inversion(&gradients).unwrap();
            let (psnr, ssim) = similarity(&result.image, &truth, 32);
            assert!((psnr - want_psnr).abs() < 0.01, "{rate}: {psnr} dB");
            assert!((ssim - want_ssim).abs() < 1e-3, "{rate}: {ssim}");
            let theirs = expected.image(&format!("naive_embedding_{rate}"));
            assert!(largest_difference(&result.image, &theirs) < 1e-4);
        }
    }
}

/// Gradients derived from a picture: any G_pos, and G_E = G_pos^T X.
fn made_up(config: &VitConfig, image: &[f32], seed: u64) -> Tensors {
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let position = uniform(&mut rng(seed), (s + 1) * d, 1.0);
    let patch = product(&transpose(&position[d..], s, d), &patches(image, config), d, s, l);
    let mut tensors = Tensors::new(TensorSource::Gradients, config, Rounding::F64);
    tensors.insert("pos_embed", &shape(config, "pos_embed"), position).unwrap();
    tensors.insert("patch_embed.proj.weight", &shape(config, "patch_embed.proj.weight"), patch).unwrap();
    tensors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_size_is_inverted_exactly(grid in 1usize..6, patch in 1usize..6, spare in 4usize..30, seed: u64) {
        let config = VitConfig {
            image: grid * patch, patch, dim: grid * grid + spare, depth: 1, heads: 1, classes: 2, april_block: false,
            mlp: None,
        };
        let side = config.image;
        let image: Vec<f32> = uniform(&mut rng(seed ^ 1), side * side * 3, 0.5).iter().map(|v| (v + 0.5) as f32).collect();
        let result = embedding_inversion(&made_up(&config, &image, seed)).unwrap();
        prop_assert_eq!(result.image.len(), side * side * 3);
        prop_assert!(largest_difference(&result.image, &image) < 1e-6);
    }
}

/// Inverts a flat gradient, reading only the tensors that the method needs.
fn invert(config: &VitConfig, gradient: &[f32]) -> Result<Reconstruction, AttackError> {
    let needs = Needs::of(METHOD, config)?;
    assert_eq!(needs.gradients.all(), READS);
    let weights = vec![0.1; ModelShape::from(config).layout().len()];
    embedding_inversion(&needs.read_flat(config, &weights, gradient, None)?.gradients)
}

#[test]
fn too_few_dimensions_are_refused() {
    let config = VitConfig::from(VitPreset::Tiny);
    let flat = vec![0.5; ParamLayout::vit(&config).len()];
    let error = invert(&config, &flat).unwrap_err();
    assert_eq!(error, AttackError::TooFewDimensions { method: METHOD, dim: 192, unknowns: 196 });
}

#[test]
fn what_cannot_be_solved_says_why() {
    let config = VitConfig::from(VitPreset::Pico);
    let layout = ParamLayout::vit(&config);
    let range = |name: &str| layout.get(name).unwrap().range.clone();
    let attack = |gradient: &[f32]| invert(&config, gradient);

    let mut fixed = vec![0.5; layout.len()];
    fixed[range("pos_embed")].fill(0.0);
    // A gradient in only the class token's row does not help.
    fixed[range("pos_embed").start] = 1.0;
    assert_eq!(attack(&fixed), Err(AttackError::FixedPosition));

    let mut empty = vec![0.5; layout.len()];
    empty[range("patch_embed.proj.weight")].fill(0.0);
    assert_eq!(attack(&empty), Err(AttackError::ZeroGradient { name: "patch_embed.proj.weight" }));

    let mut broken = vec![0.5; layout.len()];
    broken[range("pos_embed").start + 7] = f32::INFINITY;
    let message = attack(&broken).unwrap_err().to_string();
    assert_eq!(message, "gradient \"pos_embed\" holds inf at index 7: only finite values can be solved for");

    let message = attack(&vec![0.1; layout.len() - 1]).unwrap_err().to_string();
    assert!(message.starts_with("the gradients have "), "{message}");

    let nothing = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
    let message = embedding_inversion(&nothing).unwrap_err().to_string();
    assert_eq!(message, "the gradients lack \"pos_embed\"");

    let mut tensors = nothing;
    let error = tensors.insert("pos_embed", &[17, 48], vec![0.0; 17 * 48]).unwrap_err().to_string();
    assert_eq!(error, "gradient \"pos_embed\" has shape [17, 48], the model needs [1, 17, 48]");
    assert!(matches!(tensors.insert("nose", &[1], vec![0.0]), Err(AttackError::NoSuchParameter { .. })));
    assert!(matches!(tensors.insert("pos_embed", &[1, 17, 48], vec![0.0]), Err(AttackError::WrongCount { .. })));
}
