//! Inverting Gradients (Geiping et al., NeurIPS 2020) against a ResNet.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use unmask_attack::{CannotAttack, Observation, SearchOptions, WholeUpdate};
use unmask_core::{Architecture, AttackMethod, Defence, MaskSeed, ModelState};
use unmask_data::metrics;
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_matching::GradientMatching;
use unmask_model::{Network, block_on};
use unmask_simulation::ConfigError;

use super::{
    AttackResult, Attacker, findings, pictures,
    targets::{Target, targets},
};
use crate::{
    catalogue::Scale,
    cost::{self, Cost},
    defences::{ComparedDefence, MASKS_AND_NOISE, NONE},
    error::ExperimentError,
    report::Findings,
    run::{Event, Run},
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
fn attacks() -> Vec<(ComparedDefence, Attacker)> {
    let naive = MASKS_AND_NOISE.map(|defence| (defence, Attacker::Naive));
    let aware =
        MASKS_AND_NOISE.into_iter().filter(|defence| defence.is_mask()).map(|defence| (defence, Attacker::Aware));
    naive.into_iter().chain(aware).collect()
}

/// What the attacks at the papers' scale take.
pub(crate) fn cost(run: &Run<'_, '_>) -> Result<Cost, ExperimentError> {
    let (model, steps) = size(Scale::Paper);
    cost::of_searches(run, model, attacks().len() * pictures(Scale::Paper), steps)
}

/// Attacks the pictures under each defence; `None` if it was ended before.
pub(crate) fn run(run: &mut Run<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
    let (model, iterations) = size(run.request.scale);
    // Named, so that parts kept by a search that returned its last picture are computed again.
    let settings = (model, iterations, pictures(run.request.scale), "least misfit");
    let seed = run.request.seed;
    let mut parts = Vec::new();
    for (defence, attacker) in attacks() {
        let part = run.part(&format!("{}-{attacker:?}", defence.key), seed);
        parts.push((defence, attacker, run.store.get::<Vec<AttackResult>>(&part, &settings)?, part));
    }
    let left = parts.iter().filter(|(_, _, kept, _)| kept.is_none()).count();
    if run.notify(Event::Started { parts: parts.len(), left }).is_break() {
        return Ok(None);
    }
    let attacked = AttackedModel::new(run, model)?;
    let mut all: Vec<AttackResult> = Vec::new();
    for (defence, attacker, kept, part) in parts {
        if defence.is_mask() && is_idle(run, &all) {
            break;
        }
        if let Some(results) = kept {
            all.extend(results);
            continue;
        }
        let name = format!("{}, an attacker who {}", defence.label, attacker.title());
        if run.notify(Event::PartStarted { name: &name }).is_break() {
            return Ok(None);
        }
        let setup = SearchSetup { attacked: &attacked, defence, attacker, iterations, seed };
        let Some(results) = attack_all(run, &setup)? else { return Ok(None) };
        run.store.put(&part, &settings, &results)?;
        all.extend(results);
        if run.notify(Event::PartFinished).is_break() {
            return Ok(None);
        }
    }
    let is_tried = |defence: &&ComparedDefence| all.iter().any(|result| result.case == defence.key);
    let method = findings::MethodResults {
        key: "inverting-gradients",
        title: "Inverting Gradients",
        model,
        defences: MASKS_AND_NOISE.iter().filter(is_tried).copied().collect(),
        results: all,
        cannot: Vec::new(),
    };
    let cost = if run.request.scale == Scale::Tiny { None } else { Some(cost(run)?.to_string()) };
    findings::of_resnet(run, method, iterations, cost).map(Some)
}

/// Whether the attack failed with no defence in its way, so that hours of attacks on defences would tell nothing. The tiny
/// scale is for trying everything out.
fn is_idle(run: &Run<'_, '_>, results: &[AttackResult]) -> bool {
    let undefended = results.iter().filter(|result| result.case == NONE.key);
    let ssim: Vec<f64> = undefended.map(|result| result.ssim).collect();
    run.request.scale != Scale::Tiny && !findings::attack_works(&ssim)
}

/// The model at its initial weights, and the pictures.
struct AttackedModel {
    network: Network,
    state: ModelState,
    targets: Vec<Target>,
    searches: GradientMatching,
}

impl AttackedModel {
    fn new(run: &Run<'_, '_>, model: &str) -> Result<Self, ExperimentError> {
        let architecture = Architecture::named(model, 10).map_err(ConfigError::from)?;
        Ok(Self {
            network: Network::new(architecture, run.request.device.device())?,
            state: architecture.initial(run.request.seed),
            targets: targets(run, architecture.side())?,
            searches: GradientMatching::new(run.request.device.clone()),
        })
    }

    /// What the relay holds of a client with one picture.
    fn observe(
        &self,
        target: &Target,
        defence: ComparedDefence,
        seed: MaskSeed,
    ) -> Result<Observation, ExperimentError> {
        let refused = |reason: String| ExperimentError::Attack { what: defence.defence.to_owned(), reason };
        let defence: Defence =
            defence.defence.parse().map_err(|error: unmask_core::ParseDefenceError| refused(error.to_string()))?;
        let step = block_on(self.network.evaluation_gradient(&self.state, &target.chw, &[target.label]))?;
        let layout = self.network.layout();
        let plain = PlainUpdate { values: step.gradient, reference: None };
        let sent: ProtectedUpdate = defence
            .protect(layout, plain, KeyMaterial { seed, cipher: None })
            .map_err(|error| refused(error.to_string()))?;
        let architecture = self.network.architecture();
        let mut observation = Observation::new(Err(CannotAttack::NotVit { architecture }));
        observation.labels = Some(vec![target.label]);
        observation.whole = Some(Arc::new(WholeUpdate {
            architecture,
            state: self.state.clone(),
            gradient: sent.expand(layout).map_err(|error| refused(error.to_string()))?,
            kept: sent.mask(layout).map(|mask| mask.entries().collect()),
        }));
        Ok(observation)
    }
}

/// One attacker against one defence.
struct SearchSetup<'a> {
    attacked: &'a AttackedModel,
    defence: ComparedDefence,
    attacker: Attacker,
    iterations: usize,
    seed: u64,
}

