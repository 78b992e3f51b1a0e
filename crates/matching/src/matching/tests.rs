//! Runs on `vit_pico_patch4_16`, so that a test takes seconds.

use unmask_core::{Architecture, ModelState, VitConfig, VitPreset};
use unmask_data::{chw_to_hwc, decode, metrics::ssim};
use unmask_model::{Network, OracleOptions, Precision, WeightScope, device::OpenDevice};

use super::*;
use crate::NetworkOracle;

pub(super) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

const SIDE: usize = 16;

fn network() -> Network {
    Network::new(Architecture::from(VitPreset::Pico), OpenDevice::cpu().device()).unwrap()
}

fn state(network: &Network) -> ModelState {
    network.architecture().initial(1)
}

/// `[3, side, side]` in [0, 1].
fn photograph(name: &str) -> Vec<f32> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples").join(name);
    decode(&std::fs::read(path).unwrap()).unwrap().for_model(SIDE)
}

fn gradient(network: &Network, images: &[f32], labels: &[usize]) -> Vec<f32> {
    network.loss_and_gradient_blocking(&state(network), images, labels).unwrap().gradient
}

/// Keeps about half of the entries, chosen by a fixed hash.
fn half(len: usize) -> Vec<bool> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761) >> 15 & 1 == 1).collect()
}

fn masked(update: &[f32], kept: &[bool]) -> Vec<f32> {
    update.iter().zip(kept).map(|(&value, &kept)| if kept { value } else { 0.0 }).collect()
}

fn config() -> VitConfig {
    VitConfig::from(VitPreset::Pico)
}

fn first_block(network: &Network, labels: &[usize]) -> NetworkOracle {
    let options = OracleOptions { scope: WeightScope::FirstBlock, ..OracleOptions::default() };
    NetworkOracle::new(network, &state(network), labels, options).unwrap()
}

fn problem(network: &Network, labels: &[usize], objective: Objective, evidence: ReceivedGradient) -> Problem {
    Problem::new(first_block(network, labels), objective, evidence).unwrap()
}

/// Blurs the truth, like the result of a closed form.
fn blurred(truth: &[f32]) -> Vec<f32> {
    let mut blurred = Vec::with_capacity(truth.len());
    for (i, plane) in (0..truth.len()).map(|i| (i, i / (SIDE * SIDE) * SIDE * SIDE)) {
        let (y, x) = (i % (SIDE * SIDE) / SIDE, i % SIDE);
        let near = |at: usize| at.saturating_sub(2)..(at + 3).min(SIDE);
        let values: Vec<f32> = near(y).flat_map(|y| near(x).map(move |x| truth[plane + y * SIDE + x])).collect();
        blurred.push(values.iter().sum::<f32>() / values.len() as f32);
    }
    blurred
}

struct Run {
    first: f64,
    last: f64,
    start: f64,
    found: f64,
    kept_start: bool,
}

fn run(problem: Problem, start: &[f32], truth: &[f32], options: MatchingOptions) -> Run {
    let side = |picture: &[f32]| ssim(picture, &chw_to_hwc(truth, SIDE, SIDE), SIDE, SIDE).unwrap();
    let start = chw_to_hwc(start, SIDE, SIDE);
    let mut matching = Matching::new(problem, &start, options).unwrap();
    let mut first = None;
    loop {
        let progress = matching.step().unwrap();
        let first = *first.get_or_insert(progress.objective);
        if progress.is_over {
            let (last, found) = (progress.objective, side(&progress.image));
            return Run { first, last, start: side(&start), found, kept_start: progress.note.is_some() };
        }
    }
}

#[test]
fn slope_is_that_of_the_objective() {
    let network = network();
    let truth = photograph("astronaut.png");
    let update = gradient(&network, &truth, &[3]);
    let kept = half(update.len());
    for (objective, scope, tolerance) in [
        (Objective::tokens(&config()), WeightScope::FirstBlock, 1e-3),
        (Objective::tokens_without_position(&config()), WeightScope::FirstBlock, 1e-3),
        // A shift of the same length along this v meets more curvature.
        (Objective::Cosine, WeightScope::All, 1e-2),
    ] {
        let options = OracleOptions { scope, precision: Precision::F64, ..OracleOptions::default() };
        let oracle = NetworkOracle::new(&network, &state(&network), &[3], options).unwrap();
        let evidence = ReceivedGradient::aware(&masked(&update, &kept), &kept).unwrap();
        let problem = Problem::new(oracle, objective, evidence).unwrap();
        let x: Vec<f64> = blurred(&truth).iter().map(|&v| f64::from(v) * 2.0 - 1.0).collect();
        let slope = problem.evaluate(&x).unwrap().slope;
        // Along d = slope / |slope|, the objective rises by |slope|.
        let length = norm(&slope);
        let along = |step: f64| {
            let moved: Vec<f64> = x.iter().zip(&slope).map(|(x, s)| x + step * s / length).collect();
            problem.evaluate(&moved).unwrap().terms.sum()
        };
        let step = 1e-3;
        let rise = (along(step) - along(-step)) / (2.0 * step);
        assert!((rise / length - 1.0).abs() < tolerance, "{:?}: rises by {rise}, slope {length}", problem.objective);
    }
}

