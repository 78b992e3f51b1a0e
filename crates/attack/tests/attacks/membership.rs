//! Membership and batch size: class tokens against the row space of the last MLP's gradient.

use std::{ops::ControlFlow, sync::Arc};

use super::common::{File, lab_vectors, masked, product, rng, sample, shape, transpose, uniform, vectors};
use proptest::prelude::*;
use unmask_attack::{
    AttackError, BatchSize, Encryption, Evidence, MEMBER, Members, NoSearches, Observation, Rounding, Searches,
    TensorSource, Tensors, WholeUpdate, batch_size, class_token_gradient, membership,
};
use unmask_core::{Architecture, MembershipVerdict, ModelState, ResnetPreset, VitConfig, VitPreset};

use MembershipVerdict::{Member, Stranger, Undecided};

fn pico() -> VitConfig {
    VitConfig::from(VitPreset::Pico)
}

/// An update with nothing but dl/d(fc1.weight) of the last block.
fn update(config: &VitConfig, gradient: &[f64]) -> Tensors {
    let name = class_token_gradient(config).unwrap();
    let mut gradients = Tensors::new(TensorSource::Gradients, config, Rounding::F32);
    gradients.insert(&name, &shape(config, &name), gradient.to_vec()).unwrap();
    gradients
}

fn members_of(gradients: &Tensors, pictures: Option<usize>) -> Result<Members, AttackError> {
    Members::of(gradients, pictures, &mut || ControlFlow::Continue(()))
}

/// The gradient of one picture with this class token: any rank-one matrix with that row space.
fn own(token: &[f64], rows: usize) -> Vec<f64> {
    let factors = uniform(&mut rng(5), rows, 1.0);
    factors.iter().flat_map(|factor| token.iter().map(move |value| factor * value)).collect()
}

/// Class tokens and gradients that PyTorch computed in f32.
struct Measured {
    file: File,
    config: VitConfig,
}

impl Measured {
    fn committed() -> Self {
        Self { file: File::read(&vectors("members.safetensors")), config: pico() }
    }

    fn update(&self, batch: usize) -> Tensors {
        update(&self.config, self.file.get(&format!("gradient_{batch}")).1)
    }

    fn own(&self, group: &str) -> Vec<Vec<f64>> {
        let tokens = self.file.get(group).1.chunks_exact(self.config.dim);
        tokens.map(|token| own(token, self.config.mlp_dim())).collect()
    }
}

/// Counts the verdicts on a group: members, strangers, undecided.
fn counts(members: &Members, group: &[Vec<f64>]) -> [usize; 3] {
    let mut counts = [0; 3];
    for own in group {
        counts[match members.judge(own, 1.0).unwrap().verdict {
            Member => 0,
            Stranger => 1,
            Undecided => 2,
        }] += 1;
    }
    counts
}

