//! Low-rank completion of a photograph's gradient from PyTorch and of generated gradients.

use super::common;
use std::{ops::ControlFlow, sync::Arc};

use super::common::{File, masked, own_gradients, rng, shape, similarity, uniform, vectors};
use rand::RngExt;
use unmask_attack::{
    AccumulatedRounds, AttackError, Ending, Evidence, Needs, NoSearches, Observation, Reconstruction, Rounding,
    SearchOptions, TensorSource, Tensors, completion_of_rounds, embedding_inversion, run,
};
use unmask_core::{AttackMethod, VitConfig, VitPreset};

const READS: [&str; 3] = ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"];

fn nano() -> VitConfig {
    VitConfig::from(VitPreset::NanoPatch8)
}

fn evidence(gradients: Tensors) -> Evidence {
    Evidence { weights: Tensors::new(TensorSource::Weights, &gradients.vit().unwrap(), Rounding::F32), gradients }
}

fn completion(evidence: &Evidence) -> Result<Reconstruction, AttackError> {
    unmask_attack::completion(evidence, &mut |_| ControlFlow::Continue(()))
}

fn cat() -> (Tensors, Vec<f32>) {
    let file = File::read(&vectors("completion/vit_nano_patch8_32-fresh-sgd-cat.safetensors"));
    let image = file.image("image").iter().map(|&value| value / 255.0).collect();
    (file.tensors(TensorSource::Gradients, &nano(), Rounding::F32, &READS, None), image)
}

#[test]
fn masks_on_a_photograph_are_undone() {
    let (gradients, image) = cat();
    for (seed, rate) in [(1, 0.2), (2, 0.5), (3, 0.5)] {
        let hidden = evidence(masked(&gradients, &mut rng(seed), rate, rate));
        let psnr = |found: Reconstruction| similarity(&found.image, &image, 32).0;
        let found = completion(&hidden).unwrap();
        println!("R {rate}: {:?}", found.notes);
        assert_eq!(found.notes.len(), 1, "nothing is in doubt: {:?}", found.notes);
        let (completed, naive) = (psnr(found), psnr(embedding_inversion(&hidden.gradients).unwrap()));
        assert!(completed > 90.0 && naive < 20.0, "R {rate}: {completed} dB, naive {naive} dB");
    }
    let open = evidence(gradients);
    assert_eq!(completion(&open), embedding_inversion(&open.gradients), "with nothing hidden they are the same");
}

/// With few entries for each unknown, rounding is amplified a hundredfold in the held-out ones. That alone must not
/// make the result unsettled.
#[test]
fn little_more_than_counting_allows_is_settled() {
    let config = VitConfig::from(VitPreset::Lab);
    let image = common::sample("cat", &config);
    let exact = own_gradients(&config, &image);
    let mut rounded = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
    for name in READS {
        let values = exact.values(name).unwrap().iter().map(|&value| f64::from(value as f32)).collect();
        rounded.insert(name, &shape(&config, name), values).unwrap();
    }
    let found = completion(&evidence(masked(&rounded, &mut rng(1), 0.19, 0.19))).unwrap();
    let psnr = similarity(&found.image, &image, 32).0;
    assert!(found.ending == Ending::Settled && psnr > 80.0, "{psnr} dB, {found:?}");
}