/// All pictures, side by side on all threads; `None` if it was ended before.
fn attack_all(run: &mut Run<'_, '_>, setup: &SearchSetup<'_>) -> Result<Option<Vec<AttackResult>>, ExperimentError> {
    let targets = &setup.attacked.targets;
    let steps = (targets.len() * setup.iterations) as f64;
    let is_stopped = AtomicBool::new(false);
    let (send, receive) = channel::<()>();
    let found = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let send = send;
            let attack = |(place, target)| attack(setup, place, target, &send, &is_stopped);
            targets.par_iter().enumerate().map(attack).collect::<Result<Vec<_>, _>>()
        });
        for done in 1.. {
            if receive.recv().is_err() {
                break;
            }
            if run.notify(Event::Progress { share: done as f64 / steps, note: "" }).is_break() {
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok((!is_stopped.into_inner()).then_some(found))
}

/// Searches for one picture, from noise, with its label known.
fn attack(
    setup: &SearchSetup<'_>,
    place: usize,
    target: &Target,
    steps: &Sender<()>,
    is_stopped: &AtomicBool,
) -> Result<AttackResult, ExperimentError> {
    let SearchSetup { attacked, defence, attacker, iterations, seed } = setup;
    let mut rng = ChaCha8Rng::seed_from_u64(*seed);
    rng.set_stream(place as u64);
    let mut mask_seed = [0; 32];
    rng.fill(&mut mask_seed);
    let method = match attacker {
        Attacker::Naive => AttackMethod::Gradients,
        Attacker::Aware => AttackMethod::GradientsAware,
    };
    let observation = attacked.observe(target, *defence, MaskSeed(mask_seed))?;
    let options = SearchOptions { iterations: Some(*iterations), seed: rng.random(), ..SearchOptions::default() };
    let found = unmask_attack::run(method, &observation, &attacked.searches, options, &mut |_| {
        // Nobody listens only if the run has failed elsewhere, which is told there.
        let _ = steps.send(());
        if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let found = found
        .map_err(|error| ExperimentError::Attack { what: method.title().to_owned(), reason: error.to_string() })?;
    let (image, side) = (found.pictures.concat(), attacked.network.architecture().side());
    Ok(AttackResult {
        attack: method.name().to_owned(),
        attacker: *attacker,
        case: defence.key.to_owned(),
        picture: target.name.clone(),
        ssim: metrics::ssim(&image, &target.hwc, side, side)?,
        psnr: metrics::psnr(&image, &target.hwc, side, side)?,
        seconds: found.seconds,
    })
}
