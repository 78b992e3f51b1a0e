//! The key of an encrypted room from a model known in both forms, against the real cipher.

use std::sync::LazyLock;

use super::common::{committed, patches, product, rng, sample, similarity, transpose, uniform};
use unmask_attack::{AttackError, RecoveredKey, TensorSource, Tensors, embedding_inversion};
use unmask_core::{EncryptionStart, InitOptions, ParamLayout, VitConfig, VitPreset, initial_weights};
use unmask_defence::{Cipher, RoomKey};

const GRADIENTS: [&str; 2] = ["pos_embed", "patch_embed.proj.weight"];

fn config(preset: VitPreset) -> VitConfig {
    VitConfig::from(preset)
}

/// Derived only once, because key derivation is slow on purpose.
static KEY: LazyLock<RoomKey> =
    LazyLock::new(|| RoomKey::derive("violet otter 1867", &[4; 16], EncryptionStart::Plain).unwrap());

fn cipher(config: &VitConfig) -> Cipher {
    Cipher::new(&KEY, &ParamLayout::vit(config)).unwrap()
}

fn encrypted(cipher: &Cipher, plain: &[f32]) -> Vec<f32> {
    let mut values = plain.to_vec();
    cipher.encrypt(&mut values).unwrap();
    values
}

fn weights(config: &VitConfig, flat: &[f32]) -> Tensors {
    Tensors::from_flat(TensorSource::Weights, config, flat, None, &RecoveredKey::WEIGHTS).unwrap()
}

fn reference_gradient(config: &VitConfig) -> Vec<f32> {
    let (layout, file) = (ParamLayout::vit(config), committed("gradients.safetensors"));
    let mut flat = vec![0.0; layout.len()];
    for name in GRADIENTS {
        let values = file.get(name).1.iter().map(|&value| value as f32);
        flat.splice(layout.get(name).unwrap().range.clone(), values);
    }
    flat
}

/// A gradient derived from a photograph: any G_pos, and G_E = G_pos^T X.
fn made_up_gradient(config: &VitConfig, image: &[f32]) -> Vec<f32> {
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let position = uniform(&mut rng(5), (s + 1) * d, 1e-3);
    let patch = product(&transpose(&position[d..], s, d), &patches(image, config), d, s, l);
    let layout = ParamLayout::vit(config);
    let mut flat = vec![0.0; layout.len()];
    for (name, values) in GRADIENTS.into_iter().zip([position, patch]) {
        flat.splice(layout.get(name).unwrap().range.clone(), values.iter().map(|&value| value as f32));
    }
    flat
}

/// The lab preset has four times as many rows as the key needs. Classrooms use pico and nano, and pico has D = L.
#[test]
fn a_relay_that_knew_the_plain_model_sees_the_picture() {
    for preset in [VitPreset::Lab, VitPreset::Pico, VitPreset::Nano] {
        let config = config(preset);
        let (truth, gradient) = if preset == VitPreset::Lab {
            (committed("expected.safetensors").image("image"), reference_gradient(&config))
        } else {
            let truth = sample("rocket", &config);
            let gradient = made_up_gradient(&config, &truth);
            (truth, gradient)
        };
        let cipher = cipher(&config);
        let plain = initial_weights(&config, 1, InitOptions::default());
        let key =
            RecoveredKey::from_known_start(&weights(&config, &plain), &weights(&config, &encrypted(&cipher, &plain)))
                .unwrap();
        let sent =
            Tensors::from_flat(TensorSource::Gradients, &config, &encrypted(&cipher, &gradient), None, &GRADIENTS)
                .unwrap();
        let without = embedding_inversion(&sent).unwrap();
        let with = embedding_inversion(&key.decrypt(&sent).unwrap()).unwrap();
        let (blind, _) = similarity(&without.image, &truth, config.image);
        let (psnr, ssim) = similarity(&with.image, &truth, config.image);
        assert!(blind < 15.0, "{preset}: {blind} dB without the key");
        assert!(psnr >= 60.0 && ssim > 0.999, "{preset}: {psnr} dB, {ssim}");
    }
}

