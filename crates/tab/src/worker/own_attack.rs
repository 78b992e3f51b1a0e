//! The attack on this tab's own update. It shows what the relay could see of exactly what was sent, where nobody else
//! sees it.

use std::{ops::ControlFlow, time::Duration};

use unmask_attack::{
    AttackError, AttackProgress, Concealment, Ending, Needs, NoSearches, Observation, Received, SearchOptions,
    UpdateScale, run,
};
use unmask_client::{Client, ReconstructionScore, RoundPlan};
use unmask_core::{Architecture, AttackMethod};
use unmask_defence::{ProtectedUpdate, UpdateError};
use web_time::Instant;

use super::views;
use crate::protocol::{Comparison, OwnAttack, OwnBatch, Reconstruction};

/// The minimum time between two attacks.
const EVERY: Duration = Duration::from_secs(4);
/// The largest number of unknowns of one picture in a batch, (B - 1) S²: two pictures of 16 patches. Their refinement
/// cannot be stopped, and of three pictures it takes eight times as long.
const MOST_UNKNOWNS: usize = 256;
/// After an attack on a batch, the next one waits this many times as long as it took, since rounds wait for it.
const BATCH_PAUSE: u32 = 20;
/// The largest model, in parameters, whose updates are attacked here: a phone needs a second copy of the update.
const MAX_PARAMETERS: usize = 4_000_000;

#[derive(Debug, Clone, Copy)]
struct Budgets {
    /// After this time no further attack begins, so that a new plan need not wait.
    attacks: Duration,
    /// After this time the search for the tokens of a batch ends.
    batch: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { attacks: Duration::from_secs(2), batch: Duration::from_secs(3) }
    }
}

/// Decides when this tab attacks which of its own updates.
#[derive(Default)]
pub struct OwnAttacks {
    budgets: Budgets,
    /// The last update sent, until it is attacked.
    waiting: Option<Waiting>,
    last: Option<Instant>,
    /// A model whose attacks took twice the budget. A running attack cannot be stopped, so its updates are no longer
    /// attacked.
    too_slow: Option<Architecture>,
    /// No batch of this policy is attacked before this.
    next_batch: Option<(u32, Instant)>,
}

struct Waiting {
    round: u32,
    samples: u32,
    update: ProtectedUpdate,
}

impl OwnAttacks {
    /// Takes a sent update, unless the last attack was a moment ago.
    pub fn offer(&mut self, plan: &RoundPlan, samples: u32, update: ProtectedUpdate) {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < EVERY);
        let is_large = plan.layout.len() > MAX_PARAMETERS || self.too_slow == Some(plan.architecture);
        self.waiting = (!is_soon && !is_large).then_some(Waiting { round: plan.round, samples, update });
    }

    pub fn is_due(&self) -> bool {
        self.waiting.is_some()
    }

    /// Attacks the waiting update; `None` if it does not answer `plan`.
    pub fn run(&mut self, plan: &RoundPlan, client: &Client) -> Option<OwnAttack> {
        let Waiting { round, samples, update } = self.waiting.take()?;
        if round != plan.round {
            return None;
        }
        let begun = Instant::now();
        let waits = self.next_batch.is_some_and(|(policy, next)| policy == plan.policy && begun < next);
        let (own, of_batch) = attack(plan, &update, samples, client, self.budgets, waits);
        let now = Instant::now();
        self.last = Some(now);
        if own.batch.is_some() {
            self.next_batch = Some((plan.policy, now + BATCH_PAUSE * of_batch));
        }
        if begun.elapsed() > 2 * self.budgets.attacks + of_batch {
            self.too_slow = Some(plan.architecture);
        }
        Some(own)
    }
}

