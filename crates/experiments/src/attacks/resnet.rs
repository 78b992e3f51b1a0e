//! Inverting Gradients (Geiping et al., NeurIPS 2020) against a ResNet.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
    time::Instant,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use unmask_core::{Architecture, Defence, MaskSeed, ModelState};
use unmask_data::metrics;
use unmask_defence::{Means, PlainUpdate, Protect, ProtectedUpdate};
use unmask_matching::{Matching, NetworkOracle, Objective, Problem, ReceivedGradient, SearchVerdict, Settings};
use unmask_model::{Network, OracleOptions, block_on};
use unmask_simulation::ConfigError;

use super::{
    Attacker, SHIELDS, Seen, Shield, findings, pictures,
    targets::{Target, targets},
};
use crate::{
    bench::{Bench, Event, Findings},
    catalogue::Scale,
    cost::{self, Cost},
    error::PapersError,
};

/// The model, and how long each search is.
fn size(scale: Scale) -> (&'static str, usize) {
    match scale {
        Scale::Tiny => ("resnet_nano", 3),
        Scale::Small => ("resnet_nano", 300),
        Scale::Paper => ("resnet34", 4800),
    }
}

/// A defence and who attacks it.
fn duels() -> Vec<(Shield, Attacker)> {
    let naive = SHIELDS.map(|shield| (shield, Attacker::Naive));
    let aware = SHIELDS.into_iter().filter(|shield| shield.is_mask).map(|shield| (shield, Attacker::Aware));
    naive.into_iter().chain(aware).collect()
}

/// What the attacks at the papers' scale take.
pub(crate) fn cost(bench: &Bench<'_, '_>) -> Result<Cost, PapersError> {
    let (model, steps) = size(Scale::Paper);
    cost::of_searches(bench, model, duels().len() * pictures(Scale::Paper), steps)
}

/// Attacks the pictures under each defence; `None` if it was ended before.
pub(crate) fn run(bench: &mut Bench<'_, '_>) -> Result<Option<Findings>, PapersError> {
    let (model, iterations) = size(bench.request.scale);
    let settings = (model, iterations, pictures(bench.request.scale));
    let seed = bench.request.seed;
    let mut parts = Vec::new();
    for (shield, attacker) in duels() {
        let part = bench.part(&format!("{}-{attacker:?}", shield.key), seed);
        parts.push((shield, attacker, bench.kept.get::<Vec<Seen>>(&part, &settings)?, part));
    }
    let left = parts.iter().filter(|(_, _, seen, _)| seen.is_none()).count();
    if bench.is_stopped(Event::Begins { parts: parts.len(), left }) {
        return Ok(None);
    }
    let victim = Victim::new(bench, model)?;
    let mut all: Vec<Seen> = Vec::new();
    for (shield, attacker, kept, part) in parts {
        if shield.is_mask && is_idle(bench, &all) {
            break;
        }
        if let Some(seen) = kept {
            all.extend(seen);
            continue;
        }
        let name = format!("{}, an attacker who {}", shield.name, attacker.title());
        if bench.is_stopped(Event::Part { name: &name }) {
            return Ok(None);
        }
        let duel = Duel { victim: &victim, shield, attacker, iterations, seed };
        let Some(seen) = attack_all(bench, &duel)? else { return Ok(None) };
        bench.kept.put(&part, &settings, &seen)?;
        all.extend(seen);
        if bench.is_stopped(Event::Ends) {
            return Ok(None);
        }
    }
    let is_tried = |shield: &&Shield| all.iter().any(|seen| seen.case == shield.key);
    let panel = findings::Panel {
        key: "inverting-gradients",
        title: "Inverting Gradients",
        model,
        shields: SHIELDS.iter().filter(is_tried).copied().collect(),
        seen: all,
        cannot: Vec::new(),
    };
    let cost = if bench.request.scale == Scale::Tiny { None } else { Some(cost(bench)?.to_string()) };
    findings::of_resnet(bench, panel, iterations, cost).map(Some)
}

/// Whether the attack failed with no defence in its way, so that hours of attacks on defences would tell nothing. The tiny
/// scale is for trying everything out.
fn is_idle(bench: &Bench<'_, '_>, seen: &[Seen]) -> bool {
    let ssim: Vec<f64> = seen.iter().filter(|seen| seen.case == findings::NONE).map(|seen| seen.ssim).collect();
    bench.request.scale != Scale::Tiny && !findings::is_seen(&ssim)
}

/// The model at its initial weights, and the pictures.
struct Victim {
    network: Network,
    state: ModelState,
    targets: Vec<Target>,
}