#[test]
fn the_aware_attacker_sharpens_what_the_naive_one_spoils() {
    let network = network();
    let truth = photograph("astronaut.png");
    let update = gradient(&network, &truth, &[3]);
    let kept = half(update.len());
    let sent = masked(&update, &kept);
    let options = MatchingOptions { iterations: 200, ..MatchingOptions::default() };
    let run = |evidence: ReceivedGradient| {
        run(problem(&network, &[3], Objective::tokens(&config()), evidence), &blurred(&truth), &truth, options)
    };
    let aware = run(ReceivedGradient::aware(&sent, &kept).unwrap());
    let naive = run(ReceivedGradient::naive(&sent).unwrap());
    assert!(!aware.kept_start);
    assert!(aware.last < 0.1 * aware.first, "objective {} to {}", aware.first, aware.last);
    assert!(aware.found > aware.start + 0.04, "SSIM {} to {}", aware.start, aware.found);
    // Over entries that were never sent, nothing explains the update better than the start does.
    assert!(naive.kept_start);
    assert_eq!(naive.found, naive.start);
    // From a grey start, it finds nothing.
    let grey = vec![0.5; truth.len()];
    let tokens = problem(&network, &[3], Objective::tokens(&config()), ReceivedGradient::naive(&sent).unwrap());
    let naive = self::run(tokens, &grey, &truth, options);
    assert!(!naive.kept_start && naive.found < 0.3, "naive SSIM {}", naive.found);
}

#[test]
fn two_pictures_are_searched_for_together() {
    let network = network();
    let truth = [photograph("astronaut.png"), photograph("rocket.png")];
    let update = gradient(&network, &truth.concat(), &[3, 5]);
    let kept = half(update.len());
    let evidence = ReceivedGradient::aware(&masked(&update, &kept), &kept).unwrap();
    let start: Vec<f32> = truth.iter().flat_map(|truth| chw_to_hwc(&blurred(truth), SIDE, SIDE)).collect();
    let problem = problem(&network, &[3, 5], Objective::tokens(&config()), evidence);
    let mut matching =
        Matching::new(problem, &start, MatchingOptions { iterations: 60, ..MatchingOptions::default() }).unwrap();
    let first = matching.step().unwrap();
    assert_eq!(first.image.len(), start.len());
    let mut last = first.clone();
    while !last.is_over {
        last = matching.step().unwrap();
    }
    assert!(last.objective < 0.2 * first.objective, "objective {} to {}", first.objective, last.objective);
}