/// Runs the closed-form attacks on an update while time remains, then that on batches unless it `waits`. Returns also how
/// long the latter took.
fn attack(
    plan: &RoundPlan,
    update: &ProtectedUpdate,
    samples: u32,
    client: &Client,
    budgets: Budgets,
    waits: bool,
) -> (OwnAttack, Duration) {
    let begun = Instant::now();
    let side = plan.architecture.side();
    let mut reconstructions = Vec::new();
    let (mut remark, mut batch, mut batch_waits) = (None, None, false);
    match observe(plan, update, samples) {
        Err(error) => remark = Some(error.to_string()),
        Ok((observation, concealment)) => {
            for method in concealment.closed_forms(plan.architecture) {
                if begun.elapsed() > budgets.attacks {
                    break;
                }
                let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
                match run(method, &observation, &NoSearches, SearchOptions::default(), go_on) {
                    Ok(found) => {
                        let Some(picture) = found.pictures.first() else { continue };
                        // An update from several pictures gives a mixture, which is not compared.
                        let comparison = client.compare(plan.round, method, side, picture).and_then(Result::ok);
                        reconstructions.push(shown(plan, method, picture, comparison));
                    }
                    Err(error) => {
                        remark.get_or_insert(error.to_string());
                    }
                }
            }
            let pictures = of_batch(plan, samples);
            if concealment.methods(plan.architecture, pictures).contains(&AttackMethod::Batch) {
                batch_waits = waits || begun.elapsed() > budgets.attacks;
                if !batch_waits {
                    batch = take_apart(plan, &observation, pictures, client, budgets.batch);
                }
            }
        }
    }
    let ssim = |found: &Reconstruction| found.comparison.as_ref().map_or(f32::NEG_INFINITY, |compared| compared.ssim);
    reconstructions.sort_by(|a, b| ssim(b).total_cmp(&ssim(a)));
    if !reconstructions.is_empty() {
        remark = None;
    } else if remark.is_none() {
        remark = Some("no attack in this tab can read an encrypted update; nobody can without the key".to_owned());
    }
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let took = batch.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
    let batch = batch.map(|(batch, _)| batch);
    let (round, defence) = (plan.round, plan.defence);
    (OwnAttack { round, defence, milliseconds, reconstructions, remark, batch, batch_waits }, took)
}

/// Number of pictures in an update that is taken apart here; 1 if it is none: of more than one step, or too large.
fn of_batch(plan: &RoundPlan, samples: u32) -> usize {
    let pictures = samples as usize;
    let is_one_step = pictures <= plan.batch && {
        let batch = u16::try_from(plan.batch).unwrap_or(u16::MAX);
        plan.rule.local_steps(samples, batch) == 1
    };
    let patches = plan.architecture.vit().map_or(usize::MAX, |config| config.patches());
    let unknowns = patches.saturating_pow(2).saturating_mul(pictures.saturating_sub(1));
    if is_one_step && unknowns <= MOST_UNKNOWNS { pictures } else { 1 }
}

/// Takes the own batch apart, and tells how long that took. `None` if counting rules the batch out. It cannot run the
/// whole model, so no picture is subtracted.
fn take_apart(
    plan: &RoundPlan,
    observation: &Observation,
    pictures: usize,
    client: &Client,
    budget: Duration,
) -> Option<(OwnBatch, Duration)> {
    let begun = Instant::now();
    let go_on = &mut |_: AttackProgress<'_>| match begun.elapsed() > budget {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let ended = || Some(format!("stopped after {} s, since rounds wait for this device", budget.as_secs()));
    let (found, certain, remark) =
        match run(AttackMethod::Batch, observation, &NoSearches, SearchOptions::default(), go_on) {
            Ok(found) => {
                let remark = if found.ending == Ending::Ended { ended() } else { None };
                (found.pictures, found.certain.unwrap_or_default(), remark)
            }
            Err(AttackError::BatchExcluded { .. }) => return None,
            Err(AttackError::Ended { .. }) => (Vec::new(), 0, ended()),
            Err(AttackError::BatchUnsolved { .. }) => {
                (Vec::new(), 0, Some("nothing that was found here fits the update".to_owned()))
            }
            Err(error) => (Vec::new(), 0, Some(error.to_string())),
        };
    let took = begun.elapsed();
    let scores = client.compare_batch(plan.round, plan.architecture.side(), &found);
    let found = found.iter().zip(scores).map(|(picture, score)| shown(plan, AttackMethod::Batch, picture, score));
    let [of, certain] = [pictures, certain].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let (round, seconds) = (plan.round, took.as_secs_f64());
    Some((OwnBatch { round, of, certain, found: found.collect(), seconds, remark }, took))
}

