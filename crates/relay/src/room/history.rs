//! What the room has seen under the settings in force: who encrypted the model, how much noise the rounds had, how often
//! each parameter was updated; and the losses of the model in force.

use unmask_core::{Defence, GaussianNoise};
use unmask_federation::{CountBin, GroupCounts, RoundSummary, UpdateCounts};
use unmask_wire::view::{CountBinView, GroupCountsView, GuaranteeView, LossPoint, UpdateCountsView};

use super::{
    privacy::{Guarantee, Mechanism, guarantee},
    recent::{CURVE, Recent},
};

/// Most bars in a chart of update counts.
const MAX_BINS: usize = 24;

/// What is known of the rounds so far, worked out once a round.
#[derive(Debug)]
pub(super) struct History {
    losses: Recent<LossPoint>,
    sealed_by: Option<String>,
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
            sealed_by: None,
            noisy: None,
            has_told_otherwise: false,
            counted: None,
            updates: 0,
        }
    }
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
        if let Some(loss) = summary.loss {
            self.losses.push(LossPoint { round, loss, updates, defence });
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
        self.counted = Some(UpdateCountsView {
            rounds: counts.rounds(),
            updates: short(self.updates as f64 / f64::from(counts.rounds())),
            sampled: counts.sampled(),
            groups: counts.groups().iter().map(group).collect(),
        });
    }

    /// A new model or new settings: nothing was counted under them yet.
    pub(super) fn begun_anew(&mut self) {
        (self.counted, self.updates) = (None, 0);
    }

    /// A new model: its losses are no continuation of the old one's.
    pub(super) fn forget_model(&mut self) {
        self.losses.clear();
        self.begun_anew();
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = &LossPoint> {
        self.losses.iter()
    }

    pub(super) fn sealed(&mut self, nickname: String) {
        self.sealed_by = Some(nickname);
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