impl Victim {
    fn new(bench: &Bench<'_, '_>, model: &str) -> Result<Self, PapersError> {
        let architecture = Architecture::named(model, 10).map_err(ConfigError::from)?;
        Ok(Self {
            network: Network::new(architecture, bench.request.device.device())?,
            state: architecture.initial(bench.request.seed),
            targets: targets(bench, architecture.side())?,
        })
    }

    /// What leaves the client with one picture, and which of its entries.
    fn update(&self, target: &Target, shield: Shield, seed: MaskSeed) -> Result<(Vec<f32>, Vec<bool>), PapersError> {
        let refused = |reason: String| PapersError::Attack { what: shield.defence.to_owned(), reason };
        let defence: Defence =
            shield.defence.parse().map_err(|error: unmask_core::ParseDefenceError| refused(error.to_string()))?;
        let step = block_on(self.network.evaluation_gradient(&self.state, &target.chw, &[target.label]))?;
        let layout = self.network.layout();
        let plain = PlainUpdate { values: step.gradient, reference: None };
        let sent: ProtectedUpdate =
            defence.protect(layout, plain, Means { seed, cipher: None }).map_err(|error| refused(error.to_string()))?;
        let values = sent.expand(layout).map_err(|error| refused(error.to_string()))?;
        let kept = sent.mask(layout).map_or_else(|| vec![true; values.len()], |mask| mask.entries().collect());
        Ok((values, kept))
    }
}

/// One attacker against one defence.
struct Duel<'a> {
    victim: &'a Victim,
    shield: Shield,
    attacker: Attacker,
    iterations: usize,
    seed: u64,
}

/// All pictures, side by side on all threads; `None` if it was ended before.
fn attack_all(bench: &mut Bench<'_, '_>, duel: &Duel<'_>) -> Result<Option<Vec<Seen>>, PapersError> {
    let targets = &duel.victim.targets;
    let steps = (targets.len() * duel.iterations) as f64;
    let is_stopped = AtomicBool::new(false);
    let (send, receive) = channel::<()>();
    let found = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let send = send;
            let attack = |(place, target)| attack(duel, place, target, &send, &is_stopped);
            targets.par_iter().enumerate().map(attack).collect::<Result<Vec<_>, _>>()
        });
        for done in 1.. {
            if receive.recv().is_err() {
                break;
            }
            if bench.is_stopped(Event::Step { share: done as f64 / steps, note: "" }) {
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok((!is_stopped.into_inner()).then_some(found))
}

/// Searches for one picture, from noise.
fn attack(
    duel: &Duel<'_>,
    place: usize,
    target: &Target,
    steps: &Sender<()>,
    is_stopped: &AtomicBool,
) -> Result<Seen, PapersError> {
    let Duel { victim, shield, attacker, iterations, seed } = duel;
    let clock = Instant::now();
    let mut rng = ChaCha8Rng::seed_from_u64(*seed);
    rng.set_stream(place as u64);
    let mut mask_seed = [0; 32];
    rng.fill(&mut mask_seed);
    let (values, kept) = victim.update(target, *shield, MaskSeed(mask_seed))?;
    let evidence = match attacker {
        Attacker::Naive => ReceivedGradient::naive(&values)?,
        Attacker::Aware => ReceivedGradient::aware(&values, &kept)?,
    };
    let oracle = NetworkOracle::new(&victim.network, &victim.state, &[target.label], OracleOptions::default())?;
    let problem = Problem::new(oracle, Objective::Cosine, evidence)?;
    let start: Vec<f32> = target.hwc.iter().map(|_| rng.random_range(0.0..1.0)).collect();
    let settings = Settings { iterations: *iterations, ..Settings::default() };
    let mut matching = Matching::new(problem, &start, settings)?;
    while matching.step_blocking()?.verdict == SearchVerdict::Running && !is_stopped.load(Ordering::Relaxed) {
        // Nobody listens only if the run has failed elsewhere, which is told there.
        let _ = steps.send(());
    }
    let (image, side) = (matching.image(), victim.network.architecture().side());
    Ok(Seen {
        attack: match attacker {
            Attacker::Naive => "inverting-gradients".to_owned(),
            Attacker::Aware => "inverting-gradients-aware".to_owned(),
        },
        attacker: *attacker,
        case: shield.key.to_owned(),
        picture: target.name.clone(),
        ssim: metrics::ssim(&image, &target.hwc, side, side)?,
        psnr: metrics::psnr(&image, &target.hwc, side, side)?,
        seconds: clock.elapsed().as_secs_f64(),
    })
}
