use std::sync::Arc;

use unmask_core::{Architecture, Defence, EncryptionStart, MaskSeed, ModelState, Rule, VitPreset};
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, RoomKey};

use super::*;
use crate::{Nonces, PictureSelection};

/// A plan with weights far from both zero and the training result.
fn plan(preset: VitPreset, defence: &str, rule: Rule) -> RoundPlan {
    let architecture = Architecture::from(preset);
    let layout = architecture.layout();
    let defence: Defence = defence.parse().unwrap();
    let cipher = defence.is_encrypted().then(|| {
        let key = RoomKey::derive("violet otter", &[1; 16], EncryptionStart::Plain).unwrap();
        Arc::new(Cipher::new(&key, &layout).unwrap())
    });
    let weights = (0..layout.len()).map(|i| (i as f32 * 0.37).cos()).collect();
    RoundPlan {
        round: 1,
        policy: 1,
        architecture,
        layout,
        defence,
        rule,
        batch: 1,
        pictures: PictureSelection::Private,
        state: ModelState::from_weights(weights),
        cipher,
        sum: None,
        nonces: Nonces::default(),
        least: 1,
        doubts: Vec::new(),
    }
}

/// The change made by training: W_n - w under FedAvg, the gradient under FedSGD.
fn change(plan: &RoundPlan) -> Vec<f32> {
    (0..plan.layout.len()).map(|i| (i as f32).sin() + 2.0).collect()
}

fn groups(preset: VitPreset, defence: &str, rule: Rule) -> Vec<GroupComparison> {
    let plan = plan(preset, defence, rule);
    let mut plain = change(&plan);
    if rule.is_fedavg() {
        plain.iter_mut().zip(&plan.state.weights).for_each(|(change, global)| *change += global);
    }
    let reference = rule.is_fedavg().then_some(plan.state.weights.as_slice());
    let keys = KeyMaterial { seed: MaskSeed([1; 32]), cipher: plan.cipher.as_deref() };
    let update = PlainUpdate { values: plain.clone(), reference };
    let update = plan.defence.protect(&plan.layout, update, keys).unwrap();
    compare_groups(&plan, plain, &update)
}

const RULES: [Rule; 2] = [Rule::FedSgd, Rule::FED_AVG];

#[test]
fn every_group_has_its_pictures() {
    for preset in VitPreset::ALL {
        for rule in RULES {
            let groups = groups(preset, "none", rule);
            assert_eq!(groups.len(), ParamGroup::VIT.len());
            for group in groups {
                assert_eq!(group.before.len(), 4 * group.width * group.height);
                assert!(group.width > 0 && group.height > 0);
                assert_eq!(group.before, group.after);
                assert_eq!(group.zeros, 0.0);
                assert_eq!(group.norm_before, group.norm_after);
                assert_eq!((group.noise, group.ciphertext), (None, false));
            }
        }
    }
}

#[test]
fn fedavg_shows_the_change_and_not_the_weights() {
    let plan = plan(VitPreset::Pico, "none", Rule::FED_AVG);
    let expected = norm(values(&plan.layout, ParamGroup::Mlp, &change(&plan)));
    let groups = groups(VitPreset::Pico, "none", Rule::FED_AVG);
    let mlp = groups.iter().find(|group| group.group == ParamGroup::Mlp).unwrap();
    assert!((mlp.norm_before / expected - 1.0).abs() < 1e-5, "{} not {expected}", mlp.norm_before);
}

#[test]
fn masked_share_shows_in_numbers_and_in_the_picture() {
    for rule in RULES {
        for group in groups(VitPreset::Nano, "random-binary:patch=0.9,pos=0.9,0.5", rule) {
            let rate: f32 = if matches!(group.group, ParamGroup::Patch | ParamGroup::Position) { 0.9 } else { 0.5 };
            let sd = |n: f32| (rate * (1.0 - rate) / n).sqrt();
            assert!((group.zeros - rate).abs() < 6.0 * sd(group.values as f32), "{}: {}", group.group, group.zeros);
            let grey = group.after.as_chunks::<4>().0.iter().filter(|pixel| **pixel == DROPPED).count() as f32;
            let pixels = (group.width * group.height) as f32;
            assert!((grey / pixels - rate).abs() < 6.0 * sd(pixels));
            assert!(group.norm_after < group.norm_before);
            assert_eq!(group.noise, None);
        }
    }
}

#[test]
fn fixed_position_drops_that_group_alone() {
    for rule in RULES {
        for group in groups(VitPreset::Pico, "fixed-position", rule) {
            assert_eq!(group.zeros, if group.group == ParamGroup::Position { 1.0 } else { 0.0 });
        }
    }
}

/// The noise has its deviation on every value. The clip is above every norm and so changes nothing.
#[test]
fn noise_shows_as_a_ratio() {
    let noise = "gaussian:eps=1e4,delta=0.5,clip=1e4";
    let Ok(Defence::Gaussian(mechanism)) = noise.parse() else { panic!("no noise") };
    for rule in RULES {
        for group in groups(VitPreset::Pico, noise, rule) {
            let expected = mechanism.deviation() * (group.values as f64).sqrt() / f64::from(group.norm_before);
            let ratio = f64::from(group.noise.unwrap()) / expected;
            assert!((ratio - 1.0).abs() < 6.0 / (2.0 * group.values as f64).sqrt(), "{}: {ratio}", group.group);
            assert!(!group.ciphertext);
        }
    }
}

#[test]
fn embeddings_alone_are_cipher_text() {
    for rule in RULES {
        for group in groups(VitPreset::Pico, "encrypted", rule) {
            let embeds = matches!(group.group, ParamGroup::Patch | ParamGroup::Position);
            assert_eq!(group.ciphertext, embeds, "{}", group.group);
            assert_eq!(group.before != group.after, embeds, "{}", group.group);
            // E_b only reorders rows; E_a's singular values are in [0.5, 2].
            let growth = group.norm_after / group.norm_before;
            assert!((0.49..2.01).contains(&growth), "{}: {growth}", group.group);
            if group.group == ParamGroup::Position {
                assert!((growth - 1.0).abs() < 1e-5, "{growth}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_draws_nothing() {
    let plan = plan(VitPreset::Pico, "none", Rule::FedSgd);
    let p = plan.layout.len();
    assert_eq!(compare_groups(&plan, vec![0.0; 3], &ProtectedUpdate::dense(vec![0.0; p])), []);
    assert_eq!(compare_groups(&plan, vec![0.0; p], &ProtectedUpdate::dense(vec![0.0; 3])), []);
}
