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
use unmask_attack::{Needs, Observation, SearchOptions, WholeUpdate};
use unmask_core::{Architecture, AttackMethod, MaskSeed, ModelState};
use unmask_data::metrics;
use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
use unmask_matching::GradientMatching;
use unmask_model::{Network, block_on};
use unmask_simulation::ConfigError;

use super::{
    AttackResult, findings, pictures,
    targets::{Target, targets},
    title,
};
use crate::{
    catalogue::Scale,
    cost::{self, Cost},
    defences::{ComparedDefence, MASKS_AND_NOISE, NONE},
    error::ExperimentError,
    report::Findings,
    run::{ExperimentEvent, ExperimentRun},
    store,
};

const PANEL: &str = "inverting-gradients";

/// The attackers and defences, as formulas name them.
pub(crate) fn cases() -> Vec<String> {
    findings::cases([(PANEL, MASKS_AND_NOISE.to_vec())])
}

/// The model, and how long each search is.
fn size(scale: Scale) -> (&'static str, usize) {
    match scale {
        Scale::Tiny => ("resnet_nano", 3),
        Scale::Small => ("resnet_nano", 300),
        Scale::Paper => ("resnet34", 4800),
    }
}

/// A defence and who attacks it, the naive attacker first.
fn attacks() -> Vec<(ComparedDefence, AttackMethod)> {
    let naive = MASKS_AND_NOISE.map(|defence| (defence, AttackMethod::Gradients));
    let masks = MASKS_AND_NOISE.into_iter().filter(ComparedDefence::is_mask);
    naive.into_iter().chain(masks.map(|defence| (defence, AttackMethod::GradientsAware))).collect()
}

/// What the attacks at the papers' scale take.
pub(crate) fn cost(run: &ExperimentRun<'_, '_>) -> Result<Cost, ExperimentError> {
    let (model, steps) = size(Scale::Paper);
    cost::of_searches(run, model, attacks().len() * pictures(Scale::Paper), steps)
}

/// Attacks the pictures under each defence.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
    let (model, iterations) = size(run.request.scale);
    // Named, so that cases kept by a search that returned its last picture are computed again.
    let settings = (model, iterations, pictures(run.request.scale), "least misfit");
    let seed = run.request.seed;
    let file = |defence: &ComparedDefence, method: AttackMethod| {
        run.file(&format!("{}-{:?}", defence.key, method.knowledge()), seed)
    };
    run.plan(attacks().iter().map(|(defence, method)| store::file(&file(defence, *method))))?;
    // Whether the others are worth their time, the first tells: each part with one of them computes it for itself.
    let has_others = (1..attacks().len()).any(|position| run.takes(position));
    let mut cases = Vec::new();
    for (position, (defence, method)) in attacks().into_iter().enumerate() {
        if run.takes(position) || (position == 0 && has_others) {
            let file = file(&defence, method);
            cases.push((defence, method, run.store.get::<Vec<AttackResult>>(&file, &settings)?, file));
        }
    }
    let left = cases.iter().filter(|(_, _, kept, _)| kept.is_none()).count();
    run.notify(ExperimentEvent::Started { cases: cases.len(), left })?;
    let mut attacked = None;
    let mut all: Vec<AttackResult> = Vec::new();
    for (defence, method, kept, file) in cases {
        if let Some(results) = kept {
            all.extend(results);
            continue;
        }
        run.check_due(&file)?;
        let name = format!("{}, an attacker who {}", defence.label, title(method.knowledge()));
        run.notify(ExperimentEvent::CaseStarted { name: &name })?;
        let is_first = defence.key == NONE.key;
        let results = if !is_first && is_idle(run, &all) {
            Vec::new()
        } else {
            let attacked = match &attacked {
                Some(attacked) => attacked,
                None => &*attacked.insert(AttackedModel::new(run, model)?),
            };
            attack_all(run, &SearchSetup { attacked, defence, method, iterations, seed })?
        };
        run.store.put(&file, &settings, &results)?;
        all.extend(results);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    if run.is_part() {
        return Ok(None);
    }
    let is_tried = |defence: &&ComparedDefence| all.iter().any(|result| result.case == defence.key);
    let method = findings::MethodResults {
        key: PANEL,
        title: "Inverting Gradients",
        model,
        defences: MASKS_AND_NOISE.iter().filter(is_tried).copied().collect(),
        results: all,
        unsolved: Vec::new(),
    };
    let cost = if run.request.scale == Scale::Tiny { None } else { Some(cost(run)?.to_string()) };
    findings::of_resnet(run, method, iterations, cost).map(Some)
}