/// Batches of 1 to 4 photographs with any labels, with and without masks.
#[test]
fn members_of_batches_are_told_from_strangers() {
    let measured = Measured::committed();
    let (all, strangers) = (measured.own("members"), measured.own("strangers"));
    let copies = [measured.own("mirrored"), measured.own("recoloured")];
    for (batch, rate) in [(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (1, 0.5), (2, 0.5), (4, 0.5), (1, 0.8), (2, 0.8)] {
        let hidden = masked(&measured.update(batch), &mut rng(2), 0.0, rate);
        let members = members_of(&hidden, None).unwrap();
        assert_eq!(members.batch(), BatchSize::Exactly(batch), "R {rate}");
        let (there, others) = all.split_at(batch);
        let case = format!("B {batch}, R {rate}");
        assert_eq!(counts(&members, there), [batch, 0, 0], "{case}");
        assert_eq!(counts(&members, others), [0, others.len(), 0], "{case}");
        assert_eq!(counts(&members, &strangers), [0, strangers.len(), 0], "{case}");
        for copies in &copies {
            assert_eq!(counts(&members, &copies[..batch])[0], 0, "{case}: an altered copy is not a member");
        }
        let found = members.judge(&there[0], 1.0).unwrap();
        assert!(found.residual < 1e-5 && found.interval.0 <= found.residual && found.residual <= found.interval.1);
    }
}

/// At R = 0.95 a row of 48 keeps two or three entries, and some rows keep none. A rank that does not show is refused.
#[test]
fn what_a_mask_hides_is_not_guessed() {
    let measured = Measured::committed();
    for batch in 1..=4 {
        let hidden = masked(&measured.update(batch), &mut rng(3), 0.0, 0.95);
        match members_of(&hidden, Some(batch)) {
            Ok(members) => {
                assert_eq!(
                    counts(&members, &measured.own("members")[..batch])[1],
                    0,
                    "B {batch}: a member is not a stranger"
                );
                assert_eq!(counts(&members, &measured.own("strangers"))[0], 0, "B {batch}: a stranger is not a member");
            }
            Err(error) => assert!(error.to_string().contains("the mask kept"), "{error}"),
        }
    }
}

/// `go_on` is called while a mask is undone, but not if nothing is hidden.
#[test]
fn undoing_a_mask_can_be_ended() {
    let update = Measured::committed().update(4);
    let mut asked = 0;
    let mut end = || {
        asked += 1;
        ControlFlow::Break(())
    };
    assert!(Members::of(&update, None, &mut end).is_ok());
    let ended = Members::of(&masked(&update, &mut rng(2), 0.0, 0.5), None, &mut end).err().unwrap().to_string();
    assert!(asked == 1 && ended.contains("more time"), "asked {asked} times: {ended}");
}

/// A defence's noise turns no member into a stranger and no stranger into a member. With enough of it there is no
/// verdict.
#[test]
fn noise_makes_no_stranger_of_a_member() {
    let measured = Measured::committed();
    let (all, strangers) = (measured.own("members"), measured.own("strangers"));
    let plain = measured.file.get("gradient_2").1;
    let size = (plain.iter().map(|value| value * value).sum::<f64>() / plain.len() as f64).sqrt();
    let mut refused = 0;
    for noise in [1e-6, 1e-4, 1e-2, 0.3, 1.0, 100.0] {
        let added = uniform(&mut rng(4), plain.len(), 3f64.sqrt() * noise * size);
        let noisy: Vec<f64> = plain.iter().zip(added).map(|(value, noise)| f64::from((value + noise) as f32)).collect();
        match members_of(&update(&measured.config, &noisy), Some(2)) {
            Ok(members) => {
                assert_eq!(counts(&members, &all[..2])[1], 0, "noise {noise}: {}", members.batch());
                assert_eq!(counts(&members, &strangers)[0], 0, "noise {noise}");
            }
            Err(error) => {
                assert!(error.to_string().contains("noise"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "noise 100 times the update drowns every picture");
}

/// A picture that the model is sure of leaves almost no trace, so it is not a stranger if the number of pictures is
/// unknown.
#[test]
fn a_picture_that_drowns_in_rounding_is_no_stranger() {
    let config = pico();
    let (rows, dim) = (config.mlp_dim(), config.dim);
    let tokens = uniform(&mut rng(1), 2 * dim, 1.0);
    let faint = 1e-9;
    let mut factors = uniform(&mut rng(3), rows * 2, 1.0);
    factors.iter_mut().skip(1).step_by(2).for_each(|factor| *factor *= faint);
    let gradient: Vec<f64> =
        product(&factors, &tokens, rows, 2, dim).iter().map(|&value| f64::from(value as f32)).collect();
    let there = own(&tokens[dim..], rows);
    let told = |pictures, strength| {
        let members = members_of(&update(&config, &gradient), pictures).unwrap();
        assert_eq!(members.batch(), BatchSize::Exactly(1), "the faint one does not show");
        members.judge(&there, strength).unwrap()
    };
    let unknown = told(None, faint);
    assert!((unknown.verdict, unknown.strength) == (Undecided, faint) && unknown.floor > faint, "{unknown:?}");
    assert_eq!(told(Some(2), faint).verdict, Undecided, "one of two is not seen");
    assert_eq!((told(Some(1), faint).verdict, told(Some(1), faint).floor), (Stranger, 0.0));
    assert_eq!(told(None, 1.0).verdict, Stranger, "it would have shown");
}

/// There are no strangers in an update whose sender lies about the number of pictures.
#[test]
fn strangers_need_all_of_the_batch_in_sight() {
    let measured = Measured::committed();
    let (member, stranger) = (&measured.own("members")[1], &measured.own("strangers")[0]);
    for pictures in [1, 3] {
        let members = members_of(&measured.update(2), Some(pictures)).unwrap();
        assert_eq!(members.judge(member, 1.0).unwrap().verdict, Member);
        assert_eq!(members.judge(stranger, 1.0).unwrap().verdict, Undecided);
    }
}

/// An epoch of two steps shows as many directions as pictures. The second picture met other weights, at which its token
/// differs from the one the attacker computes.
#[test]
fn a_picture_of_a_later_local_step_is_no_stranger() {
    let config = pico();
    let (rows, dim) = (config.mlp_dim(), config.dim);
    let tokens = uniform(&mut rng(1), 2 * dim, 1.0);
    let mut met = tokens.clone();
    met[dim..].iter_mut().zip(uniform(&mut rng(2), dim, 0.01)).for_each(|(token, moved)| *token += moved);
    let factors = uniform(&mut rng(3), rows * 2, 1.0);
    let gradient: Vec<f64> =
        product(&factors, &met, rows, 2, dim).iter().map(|&value| f64::from(value as f32)).collect();
    let members = |local_steps| members_of(&update(&config, &gradient), Some(2)).unwrap().over_steps(local_steps);
    assert_eq!(members(2).batch(), BatchSize::Exactly(2));
    let [first, later] = [&tokens[..dim], &tokens[dim..]].map(|token| own(token, rows));
    let verdicts = |local_steps| [&first, &later].map(|own| members(local_steps).judge(own, 1.0).unwrap().verdict);
    assert_eq!(verdicts(2), [Member, Undecided]);
    assert_eq!(verdicts(1), [Member, Stranger], "one step would have met both pictures at the same weights");
}

#[test]
fn batch_size_says_what_it_cannot_see() {
    let config = pico();
    let (rows, dim) = (config.mlp_dim(), config.dim);
    let size = |gradients: &Tensors| batch_size(gradients, &mut || ControlFlow::Continue(()));
    let of = |values: &[f64]| size(&update(&config, values));
    let zero = of(&vec![0.0; rows * dim]).unwrap_err().to_string();
    assert!(zero.contains("\"blocks.1.mlp.fc1.weight\" is all zero"), "{zero}");
    let full: Vec<f64> = {
        let (left, right) = (uniform(&mut rng(6), rows * 60, 1.0), uniform(&mut rng(7), 60 * dim, 1.0));
        let scaled: Vec<f64> =
            right.iter().enumerate().map(|(i, value)| value * 0.8f64.powi((i / dim) as i32)).collect();
        product(&left, &scaled, rows, 60, dim)
    };
    assert_eq!(of(&full), Ok(BatchSize::AtLeast(dim - 1)));
    let everybody = members_of(&update(&config, &full), None).err().unwrap().to_string();
    assert!(everybody.contains("any picture would look like a member"), "{everybody}");
    let noise = of(&uniform(&mut rng(8), rows * dim, 1.0)).unwrap_err().to_string();
    assert!(noise.contains("noise"), "{noise}");
    let hidden = masked(&update(&config, &full), &mut rng(9), 0.0, 1.0);
    assert!(size(&hidden).unwrap_err().to_string().contains("kept no entry"));
    let resnet = Architecture::from(ResnetPreset::Nano);
    let gradients = Tensors::new(TensorSource::Gradients, resnet, Rounding::F32);
    assert_eq!(size(&gradients), Err(AttackError::NotVit { architecture: resnet }));
    let wanted = rows * dim;
    let members = members_of(&Measured::committed().update(2), None).unwrap();
    assert!(membership(&members, &[], 1.0).is_err(), "nothing was asked");
    let short = members.judge(&[1.0], 1.0).unwrap_err();
    assert_eq!(short, AttackError::WrongLength { from: TensorSource::Gradients, found: 1, expected: wanted });
    assert!(members.judge(&vec![0.0; wanted], 1.0).unwrap_err().to_string().contains("another label"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn planted_members_are_found(batch in 1_usize..20, seed in 0_u64..1000) {
        let config = pico();
        let (rows, dim) = (config.mlp_dim(), config.dim);
        let tokens = uniform(&mut rng(seed), batch * dim, 1.0);
        let factors = uniform(&mut rng(seed + 1000), rows * batch, 1.0);
        let gradient: Vec<f64> = product(&factors, &tokens, rows, batch, dim).iter().map(|&value| f64::from(value as f32)).collect();
        let members = members_of(&update(&config, &gradient), None).unwrap();
        prop_assert_eq!(members.batch(), BatchSize::Exactly(batch));
        let there: Vec<Vec<f64>> = tokens.chunks_exact(dim).map(|token| own(token, rows)).collect();
        prop_assert_eq!(counts(&members, &there), [batch, 0, 0]);
        let other = own(&uniform(&mut rng(seed + 2000), dim, 1.0), rows);
        prop_assert_eq!(members.judge(&other, 1.0).unwrap().verdict, Stranger);
    }
}

/// Replaces a model: its class token is a linear map of the picture.
#[derive(Debug)]
struct Linear(VitConfig);

impl Linear {
    fn token(&self, picture: &[f32]) -> Vec<f64> {
        let map = uniform(&mut rng(11), picture.len() * self.0.dim, 1.0);
        let picture: Vec<f64> = picture.iter().map(|&value| f64::from(value)).collect();
        product(&picture, &map, 1, picture.len(), self.0.dim)
    }
}

impl Searches for Linear {
    /// Returns zeros for label 0, as if the model were sure of it.
    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], picture: &[f32]) -> Result<Vec<f64>, AttackError> {
        let layout = whole.architecture.layout();
        let mut flat = vec![0.0; layout.len()];
        let range = layout.get(&class_token_gradient(whole.architecture).unwrap()).unwrap().range.clone();
        if labels[0] != 0 {
            flat[range].copy_from_slice(&own(&self.token(picture), self.0.mlp_dim()));
        }
        Ok(flat)
    }
}

#[test]
fn an_observer_runs_the_model_on_the_candidate() {
    let config = pico();
    let architecture = Architecture::from(VitPreset::Pico);
    let model = Linear(config);
    let pictures = ["cat", "rocket"].map(|name| sample(name, &config));
    let tokens: Vec<f64> = pictures.iter().flat_map(|picture| model.token(picture)).collect();
    let factors = uniform(&mut rng(12), 2 * config.mlp_dim(), 1.0);
    let gradient = product(&transpose(&factors, 2, config.mlp_dim()), &tokens, config.mlp_dim(), 2, config.dim);
    let weights = Tensors::new(TensorSource::Weights, architecture, Rounding::F32);
    let mut observation = Observation::new(Ok(Evidence { weights, gradients: update(&config, &gradient) }));
    let told = |observation: &Observation, name: &str| {
        observation.membership(&model, &sample(name, &config), Some(2), &mut || ControlFlow::Continue(()))
    };
    assert_eq!(told(&observation, "cat"), Err(AttackError::NoModel));
    let state = ModelState::from_weights(vec![0.0; architecture.layout().len()]);
    let whole = WholeUpdate { architecture, state, gradient: Vec::new(), kept: None, is_training: true };
    observation.whole = Some(Arc::new(whole));
    for (name, verdict) in [("cat", Member), ("rocket", Member), ("coffee", Stranger)] {
        let found = told(&observation, name).unwrap();
        assert_eq!((found.verdict, found.distractors.len()), (verdict, 3), "{name}: {found:?}");
        assert!(found.distractors.iter().all(|&residual| residual > MEMBER), "{name}: {found:?}");
    }
    // Swapping red and blue does not change a grey picture, so there is one copy less.
    let truth = sample("cat", &config);
    let grey: Vec<f32> = truth.chunks_exact(3).flat_map(|pixel| [pixel[0]; 3]).collect();
    assert_eq!(
        observation.membership(&model, &grey, None, &mut || ControlFlow::Continue(())).unwrap().distractors.len(),
        2
    );
    let refused =
        |picture: &[f32]| observation.membership(&model, picture, None, &mut || ControlFlow::Continue(())).unwrap_err();
    assert_eq!(refused(&truth[1..]), AttackError::WrongPicture { found: 767, expected: 768 });
    let mut broken = truth.clone();
    broken[5] = f32::NAN;
    assert!(matches!(refused(&broken), AttackError::NonFinitePicture { index: 5, .. }));
    assert!(observation.membership(&NoSearches, &truth, None, &mut || ControlFlow::Continue(())).is_err());
    observation.encryption = Some(Encryption::default());
    assert_eq!(told(&observation, "cat"), Err(AttackError::CipherText));
}

/// Measures the figures in docs/reports/attack-notes.md.
#[test]
#[ignore = "needs `python scripts/membership_vectors.py --measure`"]
fn false_positives_among_a_thousand_strangers() {
    let folder = lab_vectors("").with_file_name("membership");
    for preset in [VitPreset::Nano, VitPreset::Lab] {
        for state in ["fresh", "trained"] {
            let file = File::read(&folder.join(format!("{preset}_{state}.safetensors")));
            let measured = Measured { file, config: VitConfig::from(preset) };
            let (all, strangers) = (measured.own("members"), measured.own("strangers"));
            let copies = [measured.own("mirrored"), measured.own("recoloured")].concat();
            for (batch, rate) in [1, 2, 4, 8, 16, 32, 64]
                .map(|batch| (batch, 0.0))
                .into_iter()
                .chain([1, 2, 4].into_iter().flat_map(|batch| [0.5, 0.8, 0.95].map(|rate| (batch, rate))))
            {
                let hidden = masked(&measured.update(batch), &mut rng(2), 0.0, rate);
                let clock = std::time::Instant::now();
                let members = match members_of(&hidden, Some(batch)) {
                    Ok(members) => members,
                    Err(error) => {
                        println!("{preset} {state} B {batch} R {rate}: {error}");
                        continue;
                    }
                };
                let seconds = clock.elapsed().as_secs_f64();
                let copies: Vec<Vec<f64>> =
                    (0..2 * all.len()).filter(|i| i % all.len() < batch).map(|i| copies[i].clone()).collect();
                let residuals = |group: &[Vec<f64>]| -> Vec<f64> {
                    let mut all: Vec<f64> = group.iter().map(|own| members.judge(own, 1.0).unwrap().residual).collect();
                    all.sort_by(f64::total_cmp);
                    all
                };
                let (there, here, altered) = (residuals(&all[..batch]), residuals(&strangers), residuals(&copies));
                let [ours, theirs, others] =
                    [&all[..batch], &strangers[..], &copies[..]].map(|group| counts(&members, group));
                println!(
                    "{preset} {state} B {batch} R {rate}: {} in {seconds:.2} s; members to {:.0e} {ours:?}; strangers from {:.0e}, \
                     median {:.0e} {theirs:?}; copies from {:.0e} {others:?}",
                    members.batch(),
                    there[batch - 1],
                    here[0],
                    here[here.len() / 2],
                    altered[0],
                );
                assert_eq!((theirs[0], others[0]), (0, 0), "false positives");
                assert_eq!(ours[1], 0, "false negatives");
            }
        }
    }
}
