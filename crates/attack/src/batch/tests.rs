//! The whole attack on batches of photographs.

use std::ops::ControlFlow;

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{ParamLayout, VitConfig, VitPreset};

use super::{
    Batch, BatchPicture, BatchProgress, Levels, batch,
    cases::{Case, case, gradient},
    counting::always,
    evidence::Judged,
    peel::{identify, peel, settle},
    round::Round,
};
use crate::{AttackError, Ending, Needs, Rounding, Tensors, reconstruction::patches_of};

const NANO: VitPreset = VitPreset::NanoPatch8;
const ASTRONAUT: usize = 0;
const CAMERAMAN: usize = 1;
const CAT: usize = 2;
const COFFEE: usize = 3;
const HUBBLE: usize = 4;

fn go_on(_: BatchProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The gradient of one picture at the weights of seed 1.
fn model(config: VitConfig) -> impl FnMut(usize, &[f32]) -> Result<Tensors, AttackError> {
    move |label, picture| {
        let chw = unmask_data::hwc_to_chw(picture, config.image, config.image);
        Ok(gradient(&config, &chw, &[label], 1, Rounding::F64))
    }
}

fn alone(case: &Case) -> Result<Batch, AttackError> {
    batch(&case.evidence, Levels::default(), None, &mut go_on)
}

fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.5 / 255.0)
}

/// Number of pictures that are back in every bit.
fn back(case: &Case, found: &Batch) -> usize {
    let is_back = |truth: &&Vec<f32>| found.pictures.iter().any(|picture| is_same(&picture.image, truth));
    case.pictures.iter().filter(is_back).count()
}

fn assert_honest(case: &Case, found: &Batch) {
    for picture in found.pictures.iter().filter(|picture| picture.is_certain) {
        assert!(case.pictures.iter().any(|truth| is_same(&picture.image, truth)), "certain, and in no batch");
    }
}

/// Patches `[L, S]` of a picture of the case.
fn patches(case: &Case, which: usize) -> Mat<f64> {
    patches_of(&case.pictures[which], &case.evidence.weights.vit().unwrap()).transpose().to_owned()
}

fn judged(case: &Case, patches: Mat<f64>) -> Judged {
    let picture = BatchPicture {
        image: case.pictures[0].clone(),
        is_certain: false,
        fits: true,
        off_grid: 0.0,
        class_residual: 0.0,
        residual: 0.0,
        label: None,
    };
    Judged { picture, patches, weight: 0.0 }
}

#[test]
fn every_picture_of_a_batch_comes_back_from_f64() {
    for (labels, which) in [(vec![3, 8], vec![ASTRONAUT, CAT]), (vec![5, 5, 5], vec![CAMERAMAN, COFFEE, HUBBLE])] {
        let case = case(&NANO.into(), &which, &labels, 1, Rounding::F64);
        let found = alone(&case).unwrap();
        assert_eq!((back(&case, &found), found.ending), (which.len(), Ending::Settled), "{:?}", found.notes);
        assert!(found.pictures.iter().all(|picture| picture.is_certain && picture.residual < 1e-8));
        assert_eq!(found.progress.found, which.len() * 17);
    }
}

#[test]
fn a_batch_comes_back_from_f32() {
    for preset in [NANO, VitPreset::LabPatch8] {
        let case = case(&preset.into(), &[CAMERAMAN, COFFEE], &[3, 8], 1, Rounding::F32);
        let found = alone(&case).unwrap();
        assert_eq!(back(&case, &found), 2, "{preset}: {:?}", found.notes);
        assert_eq!(found.progress.certain, 2);
    }
}

/// A mean is a mean, and leaves exactly the rest.
#[test]
fn peeling_leaves_exactly_the_rest() {
    let config: VitConfig = NANO.into();
    let case = case(&config, &[CAT, HUBBLE], &[3, 8], 1, Rounding::F32);
    let mut left = case.evidence.clone();
    let mut own = model(config);
    let mut rest = case.evidence.gradients.clone();
    rest.subtract(&own(3, &case.pictures[0]).unwrap(), 0.5);
    let mut own: super::GradientOf<'_> = &mut own;
    let mut cat = [judged(&case, patches(&case, 0))];
    identify((&left, 2), &mut cat, &mut own, &mut always).unwrap();
    assert_eq!((cat[0].picture.label, cat[0].weight), (Some(3), 0.5));
    assert!(peel(&mut left, &cat, &mut own).unwrap());
    for name in ["pos_embed", "patch_embed.proj.weight", "blocks.0.mlp.fc1.weight"] {
        assert_eq!(left.gradients.values(name).unwrap(), rest.values(name).unwrap(), "{name}");
    }
}

/// What the rounding of stronger pictures left of a weak one may lie between grey levels and still fit.
#[test]
fn a_picture_that_noise_explains_fits() {
    let config: VitConfig = NANO.into();
    let mut weak = case(&config, &[HUBBLE], &[8], 1, Rounding::F32);
    let strong = case(&config, &[CAT], &[3], 1, Rounding::F32);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for name in Needs::of_batch(&config).unwrap().gradients.required {
        let mut values = weak.evidence.gradients.values(&name).unwrap().to_vec();
        let others = strong.evidence.gradients.values(&name).unwrap();
        values.iter_mut().zip(others).for_each(|(value, other)| *value += 8e-6 * rng.random_range(-1.0..1.0) * other);
        let shape = ParamLayout::vit(&config).get(&name).unwrap().shape.clone();
        weak.evidence.gradients.insert(&name, &shape, values).unwrap();
    }
    let round = Round::new(&weak.evidence, 1, Levels::default()).unwrap();
    let mut between = patches(&weak, 0);
    between[(100, 8)] += 0.4 * 2.0 / 255.0;
    let near = round.judge(between).picture;
    assert!(near.fits && !near.is_certain, "{} {}", near.class_residual, near.residual);
    assert!(!round.judge(patches(&strong, 0)).picture.fits);
}