#[test]
fn a_fixed_position_is_named_and_matched_without_its_term() {
    let network = network();
    let truth = photograph("astronaut.png");
    let mut update = gradient(&network, &truth, &[3]);
    update[network.layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    let evidence = || ReceivedGradient::naive(&update).unwrap();
    let refusal = Problem::new(first_block(&network, &[3]), Objective::tokens(&config()), evidence()).unwrap_err();
    assert!(matches!(refusal, AttackError::FixedPosition), "{refusal}");
    let problem = problem(&network, &[3], Objective::tokens_without_position(&config()), evidence());
    let options = MatchingOptions { iterations: 60, ..MatchingOptions::default() };
    let without = run(problem, &blurred(&truth), &truth, options);
    assert!(without.last < 0.5 * without.first, "objective {} to {}", without.first, without.last);
}

#[test]
fn a_newer_update_goes_on_from_the_picture() {
    let network = network();
    let truth = photograph("astronaut.png");
    let update = gradient(&network, &truth, &[3]);
    let tokens = || problem(&network, &[3], Objective::tokens(&config()), ReceivedGradient::naive(&update).unwrap());
    let start = chw_to_hwc(&blurred(&truth), SIDE, SIDE);
    let mut matching =
        Matching::new(tokens(), &start, MatchingOptions { iterations: 40, ..MatchingOptions::default() }).unwrap();
    let mut last = matching.step().unwrap();
    while !last.is_over {
        last = matching.step().unwrap();
    }
    matching.retarget(tokens()).unwrap();
    assert_eq!(matching.image(), last.image);
    let next = matching.step().unwrap();
    assert_eq!((next.is_over, next.iteration), (false, 16));
    assert!(next.objective <= 1.05 * last.objective, "{} after {}", next.objective, last.objective);
    let two = first_block(&network, &[3, 4]);
    let two = Problem::new(two, Objective::tokens(&config()), ReceivedGradient::naive(&update).unwrap()).unwrap();
    assert!(matches!(matching.retarget(two), Err(AttackError::StartLength { batch: 2, .. })));
}

/// No step from the true picture goes down.
#[test]
fn a_start_that_cannot_be_bettered_is_kept() {
    let network = network();
    let truth = photograph("astronaut.png");
    let evidence = ReceivedGradient::naive(&gradient(&network, &truth, &[3])).unwrap();
    let problem = problem(&network, &[3], Objective::tokens(&config()), evidence);
    let options = MatchingOptions { iterations: 64, variation: 0.0, ..MatchingOptions::default() };
    let kept = run(problem, &truth, &truth, options);
    assert!(kept.kept_start);
    assert!(kept.found > 0.9999, "SSIM {}", kept.found);
}

/// With another model's weights, a search finds pictures that explain the update better than the true picture but look
/// worse. With an exact start, it must still end with the start.
#[test]
fn the_wrong_weights_do_not_drag_an_exact_start_away() {
    let network = network();
    let truth = photograph("astronaut.png");
    let update = gradient(&network, &truth, &[3]);
    let found = |is_start_exact| {
        let options = OracleOptions { scope: WeightScope::All, ..OracleOptions::default() };
        let other = network.architecture().initial(2);
        let oracle = NetworkOracle::new(&network, &other, &[3], options).unwrap();
        let evidence = ReceivedGradient::naive(&update).unwrap();
        let problem = Problem::new(oracle, Objective::Cosine, evidence).unwrap();
        let options = MatchingOptions { iterations: 200, is_start_exact, ..MatchingOptions::default() };
        run(problem, &truth, &truth, options)
    };
    let (dragged, kept) = (found(false), found(true));
    assert!(!dragged.kept_start && dragged.found < 0.9, "SSIM {}", dragged.found);
    assert!(kept.kept_start && kept.found > 0.9999, "SSIM {}", kept.found);
}

#[test]
fn the_picture_that_explains_most_is_kept() {
    let network = network();
    let truth = photograph("astronaut.png");
    let update = gradient(&network, &truth, &[3]);
    let problem = || problem(&network, &[3], Objective::tokens(&config()), ReceivedGradient::naive(&update).unwrap());
    let start = chw_to_hwc(&blurred(&truth), SIDE, SIDE);
    let mut matching =
        Matching::new(problem(), &start, MatchingOptions { iterations: 40, ..MatchingOptions::default() }).unwrap();
    let misfit = |image: &[f32]| {
        let inputs = Inputs { batch: 1, side: SIDE };
        problem().evaluate(&normalise(inputs, image)).unwrap().misfit
    };
    let mut least = misfit(&start);
    let mut last = matching.step().unwrap();
    while !last.is_over {
        least = least.min(misfit(&last.image));
        last = matching.step().unwrap();
    }
    assert!(misfit(&last.image) <= least + 1e-4, "{} where {least} was seen", misfit(&last.image));
}

#[test]
fn nonsense_is_refused_with_its_numbers() {
    let network = network();
    let len = network.layout().len();
    let update = gradient(&network, &photograph("astronaut.png"), &[3]);
    let network = |labels: &[usize]| first_block(&network, labels);
    let tokens = || Objective::tokens(&config());
    let refusal = |labels: &[usize], update: &[f32]| {
        Problem::new(network(labels), tokens(), ReceivedGradient::naive(update).unwrap()).unwrap_err().to_string()
    };
    assert!(refusal(&[3], &update[..100]).starts_with("the gradients have 100 values"));
    assert!(refusal(&[1, 2, 3, 4], &update).contains("mean gradient of 4 pictures"));
    assert!(refusal(&[3], &vec![0.0; len]).contains("all zero"));
    let mut poisoned = update.clone();
    poisoned[7] = f32::NAN;
    assert!(matches!(ReceivedGradient::naive(&poisoned), Err(AttackError::NonFiniteUpdate { index: 7, .. })));
    assert!(matches!(
        ReceivedGradient::aware(&update, &[true]),
        Err(AttackError::WrongMask { found: 1, expected }) if expected == len
    ));
    let start = |start: &[f32]| {
        let problem = Problem::new(network(&[3]), tokens(), ReceivedGradient::naive(&update).unwrap()).unwrap();
        Matching::new(problem, start, MatchingOptions::default()).unwrap_err()
    };
    assert!(matches!(start(&[0.5; 12]), AttackError::StartLength { found: 12, expected: 768, batch: 1, side: 16 }));
    assert!(matches!(start(&[f32::INFINITY; 768]), AttackError::NonFiniteStart { index: 0, .. }));
}
