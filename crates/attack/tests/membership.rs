//! Whether a picture was there: rows of G_E against the span of its patches, rows of qkv's gradient against its tokens.

mod common;

use std::path::Path;

use common::{File, lab_vectors, masked, patches, product, rng, sample, shape, transpose, uniform, vectors};
use unmask_attack::{
    AttackError, Evidence, MEMBERSHIP_GRADIENTS, MEMBERSHIP_WEIGHTS, Rounding, TensorSource, Tensors, membership,
};
use unmask_core::{MembershipVerdict, VitConfig, VitPreset, VitSpec};

/// S 16 < L 48.
fn pico() -> VitConfig {
    VitSpec::new(VitPreset::Pico).config()
}

/// Any coefficients on the patches of `image`, rounded as a client sends them.
fn evidence(config: &VitConfig, image: &[f32]) -> Evidence {
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let coefficients = uniform(&mut rng(1), s * d, 1.0);
    let patch = product(&transpose(&coefficients, s, d), &patches(image, config), d, s, l);
    let patch = patch.iter().map(|&value| f64::from(value as f32)).collect();
    let mut gradients = Tensors::new(TensorSource::Gradients, config, Rounding::F32);
    gradients.insert("patch_embed.proj.weight", &shape(config, "patch_embed.proj.weight"), patch).unwrap();
    Evidence { weights: Tensors::new(TensorSource::Weights, config, Rounding::F32), gradients }
}

#[test]
fn patches_tell_a_member_from_strangers() {
    let config = pico();
    let truth = sample("cat", &config);
    for rate in [0.0, 0.3, 0.45] {
        let mut evidence = evidence(&config, &truth);
        evidence.gradients = masked(&evidence.gradients, &mut rng(2), 0.0, rate);
        let found = membership(&evidence, &truth).unwrap();
        assert!(found.residual < 1e-5, "R {rate}: {}", found.residual);
        assert_eq!((found.verdict, found.gradient), (MembershipVerdict::Member, "patch_embed.proj.weight"));
        assert!(found.distractors.len() == 11 && found.interval.0 <= found.interval.1);
        for name in ["coffee", "rocket", "astronaut"] {
            let found = membership(&evidence, &sample(name, &config)).unwrap();
            assert_ne!(found.verdict, MembershipVerdict::Member, "R {rate}, {name}: {found:?}");
            assert!(found.residual > 1e-3, "R {rate}, {name}: {found:?}");
        }
    }
}

#[test]
fn what_cannot_be_judged_says_why() {
    let config = pico();
    let truth = sample("cat", &config);
    let mut hidden = evidence(&config, &truth);
    hidden.gradients = masked(&hidden.gradients, &mut rng(2), 0.0, 0.8);
    let error = membership(&hidden, &truth).unwrap_err();
    assert!(
        matches!(error, AttackError::TooFewToJudge { name: "patch_embed.proj.weight", coefficients: 17, .. }),
        "{error}"
    );
    let open = evidence(&config, &truth);
    assert_eq!(membership(&open, &truth[1..]), Err(AttackError::WrongPicture { found: 767, expected: 768 }));
    let mut broken = truth.clone();
    broken[5] = f32::NAN;
    assert!(matches!(membership(&open, &broken), Err(AttackError::NonFinitePicture { index: 5, .. })));
    let mut zero = open;
    let shape = shape(&config, "patch_embed.proj.weight");
    zero.gradients.insert("patch_embed.proj.weight", &shape, vec![0.0; 48 * 48]).unwrap();
    let error = membership(&zero, &truth).unwrap_err();
    assert_eq!(error, AttackError::ZeroGradient { name: "patch_embed.proj.weight" });
}

/// With L < S the attention weights decide; the position embedding's gradient is not even read.
fn tokens_tell_a_member_where_patches_cannot(folder: &Path, config: &VitConfig) {
    let file = |name: &str| File::read(&folder.join(name));
    let weights =
        file("weights.safetensors").tensors(TensorSource::Weights, config, Rounding::F32, MEMBERSHIP_WEIGHTS, None);
    let gradients = file("gradients.safetensors").tensors(
        TensorSource::Gradients,
        config,
        Rounding::F32,
        MEMBERSHIP_GRADIENTS,
        None,
    );
    let member = file("expected.safetensors").image("image");
    for rate in [0.0, 0.5] {
        let gradients = masked(&gradients, &mut rng(3), 0.0, rate);
        let evidence = Evidence { weights: weights.clone(), gradients };
        let strangers =
            ["cat", "coffee", "rocket"].map(|name| (name, sample(name, config), MembershipVerdict::Stranger));
        for (name, picture, expected) in
            [("the member", member.clone(), MembershipVerdict::Member)].into_iter().chain(strangers)
        {
            let found = membership(&evidence, &picture).unwrap();
            let verdict = (found.verdict, found.gradient);
            assert_eq!(verdict, (expected, "blocks.0.attn.qkv.weight"), "R {rate}, {name}: {found:?}");
            // Rounding alone is left of a member, 3e-8; strangers have 0.1 to 0.2.
            let is_left = found.residual > if expected == MembershipVerdict::Member { 1e-6 } else { 0.01 };
            assert_eq!(is_left, expected == MembershipVerdict::Stranger, "R {rate}, {name}: {found:?}");
        }
    }
}

/// L 27 < S 36.
#[test]
fn tokens_tell_a_member_of_18_pixels() {
    let config = VitConfig { image: 18, patch: 3, dim: 96, depth: 1, heads: 3, classes: 10, april_block: false };
    tokens_tell_a_member_where_patches_cannot(&vectors("tokens"), &config);
}

/// L 48 < S 64.
#[test]
#[ignore = "needs `python scripts/make_vectors.py --lab`"]
fn tokens_tell_a_member_of_the_lab() {
    let config = VitSpec::new(VitPreset::Lab).config();
    tokens_tell_a_member_where_patches_cannot(&lab_vectors("standard"), &config);
}