/// Whether the attack failed with no defence in its way, so that hours of attacks on defences would tell nothing. The tiny
/// scale is for trying everything out.
fn is_idle(run: &ExperimentRun<'_, '_>, results: &[AttackResult]) -> bool {
    let undefended = results.iter().filter(|result| result.case == NONE.key);
    let ssim: Vec<f64> = undefended.map(|result| result.ssim).collect();
    run.request.scale != Scale::Tiny && !findings::attack_works(&ssim)
}

struct AttackedModel {
    network: Network,
    state: ModelState,
    targets: Vec<Target>,
    searches: GradientMatching,
}

impl AttackedModel {
    fn new(run: &ExperimentRun<'_, '_>, model: &str) -> Result<Self, ExperimentError> {
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
        let step = block_on(self.network.evaluation_gradient(&self.state, &target.chw, &[target.label]))?;
        let layout = self.network.layout();
        let plain = PlainUpdate { values: step.gradient, reference: None };
        let sent = defence.parsed()?.protect(layout, plain, KeyMaterial { seed, cipher: None })?;
        let (architecture, state) = (self.network.architecture(), self.state.clone());
        let gradient = sent.expand(layout)?;
        let evidence = Needs::of_labels(architecture).read_flat(architecture, &state.weights, &gradient, None);
        let kept = sent.mask(layout).map(|mask| mask.entries().collect());
        let mut observation = Observation::new(evidence);
        observation.labels = Some(vec![target.label]);
        observation.whole = Some(Arc::new(WholeUpdate { architecture, state, gradient, kept, is_training: false }));
        Ok(observation)
    }
}

struct SearchSetup<'a> {
    attacked: &'a AttackedModel,
    defence: ComparedDefence,
    method: AttackMethod,
    iterations: usize,
    seed: u64,
}

/// All pictures, side by side on all threads.
fn attack_all(run: &mut ExperimentRun<'_, '_>, setup: &SearchSetup<'_>) -> Result<Vec<AttackResult>, ExperimentError> {
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
            if run.notify(ExperimentEvent::Progress { share: done as f64 / steps, note: "" }).is_err() {
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    if is_stopped.into_inner() { Err(ExperimentError::Stopped) } else { Ok(found) }
}

/// Searches for one picture, from noise, with its label known.
fn attack(
    setup: &SearchSetup<'_>,
    place: usize,
    target: &Target,
    steps: &Sender<()>,
    is_stopped: &AtomicBool,
) -> Result<AttackResult, ExperimentError> {
    let &SearchSetup { attacked, defence, method, iterations, seed } = setup;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(place as u64);
    let mut mask_seed = [0; 32];
    rng.fill(&mut mask_seed);
    let observation = attacked.observe(target, defence, MaskSeed(mask_seed))?;
    let options = SearchOptions { iterations: Some(iterations), seed: rng.random(), ..SearchOptions::default() };
    let found = unmask_attack::run(method, &observation, &attacked.searches, options, &mut |_| {
        // Nobody listens only if the run has failed elsewhere, which is told there.
        let _ = steps.send(());
        if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let found = found
        .map_err(|error| ExperimentError::Attack { what: method.title().to_owned(), reason: error.to_string() })?;
    let (image, side) = (found.pictures.concat(), attacked.network.architecture().side());
    Ok(AttackResult {
        attack: method,
        case: defence.key.to_owned(),
        picture: target.name.clone(),
        ssim: metrics::ssim(&image, &target.hwc, side, side)?,
        psnr: metrics::psnr(&image, &target.hwc, side, side)?,
        seconds: found.seconds,
    })
}