/// Black patches have almost the same tokens.
#[test]
fn a_picture_whose_tokens_drown_comes_back_once_the_other_is_peeled_off() {
    let config = NANO.into();
    let case = case(&config, &[CAT, HUBBLE], &[3, 8], 1, Rounding::F32);
    let without = alone(&case).unwrap();
    assert_honest(&case, &without);
    assert_eq!((without.progress.certain, without.ending), (1, Ending::Unsettled));
    assert!(without.notes.iter().any(|note| note.contains("1 of 2 pictures are certain")), "{:?}", without.notes);
    let with = batch(&case.evidence, Levels::default(), Some(&mut model(config)), &mut go_on).unwrap();
    assert_eq!((back(&case, &with), with.progress.certain), (2, 2), "{:?}", with.notes);
}

/// Values between two grey levels are told by the class token of the last block, and a wrong value elsewhere is too.
#[test]
fn doubtful_values_are_settled_or_left_in_doubt() {
    let config: VitConfig = NANO.into();
    let case = case(&config, &[CAT, COFFEE], &[3, 8], 1, Rounding::F32);
    let near = |doubtful: usize, wrong: usize| {
        let mut patches = patches(&case, 0);
        let level = 2.0 / 255.0;
        // Rounded, these are right and wrong in turn.
        (0..doubtful).for_each(|k| patches[(13 * k, k)] += if k % 2 == 0 { 0.4 * level } else { 0.6 * level });
        (0..wrong).for_each(|k| patches[(5 * k, 15)] += level);
        judged(&case, patches)
    };
    let mut model: super::GradientOf<'_> = &mut model(config);
    let found =
        settle((&case.evidence, case.pictures.len()), &near(10, 0), &Levels::default(), &mut model, &mut always)
            .unwrap()
            .unwrap();
    assert!(found.picture.is_certain && is_same(&found.picture.image, &case.pictures[0]));
    assert!(
        settle((&case.evidence, case.pictures.len()), &near(10, 1), &Levels::default(), &mut model, &mut always)
            .unwrap()
            .is_none()
    );
}

#[test]
fn an_update_at_other_weights_tells_nothing() {
    let config: VitConfig = NANO.into();
    let mut mixed = case(&config, &[ASTRONAUT, CAT], &[3, 8], 1, Rounding::F32);
    mixed.evidence.weights = case(&config, &[ASTRONAUT], &[0], 2, Rounding::F32).evidence.weights;
    let said = alone(&mixed).unwrap_err().to_string();
    assert!(said.contains("cannot tell, because 0 of 34 tokens"), "{said}");
}

#[test]
fn a_doctored_gradient_gives_no_false_picture() {
    let config: VitConfig = NANO.into();
    let of = |which: &[usize]| case(&config, which, &[3, 8], 1, Rounding::F32);
    let others = of(&[COFFEE, CAMERAMAN]);
    for name in ["blocks.0.mlp.fc2.weight", "patch_embed.proj.weight", "blocks.0.attn.proj.weight", "pos_embed"] {
        let mut doctored = of(&[ASTRONAUT, CAT]);
        let values = others.evidence.gradients.values(name).unwrap().to_vec();
        let layout = ParamLayout::vit(&config);
        doctored.evidence.gradients.insert(name, &layout.get(name).unwrap().shape, values).unwrap();
        match alone(&doctored) {
            Ok(found) => {
                assert_honest(&doctored, &found);
                assert!(found.progress.certain < 2, "{name}");
            }
            Err(error) => assert!(error.to_string().contains("cannot"), "{name}: {error}"),
        }
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let case = case(&NANO.into(), &[ASTRONAUT, COFFEE], &[3, 8], 1, Rounding::F32);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        Batch { seconds: 0.0, ..pool.install(|| alone(&case)).unwrap() }
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn the_search_counts_and_can_be_ended() {
    let case = case(&NANO.into(), &[ASTRONAUT, COFFEE], &[3, 8], 1, Rounding::F32);
    let mut most = 0;
    let ended = batch(&case.evidence, Levels::default(), None, &mut |at| {
        assert!(at.found >= most && at.found <= at.tokens);
        most = at.found;
        if at.found > 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(most > 5 && most < 34, "{most}");
    assert!(matches!(ended, Err(AttackError::Ended { .. })), "{ended:?}");
}

/// Hides each entry of every gradient at this rate.
fn masked(case: &Case, rate: f64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut evidence = case.evidence.clone();
    for param in &ParamLayout::vit(&case.evidence.gradients.vit().unwrap()) {
        let values = case.evidence.gradients.values(&param.name).unwrap().to_vec();
        let kept = values.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
        evidence.gradients.insert_kept(&param.name, &param.shape, values, kept).unwrap();
    }
    Case { evidence, pictures: case.pictures.clone() }
}

/// A mask is no secret, and what it hides follows from the ranks while it keeps enough.
#[test]
fn a_mask_that_keeps_enough_does_not_protect_a_batch() {
    let config: VitConfig = VitPreset::LabPatch8.into();
    let whole = case(&config, &[ASTRONAUT, CAT], &[3, 8], 1, Rounding::F32);
    let found = alone(&masked(&whole, 0.2)).unwrap();
    assert_eq!((back(&whole, &found), found.progress.certain), (2, 2), "{:?}", found.notes);
    let said = alone(&masked(&whole, 0.8)).unwrap_err().to_string();
    assert!(said.contains("cannot tell, because the mask kept 20 %"), "{said}");
}
