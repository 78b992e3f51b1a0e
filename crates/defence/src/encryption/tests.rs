use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{Architecture, EncryptionStart, VitPreset};

use super::*;

fn layout(preset: VitPreset, april_block: bool) -> ParamLayout {
    Architecture::from(preset).with_april_block(april_block).layout()
}

fn cipher(seed: [u8; 32], layout: &ParamLayout) -> Cipher {
    Cipher::new(&RoomKey::expand(&seed, EncryptionStart::Plain).unwrap(), layout).unwrap()
}

fn random_values(seed: u64, len: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn encrypted(cipher: &Cipher, plain: &[f32]) -> Vec<f32> {
    let mut values = plain.to_vec();
    cipher.encrypt(&mut values).unwrap();
    values
}

fn decrypted(cipher: &Cipher, encrypted: &[f32]) -> Vec<f32> {
    let mut values = encrypted.to_vec();
    cipher.decrypt(&mut values).unwrap();
    values
}

/// Returns the largest ||a - b|| / ||b|| over all tensors.
fn relative_error(layout: &ParamLayout, a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = |range: Range<usize>| {
        let (a, b) = (&a[range.clone()], &b[range]);
        let difference = norm(&mut a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
        difference / norm(&mut b.iter().map(|&b| f64::from(b)))
    };
    layout.iter().map(|param| error(param.range.clone())).fold(0.0, f64::max)
}

const SMALL: [VitPreset; 3] = [VitPreset::Pico, VitPreset::Nano, VitPreset::Lab];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn round_trip(seed in any::<[u8; 32]>(), preset in 0usize..3, april_block: bool, values in any::<u64>()) {
        let layout = layout(SMALL[preset], april_block);
        let cipher = cipher(seed, &layout);
        let plain = random_values(values, layout.len());
        let error = relative_error(&layout, &decrypted(&cipher, &encrypted(&cipher, &plain)), &plain);
        prop_assert!(error < 1e-5, "{error}");
    }

    #[test]
    fn only_the_embeddings_change(seed in any::<[u8; 32]>(), preset in 0usize..3, april_block: bool, values in any::<u64>()) {
        let layout = layout(SMALL[preset], april_block);
        let cipher = cipher(seed, &layout);
        let mut plain = random_values(values, layout.len());
        // Arithmetic would not preserve these: the bits of a NaN, minus zero and subnormal numbers.
        for param in layout.iter().filter(|param| param.name != PATCH) {
            plain[param.range.start] = f32::from_bits(0x7fc1_2345);
            plain[param.range.end - 1] = if param.name.ends_with("weight") { -0.0 } else { 1e-45 };
        }
        let encrypted = encrypted(&cipher, &plain);
        let dim = layout.get("cls_token").unwrap().range.len();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        for param in &layout {
            let (before, after) = (bits(&plain[param.range.clone()]), bits(&encrypted[param.range.clone()]));
            match param.name.as_str() {
                PATCH => {
                    let same = before.iter().zip(&after).filter(|(before, after)| before == after).count();
                    prop_assert!(same * 100 < before.len(), "{same} of {} are as before", before.len());
                }
                POSITION => {
                    prop_assert_ne!(&before, &after);
                    prop_assert_eq!(&before[..dim], &after[..dim]);
                }
                name => prop_assert_eq!(before, after, "{}", name),
            }
        }
    }

    /// encrypt(s a + b) = s encrypt(a) + encrypt(b), so averages and SGD steps work on encrypted values.
    #[test]
    fn encryption_is_linear(seed in any::<[u8; 32]>(), preset in 0usize..3, scale in -2.0f32..2.0, values in any::<u64>()) {
        let layout = layout(SMALL[preset], false);
        let cipher = cipher(seed, &layout);
        let a = random_values(values, layout.len());
        let b = random_values(!values, layout.len());
        let combine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| scale * a + b).collect::<Vec<_>>();
        let of_the_sum = encrypted(&cipher, &combine(&a, &b));
        let sum = combine(&encrypted(&cipher, &a), &encrypted(&cipher, &b));
        let error = relative_error(&layout, &sum, &of_the_sum);
        prop_assert!(error < 1e-6, "{error}");
    }
}

#[test]
fn round_trip_at_the_largest_patch() {
    for preset in [VitPreset::Tiny, VitPreset::Small] {
        let layout = layout(preset, false);
        let cipher = cipher([9; 32], &layout);
        let plain = random_values(1, layout.len());
        let error = relative_error(&layout, &decrypted(&cipher, &encrypted(&cipher, &plain)), &plain);
        assert!(error < 1e-5, "{preset}: {error}");
    }
}

#[test]
fn another_key_does_not_decrypt() {
    let layout = layout(VitPreset::Nano, false);
    let plain = random_values(1, layout.len());
    let (right, wrong) = (cipher([1; 32], &layout), cipher([2; 32], &layout));
    assert_ne!(right.check(), wrong.check());
    let error = relative_error(&layout, &decrypted(&wrong, &encrypted(&right, &plain)), &plain);
    assert!(error > 0.5, "{error}");
}

#[test]
fn vectors_of_another_model_are_refused() {
    let cipher = cipher([1; 32], &layout(VitPreset::Pico, false));
    let mut values = vec![1.0; 3];
    let expected = layout(VitPreset::Pico, false).len();
    let message = format!("3 values cannot be encrypted or decrypted for a model of {expected} parameters");
    assert_eq!(cipher.encrypt(&mut values).unwrap_err().to_string(), message);
    assert_eq!(cipher.decrypt(&mut values).unwrap_err().to_string(), message);
    assert_eq!(values, [1.0; 3]);
}