/// Pixels with fewer kept gradients than patches are filled from their neighbours, even two side by side. The other
/// pixels are not affected. At most one in twenty may be filled.
#[test]
fn pixels_that_lack_gradients_are_told_by_their_neighbours() {
    let (gradients, image) = cat();
    let config = nano();
    let (l, name) = (config.patch_len(), READS[1]);
    let hidden = |lacking: &[(usize, usize)]| {
        let mut rng = rng(2);
        let mut hidden = masked(&gradients, &mut rng, 0.5, 0.5);
        let values = gradients.values(name).unwrap().to_vec();
        let kept = (0..values.len()).map(|at| {
            let most = lacking.iter().find(|&&(pixel, _)| pixel == at % l).map(|&(_, most)| most);
            most.map_or_else(|| rng.random_bool(0.5), |most| at / l < most)
        });
        hidden.insert_kept(name, &shape(&config, name), values.clone(), kept.collect()).unwrap();
        evidence(hidden)
    };
    let lacking = [(20, 0), (100, 3), (140, 15), (141, 0)];
    let found = completion(&hidden(&lacking)).unwrap();
    let note = "4 of the 192 colour values of a patch have fewer kept gradients than there are patches and were \
                filled from their neighbours.";
    assert!(found.ending == Ending::Settled && found.notes.iter().any(|found| found == note), "{:?}", found.notes);
    let (of_lacking, of_others) = errors(&found.image, &image, &lacking.map(|(pixel, _)| pixel));
    assert!(of_lacking < 0.1 && of_others < 1e-5, "{of_lacking:e}, others {of_others:e}");

    let many: Vec<(usize, usize)> = (0..10).map(|pixel| (pixel, 3)).collect();
    let error = completion(&hidden(&many)).unwrap_err().to_string();
    let reason = "it needs 16 of the 96 gradients of colour value 0 of the patches (one of 10 in 192 with too few), \
                  but 3 were kept";
    assert!(error.contains(reason), "{error}");
}

