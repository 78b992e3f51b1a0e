//! What the room has seen under the settings in force: who encrypted the model, how much noise the rounds had, how often
//! each parameter was updated; and the losses of the model in force, and what each defence cost and kept of it.

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Defence, GaussianNoise, RoundSettings, TradeOffPoint};
use unmask_federation::{CountBin, GroupCounts, RoundSummary, UpdateCounts};
use unmask_wire::view::{CountBinView, GroupCountsView, GuaranteeView, LossPoint, UpdateCountsView};

use super::{
    privacy::{Guarantee, Mechanism, guarantee},
    recent::{CURVE, Recent},
    trade_off::TradeOff,
};
use crate::unix_time::unix_now;

/// Most bars in a chart of update counts.
const MAX_BINS: usize = 24;
/// Rounds remembered of a lesson, over all its models: ten hours at two seconds each.
const MAX_ROUNDS: usize = 18_000;

/// What is known of the rounds so far, worked out once a round.
#[derive(Debug)]
pub(super) struct History {
    losses: Recent<LossPoint>,
    rounds: Recent<RoundRecord>,
    /// Counts the models.
    model: u32,
    sealed_by: Option<String>,
    trade_off: TradeOff,
    noisy: Option<Noisy>,
    /// Whether updates came under anything but the noise of `noisy`.
    has_told_otherwise: bool,
    counted: Option<UpdateCountsView>,
    /// Updates in the rounds of `counted`.
    updates: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            losses: Recent::new(CURVE),
            rounds: Recent::new(MAX_ROUNDS),
            model: 1,
            sealed_by: None,
            trade_off: TradeOff::default(),
            noisy: None,
            has_told_otherwise: false,
            counted: None,
            updates: 0,
        }
    }
}

/// One round, as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundRecord {
    /// When it closed, in seconds since 1970.
    pub(crate) time: u64,
    /// Which of the lesson's models it trained, from 1.
    pub(crate) model: u32,
    pub(crate) round: u32,
    pub(crate) settings: RoundSettings,
    pub(crate) updates: u32,
    pub(crate) clipped: u32,
    /// Updates left out because they pointed against the others.
    pub(crate) opposed: u32,
    pub(crate) samples: u64,
    /// Clients that did not answer in time.
    pub(crate) late: u32,
    pub(crate) loss: Option<f32>,
    /// Why no step was taken, if none was.
    pub(crate) void: Option<String>,
}

/// Rounds that may be missing on the disk: one that closed, and one that ran.
const UNWRITTEN: u32 = 2;

/// The history as it is written down. What follows from the update counts is worked out from them again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryRecord {
    losses: Vec<LossPoint>,
    rounds: Vec<RoundRecord>,
    model: u32,
    sealed_by: Option<String>,
    trade_off: TradeOff,
    /// A noise, as the defence that it is, and the rounds that ran under it.
    noisy: Option<(Defence, u32)>,
    has_told_otherwise: bool,
    updates: u64,
}

/// Rounds that ran one after the other under one and the same noise. What a client's updates tell adds up over them,
/// whatever else was changed meanwhile, and a new model does not take it back.
#[derive(Debug)]
struct Noisy {
    noise: GaussianNoise,
    rounds: u32,
    guarantee: GuaranteeView,
}

impl History {
    pub(super) fn closed(&mut self, summary: &RoundSummary, counts: &UpdateCounts) {
        let (round, updates, defence) = (summary.round, summary.updates, summary.settings.defence());
        self.rounds.push(RoundRecord {
            time: unix_now(),
            model: self.model,
            round,
            settings: summary.settings,
            updates,
            clipped: summary.clipped,
            opposed: summary.opposed,
            samples: summary.samples,
            late: summary.late.len().try_into().unwrap_or(u32::MAX),
            loss: summary.loss,
            void: summary.void.map(|void| void.to_string()),
        });
        if let Some(loss) = summary.loss {
            self.losses.push(LossPoint { round, loss, updates, defence });
        }
        if updates > 0 {
            self.trade_off.ran(defence);
        }
        // A round without an update has told nothing.
        let told = u32::from(summary.updates > 0);
        let before = self.noisy.take();
        self.noisy = match defence.noise().copied() {
            Some(noise) => {
                let is_other = before.as_ref().is_some_and(|before| before.noise != noise);
                self.has_told_otherwise |= is_other;
                let rounds = before.filter(|_| !is_other).map_or(0, |before| before.rounds).saturating_add(told);
                (rounds > 0).then(|| Noisy { noise, rounds, guarantee: holds(noise, rounds, self.has_told_otherwise) })
            }
            None => {
                self.has_told_otherwise |= told > 0 || before.is_some();
                None
            }
        };
        // A round without an update is not counted.
        if counts.rounds() == self.counted.as_ref().map_or(0, |counted| counted.rounds) {
            return;
        }
        self.updates += u64::from(summary.updates);
        self.count(counts);
    }

    fn count(&mut self, counts: &UpdateCounts) {
        self.counted = (counts.rounds() > 0).then(|| UpdateCountsView {
            rounds: counts.rounds(),
            updates: short(self.updates as f64 / f64::from(counts.rounds())),
            sampled: counts.sampled(),
            groups: counts.groups().iter().map(group).collect(),
        });
    }