fn shown(
    plan: &RoundPlan,
    attack: AttackMethod,
    picture: &[f32],
    comparison: Option<ReconstructionScore>,
) -> Reconstruction {
    let side = plan.architecture.side();
    let comparison = comparison.map(|score| compared(side, score));
    Reconstruction { round: plan.round, attack, picture: views::rgba(side, picture), comparison }
}

/// An update made from the plan's weights, as the relay would read it.
pub fn observe(
    plan: &RoundPlan,
    update: &ProtectedUpdate,
    samples: u32,
) -> Result<(Observation, Concealment), UpdateError> {
    let checked = update.checked(&plan.layout)?;
    let batch = u16::try_from(plan.batch).unwrap_or(u16::MAX);
    let received = Received {
        model: plan.architecture.into(),
        weights: &plan.state.weights,
        values: checked.values(),
        words: checked.words(),
        scale: UpdateScale::of(plan.rule, samples, batch),
    };
    let methods = Concealment::Entries.closed_forms(plan.architecture);
    let methods = methods.into_iter().chain((of_batch(plan, samples) > 1).then_some(AttackMethod::Batch));
    let needs = methods.filter_map(|method| Needs::of(method, plan.architecture).ok());
    let evidence = received.evidence(&needs.fold(Needs::default(), Needs::and));
    let concealment = Concealment::of(&update.form, evidence.as_ref().ok());
    let mut observation = Observation::new(evidence);
    observation.batch = samples as usize;
    observation.local_steps = plan.rule.local_steps(samples, batch);
    Ok((observation, concealment))
}

/// Converts a score and the picture it refers to.
pub fn compared(side: usize, ReconstructionScore { own, is_private, psnr, ssim }: ReconstructionScore) -> Comparison {
    Comparison { own: views::rgba(side, &own), is_private, psnr, ssim }
}

#[cfg(test)]
mod tests {
    use unmask_client::{Nonces, PictureSelection, PrivatePicture};
    use unmask_core::{Defence, VitPreset};
    use unmask_data::Picture;
    use unmask_model::{Network, device::OpenDevice};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    fn plan(round: u32, defence: &str, rule: &str) -> RoundPlan {
        let architecture = Architecture::from(VitPreset::Pico);
        RoundPlan {
            round,
            policy: 1,
            architecture,
            layout: architecture.layout(),
            defence: defence.parse::<Defence>().expect("a defence"),
            rule: rule.parse().expect("a rule"),
            batch: 1,
            pictures: PictureSelection::Private,
            state: architecture.initial(7),
            cipher: None,
            sum: None,
            nonces: Nonces::default(),
            least: 1,
            doubts: Vec::new(),
        }
    }

    /// Textures in which no two patches are alike.
    fn client(pictures: usize, side: usize) -> Client {
        let byte = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8 / 4 + (i % 160) as u8;
        let values = side * side * 3;
        let texture = |number: usize| (number * values..(number + 1) * values).map(byte).collect();
        let picture = |number| Picture::new(side, side, texture(number)).expect("a picture");
        let pictures = (0..pictures).map(|number| PrivatePicture::new(picture(number), 3 + number));
        Client::new("Ada", "CPU").with_pictures(pictures.collect())
    }