/// Root mean square errors at some pixels of every patch, and at the other pixels.
fn errors(found: &[f32], truth: &[f32], pixels: &[usize]) -> (f64, f64) {
    let (found, truth) = (common::patches(found, &nano()), common::patches(truth, &nano()));
    let l = nano().patch_len();
    let mean = |is_one: bool| {
        let squares: Vec<f64> = (0..found.len())
            .filter(|at| pixels.contains(&(at % l)) == is_one)
            .map(|at| (found[at] - truth[at]).powi(2))
            .collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    (mean(true), mean(false))
}

/// `progress` receives each step and may end the search. A search that was ended is never called exact.
#[test]
fn it_can_be_ended() {
    let hidden = evidence(masked(&cat().0, &mut rng(2), 0.5, 0.5));
    let mut heard = Vec::new();
    let ended = unmask_attack::completion(&hidden, &mut |at| {
        heard.push((at.iteration, at.objective));
        assert!(at.pictures.is_empty() && at.iteration <= at.iterations);
        if at.iteration == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let error = ended.unwrap_err();
    assert!(matches!(error, AttackError::Ended { seconds } if seconds > 0.0), "{error}");
    assert!(error.to_string().contains("more time"), "{error}");
    let (first, last) = (heard[0], heard[heard.len() - 1]);
    assert!((first.0, last.0) == (0, 2) && last.1 < first.1, "{heard:?}");
    assert!(completion(&hidden).is_ok(), "the next one goes to its end");
}

/// A completion that was ended near the picture reports its own steps, not those of the least squares that would
/// follow.
#[test]
fn what_is_stopped_counts_its_own_steps() {
    let hidden = evidence(masked(&cat().0, &mut rng(2), 0.5, 0.5));
    let mut observation = Observation::new(Ok(hidden.clone()));
    observation.rounds = Ok(Arc::new(AccumulatedRounds::of(&hidden).unwrap()));
    let mut stopped = 0;
    // Too early nothing is found, and too late it has settled.
    for objective in [1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5] {
        let mut last = (0, 0);
        let found = run(AttackMethod::Rounds, &observation, &NoSearches, SearchOptions::default(), &mut |at| {
            last = (at.iteration, at.iterations);
            if at.objective < objective { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Ok(found) = found else { continue };
        if let Some(note) = found.notes.iter().find(|note| note.starts_with("Stopped after")) {
            let (done, of) = last;
            assert_eq!(*note, format!("Stopped after {done} of {of} steps."));
            assert!(of > 100 && found.iterations == Some(done), "{note}");
            stopped += 1;
        }
    }
    assert!(stopped > 0, "no completion was ended near the picture");
}

/// Each tensor may have its own rate, even 0, and the bias may be missing.
#[test]
fn every_tensor_has_its_own_rate() {
    let (gradients, image) = cat();
    // At 0.75 a few colour values of a patch lack gradients and are filled from neighbours.
    for (position, patch, least) in [(0.0, 0.7, 85.0), (0.0, 0.75, 70.0), (0.6, 0.0, 85.0), (0.3, 0.6, 85.0)] {
        let hidden = evidence(masked(&gradients, &mut rng(5), position, patch));
        let psnr = similarity(&completion(&hidden).unwrap().image, &image, 32).0;
        assert!(psnr > least, "pos {position}, patch {patch}: {psnr} dB");
    }
    let mut unbiased = Tensors::new(TensorSource::Gradients, &nano(), Rounding::F32);
    for name in &READS[..2] {
        unbiased.insert(name, &shape(&nano(), name), gradients.values(name).unwrap().to_vec()).unwrap();
    }
    let hidden = evidence(masked(&unbiased, &mut rng(6), 0.4, 0.4));
    let psnr = similarity(&completion(&hidden).unwrap().image, &image, 32).0;
    assert!(psnr > 90.0, "{psnr} dB");
}

/// The cat's gradients at other weights: G_pos moves towards another by `distance` times its own size.
fn moved_cat(distance: f64, seed: u64) -> Tensors {
    let (gradients, image) = cat();
    let config = nano();
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let mut position = gradients.values("pos_embed").unwrap().to_vec();
    let size = (position[d..].iter().map(|value| value * value).sum::<f64>() / (s * d) as f64).sqrt();
    let other = uniform(&mut rng(seed), position.len(), 3f64.sqrt() * size);
    position.iter_mut().zip(other).for_each(|(value, other)| *value += distance * other);
    let transposed = common::transpose(&position[d..], s, d);
    let patch = common::product(&transposed, &common::patches(&image, &config), d, s, l);
    let bias = transposed.chunks_exact(s).map(|row| row.iter().sum()).collect();
    let mut moved = Tensors::new(TensorSource::Gradients, &config, Rounding::F64);
    for (name, values) in READS.into_iter().zip([position, patch, bias]) {
        moved.insert(name, &shape(&config, name), values).unwrap();
    }
    moved
}

fn of_rounds(rounds: &[Evidence]) -> Result<Reconstruction, AttackError> {
    let gathered = AccumulatedRounds::gather(rounds).unwrap();
    let rounding = rounds[0].gradients.rounding();
    completion_of_rounds(&gathered, rounding, &mut |_| ControlFlow::Continue(()))
}

/// At the same weights, an entry is known if any round kept it.
#[test]
fn rounds_at_the_same_weights_are_one_update_with_fewer_holes() {
    let (gradients, image) = cat();
    let mut rng = rng(7);
    let rounds: Vec<Evidence> = (0..7).map(|_| evidence(masked(&gradients, &mut rng, 0.9, 0.9))).collect();
    assert!(matches!(completion(&rounds[0]), Err(AttackError::TooMuchHidden { .. })));
    assert!(matches!(of_rounds(&rounds[..2]), Err(AttackError::TooMuchHidden { .. })));
    let psnr = similarity(&of_rounds(&rounds).unwrap().image, &image, 32).0;
    assert!(psnr > 85.0, "0.9 to the 7th is 0.48: {psnr} dB");
}

/// At other weights G_pos differs, and the picture is common to all rounds, even if they share one mask.
#[test]
fn rounds_at_other_weights_are_further_equations() {
    let (_, image) = cat();
    for is_frozen in [true, false] {
        let mut masks = rng(9);
        let rounds: Vec<Evidence> = (0..4)
            .map(|round| {
                let moved = moved_cat(0.3 * round as f64, round);
                let seed = &mut if is_frozen { rng(9) } else { masks.clone() };
                let hidden = masked(&moved, seed, 0.7, 0.7);
                masks = seed.clone();
                evidence(hidden)
            })
            .collect();
        let psnr = |found: &Reconstruction| similarity(&found.image, &image, 32).0;
        let alone = completion(&rounds[0]);
        assert!(!alone.as_ref().is_ok_and(|found| psnr(found) > 60.0), "{alone:?}");
        let found = of_rounds(&rounds).unwrap();
        let psnr = psnr(&found);
        assert!(psnr > 85.0 && found.ending == Ending::Settled, "frozen {is_frozen}: {psnr} dB, {found:?}");
    }
}

/// Rank S means one picture. Two pictures, or none, must not give a result.
#[test]
fn another_rank_is_refused() {
    let (gradients, _) = cat();
    let config = nano();
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let mut rng = rng(8);
    // Add another picture's generated gradients to the cat's.
    let position = uniform(&mut rng, (s + 1) * d, 1e-3);
    let picture = uniform(&mut rng, s * l, 1.0);
    let patch = common::product(&common::transpose(&position[d..], s, d), &picture, d, s, l);
    let mut two = Tensors::new(TensorSource::Gradients, &config, Rounding::F64);
    for (name, other) in [("pos_embed", &position), ("patch_embed.proj.weight", &patch)] {
        let values = gradients.values(name).unwrap().iter().zip(other).map(|(a, b)| a + b).collect();
        two.insert(name, &shape(&config, name), values).unwrap();
    }
    let mut noise = Tensors::new(TensorSource::Gradients, &config, Rounding::F64);
    for name in READS {
        let shape = shape(&config, name);
        noise.insert(name, &shape, uniform(&mut rng, shape.iter().product(), 1.0)).unwrap();
    }
    for gradients in [two, noise] {
        let error = completion(&evidence(masked(&gradients, &mut rng, 0.3, 0.3))).unwrap_err();
        assert!(matches!(error, AttackError::NotCompleted { rank: 16, held_out } if held_out > 0.01), "{error}");
    }
}

#[test]
fn what_counting_forbids_is_refused_at_once() {
    let lab = VitConfig::from(VitPreset::Lab);
    let image = common::sample("cat", &lab);
    let hidden = evidence(masked(&own_gradients(&lab, &image), &mut rng(1), 0.5, 0.5));
    let error = completion(&hidden).unwrap_err().to_string();
    // Half of 113 x 192 entries for 64 (48 + 1 + 192) unknowns.
    assert_eq!(error, "completion cannot work: it needs fewer hidden entries: kept / unknowns is 0.70");

    let (gradients, _) = cat();
    let hidden = evidence(masked(&gradients, &mut rng(1), 0.8, 0.8));
    let error = completion(&hidden).unwrap_err().to_string();
    assert!(error.contains("fewer hidden entries: kept / unknowns is 0.8"), "{error}");
    let hidden = evidence(masked(&gradients, &mut rng(1), 0.95, 0.1));
    let error = completion(&hidden).unwrap_err().to_string();
    assert!(error.contains("it needs 16 of") && error.contains("of the 96 gradients of patch"), "{error}");

    let pico = VitConfig::from(VitPreset::Pico);
    let small = VitConfig { dim: 16, ..pico };
    let mut flat = Tensors::new(TensorSource::Gradients, &small, Rounding::F32);
    for name in READS {
        let shape = shape(&small, name);
        flat.insert(name, &shape, vec![1.0; shape.iter().product()]).unwrap();
    }
    let error = completion(&evidence(flat)).unwrap_err();
    assert_eq!(error, AttackError::TooFewDimensions { method: AttackMethod::Completion, dim: 16, unknowns: 17 });
}

#[test]
fn needs_are_those_of_the_aware_attacker() {
    let needs = |method| Needs::of(method, &nano()).unwrap();
    assert_eq!(needs(AttackMethod::Completion), needs(AttackMethod::EmbeddingAware));
}