    pub(super) fn record(&self) -> HistoryRecord {
        HistoryRecord {
            losses: self.losses.iter().cloned().collect(),
            rounds: self.rounds(),
            model: self.model,
            sealed_by: self.sealed_by.clone(),
            trade_off: self.trade_off.clone(),
            noisy: self.noisy.as_ref().map(|noisy| (Defence::Gaussian(noisy.noise), noisy.rounds)),
            has_told_otherwise: self.has_told_otherwise,
            updates: self.updates,
        }
    }

    /// The history of a record, whose room has counted this.
    /// Rounds whose updates the relay may have had beside those on the disk count as well: what it received, it knows.
    pub(super) fn restore(record: HistoryRecord, counts: &UpdateCounts, in_force: Defence) -> Self {
        let HistoryRecord { losses, rounds, model, sealed_by, trade_off, noisy, has_told_otherwise, updates } = record;
        let noisy = noisy.or((in_force.noise().is_some()).then_some((in_force, 0)));
        let noisy = noisy.and_then(|(defence, rounds)| Some((*defence.noise()?, rounds.saturating_add(UNWRITTEN))));
        let fresh = Self::default();
        let mut history = Self {
            losses: fresh.losses.refilled(losses),
            rounds: fresh.rounds.refilled(rounds),
            model,
            sealed_by,
            trade_off,
            noisy: noisy.map(|(noise, rounds)| Noisy {
                noise,
                rounds,
                guarantee: holds(noise, rounds, has_told_otherwise),
            }),
            has_told_otherwise,
            counted: None,
            updates,
        };
        history.count(counts);
        history
    }

    /// The rounds of the lesson, oldest first.
    pub(super) fn rounds(&self) -> Vec<RoundRecord> {
        self.rounds.iter().cloned().collect()
    }

    /// A new model or new settings: nothing was counted under them yet.
    pub(super) fn begun_anew(&mut self) {
        (self.counted, self.updates) = (None, 0);
    }

    /// A new model: its losses are no continuation of the old one's.
    pub(super) fn forget_model(&mut self) {
        self.losses.clear();
        self.trade_off.clear();
        // A model that no round trained is none of the lesson's.
        self.model += u32::from(self.rounds.iter().next_back().is_some_and(|round| round.model == self.model));
        self.begun_anew();
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = &LossPoint> {
        self.losses.iter()
    }

    pub(super) fn sealed(&mut self, nickname: String) {
        self.sealed_by = Some(nickname);
    }

    /// Knows the name of somebody no more.
    pub(super) fn forget_name(&mut self, nickname: &str, instead: &str) {
        if self.sealed_by.as_deref() == Some(nickname) {
            self.sealed_by = Some(instead.to_owned());
        }
    }

    /// The model was measured after this round.
    pub(super) fn measured(&mut self, round: u32, accuracy: f64) {
        if let Some(defence) = self.defence_of(round) {
            self.trade_off.measured(defence, accuracy);
        }
    }

    /// An attack on an update of this round was scored.
    pub(super) fn scored(&mut self, defence: Defence, attack: AttackMethod, round: u32, ssim: f32) {
        self.trade_off.scored(defence, attack, round, ssim);
    }

    /// What each defence has cost the model in force, and kept.
    pub(super) fn trade_off(&self) -> Vec<TradeOffPoint> {
        self.trade_off.view()
    }

    /// What a round of the model in force ran under.
    fn defence_of(&self, round: u32) -> Option<Defence> {
        let record = self.rounds.iter().rev().find(|record| record.model == self.model && record.round == round);
        record.map(|record| record.settings.defence())
    }

    pub(super) fn sealed_by(&self) -> Option<String> {
        self.sealed_by.clone()
    }

    /// What the noise in force guarantees after the rounds that ran under it, once there was one.
    pub(super) fn guarantee(&self, defence: Defence) -> Option<GuaranteeView> {
        let noisy = self.noisy.as_ref()?;
        (defence.noise() == Some(&noisy.noise)).then(|| noisy.guarantee.clone())
    }

    /// How often each parameter was updated, once there was a round.
    pub(super) fn update_counts(&self) -> Option<UpdateCountsView> {
        self.counted.clone()
    }
}

fn holds(noise: GaussianNoise, rounds: u32, has_told_otherwise: bool) -> GuaranteeView {
    let mechanism = Mechanism { clip: noise.clip(), deviation: noise.deviation() };
    let Guarantee { rounds, epsilon, delta, mut sentence } = guarantee(mechanism, rounds, noise.delta());
    if has_told_otherwise {
        // Noise takes nothing back of what left without it.
        sentence = format!(
            "Not covered: what the relay received earlier in this room, under another defence or other noise. The rounds \
             under this noise alone: {sentence}"
        );
    }
    GuaranteeView { rounds, epsilon, delta, sentence }
}

fn group(counts: &GroupCounts) -> GroupCountsView {
    let bin = |bin: CountBin| CountBinView {
        from: bin.from,
        to: bin.to,
        share: short(bin.share),
        expected: short(bin.expected),
    };
    GroupCountsView {
        key: counts.group.key().to_owned(),
        group: counts.group.title().to_owned(),
        parameters: counts.parameters,
        rate: counts.rate.map(|rate| rate.get()),
        never: short(counts.never()),
        mean: short(counts.mean()),
        bins: counts.bins(MAX_BINS).into_iter().map(bin).collect(),
    }
}

/// Six digits behind the point: more than a chart can show, and a third of the JSON.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