/// Tensors that are not encrypted pass unchanged, and the patch embedding may be missing.
#[test]
fn other_tensors_pass() {
    let config = config(VitPreset::Pico);
    let cipher = cipher(&config);
    let plain = initial_weights(&config, 1, InitOptions::default());
    let key = RecoveredKey::from_known_start(&weights(&config, &plain), &weights(&config, &encrypted(&cipher, &plain)))
        .unwrap();
    let gradient = uniform(&mut rng(3), plain.len(), 1.0).iter().map(|&value| value as f32).collect::<Vec<_>>();
    let names = ["head.weight", "head.bias", "pos_embed"];
    let tensors = |flat: &[f32]| Tensors::from_flat(TensorSource::Gradients, &config, flat, None, &names).unwrap();
    let decrypted = key.decrypt(&tensors(&encrypted(&cipher, &gradient))).unwrap();
    for name in names {
        assert_eq!(decrypted.values(name), tensors(&gradient).values(name), "{name}");
    }
    assert_eq!(decrypted.values("patch_embed.proj.weight"), None);
}

#[test]
fn weights_of_two_models_are_refused() {
    for preset in [VitPreset::Pico, VitPreset::Lab] {
        let config = config(preset);
        let cipher = cipher(&config);
        let [plain, other] = [1, 2].map(|seed| initial_weights(&config, seed, InitOptions::default()));
        let refusal = |plain: &[f32], sent: &[f32]| {
            RecoveredKey::from_known_start(&weights(&config, plain), &weights(&config, sent)).unwrap_err()
        };
        let error = refusal(&plain, &encrypted(&cipher, &other));
        assert!(matches!(error, AttackError::NotTwoForms { .. }), "{preset}: {error}");

        // The position embedding fits, but the patch embedding does not.
        let patch = ParamLayout::vit(&config).get("patch_embed.proj.weight").unwrap().range.clone();
        if config.dim > config.patch_len() {
            let mut mixed = plain.clone();
            mixed[patch.clone()].copy_from_slice(&other[patch.clone()]);
            let error = refusal(&plain, &encrypted(&cipher, &mixed)).to_string();
            assert!(error.contains("unexplained"), "{preset}: {error}");
        }
        let mut blank = plain.clone();
        blank[patch.clone()][..config.patch_len()].fill(0.0);
        if config.dim == config.patch_len() {
            let error = refusal(&blank, &encrypted(&cipher, &blank));
            assert!(matches!(error, AttackError::KeyUndetermined { rank: 47, len: 48 }), "{preset}: {error}");
        }
        blank[patch].fill(0.0);
        let error = refusal(&blank, &encrypted(&cipher, &blank));
        assert!(matches!(error, AttackError::KeyUndetermined { rank: 0, .. }), "{preset}: {error}");

        // Equal rows have no order.
        let mut alike = plain.clone();
        alike[ParamLayout::vit(&config).get("pos_embed").unwrap().range.clone()].fill(0.5);
        let error = refusal(&alike, &encrypted(&cipher, &alike)).to_string();
        assert!(error.contains("matches two"), "{preset}: {error}");
    }
}

#[test]
fn nonsense_is_refused_with_its_numbers() {
    let (pico, nano, tiny) = (config(VitPreset::Pico), config(VitPreset::Nano), config(VitPreset::Tiny));
    let known = |config: &VitConfig| {
        let plain = initial_weights(config, 1, InitOptions::default());
        (weights(config, &plain), weights(config, &encrypted(&cipher(config), &plain)))
    };
    let plain = weights(&tiny, &initial_weights(&tiny, 1, InitOptions::default()));
    let error = RecoveredKey::from_known_start(&plain, &plain).unwrap_err();
    assert_eq!(error, AttackError::TooFewRows { dim: 192, len: 768 });
    let (plain, sent) = known(&pico);
    assert!(matches!(RecoveredKey::from_known_start(&known(&nano).0, &sent), Err(AttackError::NotTwoForms { .. })));
    let nothing = Tensors::new(TensorSource::Weights, &pico, Default::default());
    assert!(matches!(RecoveredKey::from_known_start(&plain, &nothing), Err(AttackError::Missing { .. })));

    let key = RecoveredKey::from_known_start(&plain, &sent).unwrap();
    let gradient = |config: &VitConfig, kept: bool| {
        let values = vec![1e-3; ParamLayout::vit(config).len()];
        let mask: Vec<bool> = (0..values.len()).map(|i| kept || i % 2 == 0).collect();
        Tensors::from_flat(TensorSource::Gradients, config, &values, Some(&mask), &GRADIENTS).unwrap()
    };
    let error = key.decrypt(&gradient(&nano, true)).unwrap_err();
    assert!(matches!(error, AttackError::OtherKey { patches: 64, key_patches: 16, .. }), "{error}");
    assert!(matches!(key.decrypt(&gradient(&pico, false)), Err(AttackError::MaskedUnderKey { .. })));
    assert_eq!(format!("{key:?}"), "RecoveredKey { patches: 16, patch_len: 48, .. }");
}