    async fn attacked(plan: RoundPlan, mut client: Client) -> OwnAttack {
        let pictures = client.pictures(&plan).expect("pictures");
        let device = OpenDevice::cpu();
        let network = Network::new(plan.architecture, device.device()).expect("a network");
        let trained = plan.task().train(&network, &pictures).await.expect("a step");
        let samples = trained.samples;
        let outgoing = client.update(&plan, trained, [7; 32]).expect("an update");
        // A busy machine is slow.
        let budgets = Budgets { attacks: Duration::from_secs(60), batch: Duration::from_secs(60) };
        let mut own = OwnAttacks { budgets, ..OwnAttacks::default() };
        own.offer(&plan, samples, outgoing.update.clone().expect("in plain"));
        assert!(own.is_due());
        let attack = own.run(&plan, &client).expect("an attack");
        own.offer(&plan, samples, outgoing.update.expect("in plain"));
        assert!(!own.is_due(), "the last one was a moment ago");
        attack
    }

    fn best(attack: &OwnAttack) -> f32 {
        let comparison = attack.reconstructions.first().and_then(|found| found.comparison.as_ref());
        comparison.map_or(-1.0, |comparison| comparison.ssim)
    }

    #[wasm_bindgen_test]
    async fn the_tab_sees_what_the_relay_could() {
        // The difference of two f32 weights is less precise than a gradient.
        for (rule, least) in [("fedsgd", 0.9), ("fedavg:epochs=1,rate=0.1", 0.6)] {
            let plain = attacked(plan(1, "none", rule), client(1, 16)).await;
            assert!(best(&plain) > least, "{rule}: SSIM {}, {:?}", best(&plain), plain.remark);
            assert!(plain.remark.is_none(), "{:?}", plain.remark);
        }
        let noisy = attacked(plan(2, "gaussian:eps=1,delta=1e-5,clip=0.5", "fedsgd"), client(1, 16)).await;
        assert!(best(&noisy) < 0.5, "SSIM {}", best(&noisy));
    }

    #[wasm_bindgen_test]
    async fn an_update_without_a_way_in_says_so() {
        let fixed = attacked(plan(1, "fixed-position", "fedsgd"), client(1, 16)).await;
        assert!(fixed.reconstructions.is_empty() && fixed.remark.is_some(), "{:?}", fixed.reconstructions.len());
    }

    #[wasm_bindgen_test]
    async fn a_batch_comes_back_beside_its_originals() {
        let architecture = Architecture::from(VitPreset::NanoPatch8);
        let (layout, state) = (architecture.layout(), architecture.initial(7));
        let plan = RoundPlan { architecture, layout, state, batch: 2, ..plan(1, "none", "fedsgd") };
        let attack = attacked(plan, client(2, 32)).await;
        let OwnBatch { of, certain, found, remark, .. } = attack.batch.expect("an attack on the batch");
        assert_eq!((of, certain, found.len()), (2, 2, 2), "{remark:?}");
        let mut originals = Vec::new();
        for found in found {
            let Comparison { own, is_private, psnr, .. } = found.comparison.expect("an original");
            assert!(is_private && psnr > 60.0, "{psnr} dB");
            originals.push(own.expect("pixels").bytes);
        }
        assert_ne!(originals[0], originals[1], "each beside its own");
    }

    /// Two steps on two pictures are no batch of two, and a paused attack leaves what it found.
    #[wasm_bindgen_test]
    async fn only_one_step_is_a_batch() {
        let architecture = Architecture::from(VitPreset::NanoPatch8);
        let (layout, state) = (architecture.layout(), architecture.initial(7));
        let two_steps =
            RoundPlan { architecture, layout, state, batch: 2, ..plan(1, "none", "fedavg:epochs=2,rate=0.1") };
        let attack = attacked(two_steps, client(2, 32)).await;
        assert!(attack.batch.is_none() && !attack.batch_waits);
    }
}