#[test]
fn debug_form_tells_no_secret() {
    let cipher = cipher([1; 32], &layout(VitPreset::Pico, false));
    assert_eq!(format!("{cipher:?}"), format!("Cipher {{ check: {:?}, .. }}", cipher.check()));
}

/// Five clients run FedSGD (Eq. 1). Each fits a quadratic loss around its own point, with noise. The relay sees only
/// encrypted weights and gradients; decrypted, its run equals the plain one.
#[test]
fn fifty_rounds_in_the_encrypted_domain_equal_the_plain_run() {
    const CLIENTS: u64 = 5;
    let layout = layout(VitPreset::Pico, true);
    let cipher = cipher([3; 32], &layout);
    let targets: Vec<Vec<f32>> = (0..CLIENTS).map(|client| random_values(client, layout.len())).collect();
    let gradient = |weights: &[f32], client: u64, round: u64| -> Vec<f32> {
        let noise = random_values(1000 + round * CLIENTS + client, layout.len());
        weights.iter().zip(&targets[client as usize]).zip(noise).map(|((w, t), noise)| w - t + noise).collect()
    };
    let step = |weights: &mut [f32], gradients: &[Vec<f32>]| {
        for (i, weight) in weights.iter_mut().enumerate() {
            *weight -= 0.1 * gradients.iter().map(|gradient| gradient[i]).sum::<f32>() / CLIENTS as f32;
        }
    };
    let mut plain_weights = random_values(99, layout.len());
    let mut encrypted_weights = encrypted(&cipher, &plain_weights);
    for round in 0..50 {
        let plain: Vec<_> = (0..CLIENTS).map(|client| gradient(&plain_weights, client, round)).collect();
        step(&mut plain_weights, &plain);
        let weights = decrypted(&cipher, &encrypted_weights);
        let sent: Vec<_> = (0..CLIENTS).map(|client| encrypted(&cipher, &gradient(&weights, client, round))).collect();
        step(&mut encrypted_weights, &sent);
    }
    let error = relative_error(&layout, &decrypted(&cipher, &encrypted_weights), &plain_weights);
    assert!(error < 1e-4, "{error}");
    assert!(relative_error(&layout, &encrypted_weights, &plain_weights) > 0.5);
}

/// The weakness of a plain start from the module's documentation: with D >= L, plain and encrypted weights together
/// determine E_a, which then decrypts every later update.
#[test]
fn weights_known_plain_and_encrypted_give_the_key_away() {
    let layout = layout(VitPreset::Lab, false);
    let cipher = cipher([4; 32], &layout);
    let size = layout.get(PATCH).unwrap().shape[1..].iter().product::<usize>();
    let rows = |values: &[f32]| -> Vec<Vec<f64>> {
        let patch = layout.slice(values, PATCH).unwrap();
        patch.chunks(size).map(|row| row.iter().map(|&v| f64::from(v)).collect()).collect()
    };
    let known = random_values(1, layout.len());
    let secret = random_values(2, layout.len());
    let mut knowledge = rows(&encrypted(&cipher, &known));
    let plain = rows(&known);
    knowledge.truncate(size);
    // Gaussian elimination gives E_a^-1: it reduces L encrypted rows to unit vectors and applies the same steps to
    // their plain rows.
    let mut inverse = plain[..size].to_vec();
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|&a, &b| knowledge[a][pivot].abs().total_cmp(&knowledge[b][pivot].abs())).unwrap();
        knowledge.swap(pivot, best);
        inverse.swap(pivot, best);
        let scale = knowledge[pivot][pivot];
        knowledge[pivot].iter_mut().chain(&mut inverse[pivot]).for_each(|v| *v /= scale);
        let (row, image) = (knowledge[pivot].clone(), inverse[pivot].clone());
        for other in (0..size).filter(|&other| other != pivot) {
            let factor = knowledge[other][pivot];
            knowledge[other].iter_mut().zip(&row).for_each(|(v, r)| *v -= factor * r);
            inverse[other].iter_mut().zip(&image).for_each(|(v, r)| *v -= factor * r);
        }
    }
    for (sent, secret) in rows(&encrypted(&cipher, &secret)).iter().zip(rows(&secret)) {
        for (column, secret) in secret.iter().enumerate() {
            let guess: f64 = sent.iter().zip(&inverse).map(|(value, row)| value * row[column]).sum();
            assert!((guess - secret).abs() < 1e-2, "{guess} for {secret}");
        }
    }
}

/// The same passphrase and salt must give these words natively and in the browser: the key check, and the encrypted and
/// decrypted values of E_pat and E_pos.
#[test]
fn words_are_fixed_by_the_passphrase() {
    let layout = Architecture::from(VitPreset::Pico).layout();
    let key = RoomKey::derive("correct horse battery staple", b"sixteen bytes of", EncryptionStart::Plain).unwrap();
    let cipher = Cipher::new(&key, &layout).unwrap();
    let plain: Vec<f32> = (0..layout.len() as u32).map(|i| i.wrapping_mul(2_654_435_761) as i32 as f32).collect();
    let mut words: String = cipher.check().0.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    for (title, transform) in [("encrypted", Cipher::encrypt as fn(&_, &mut _) -> _), ("decrypted", Cipher::decrypt)] {
        let mut values = plain.clone();
        transform(&cipher, &mut values).unwrap();
        for name in ["patch_embed.proj.weight", "pos_embed"] {
            words += &format!("{title} {name}\n");
            let values = layout.slice(&values, name).unwrap();
            words.extend(values.iter().step_by(29).map(|value| format!("{:08x}\n", value.to_bits())));
        }
    }
    assert_eq!(words, include_str!("../../testdata/encryption.txt"));
}
