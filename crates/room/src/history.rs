//! The room's history: how many rounds had the same noise, how often each parameter was updated, the losses of the
//! current model, and the accuracy and leakage under each defence.

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Defence, GaussianNoise, RoundSettings, TradeOffPoint};
use unmask_federation::{CountBin, GroupCounts, RoundSummary, UpdateCounts};
use unmask_wire::view::{CountBinView, GroupCountsView, GuaranteeView, LossPoint, UpdateCountsView};

use super::{
    privacy::{Accountant, Guarantee, Mechanism},
    recent::{CURVE, Recent},
    trade_off::TradeOff,
};

const MAX_BINS: usize = 24;
/// Upper limit of rounds kept for a lesson, over all its models: ten hours at two seconds each.
pub(super) const MAX_ROUNDS: usize = 18_000;

/// Statistics of the rounds so far, computed once a round.
#[derive(Debug)]
pub(super) struct History {
    losses: Recent<LossPoint>,
    rounds: Recent<RoundRecord>,
    /// Counts the models.
    model: u32,
    trade_off: TradeOff,
    noisy: Option<Noisy>,
    /// Whether the relay received updates that `noisy` does not cover.
    has_uncovered: bool,
    counted: Option<UpdateCountsView>,
    /// Number of updates in the rounds of `counted`.
    updates: u64,
    accountant: Accountant,
}

impl History {
    pub(super) fn new(accountant: Accountant) -> Self {
        Self {
            losses: Recent::new(CURVE),
            rounds: Recent::new(MAX_ROUNDS),
            model: 1,
            trade_off: TradeOff::default(),
            noisy: None,
            has_uncovered: false,
            counted: None,
            updates: 0,
            accountant,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// When it closed, in seconds since 1970.
    pub time: u64,
    /// Number of the lesson's model that it trained, from 1.
    pub model: u32,
    pub round: u32,
    pub settings: RoundSettings,
    pub updates: u32,
    pub clipped: u32,
    /// Updates left out because they pointed against the others.
    pub opposed: u32,
    pub samples: u64,
    /// Clients that did not answer in time.
    pub late: u32,
    pub loss: Option<f32>,
    /// Why the round took no step, if so.
    pub void: Option<String>,
}

/// Upper limit of rounds missing on disk: one that closed, and one that was running.
const UNWRITTEN: u32 = 2;

/// The history as the journal stores it. Values derived from the update counts are computed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryRecord {
    losses: Vec<LossPoint>,
    rounds: Vec<RoundRecord>,
    model: u32,
    trade_off: TradeOff,
    /// The noise as its defence, with the number of rounds under it.
    noisy: Option<(Defence, u32)>,
    has_uncovered: bool,
    updates: u64,
}

/// Consecutive rounds under the same noise. A client's leakage adds up over them even if other settings change, and a
/// new model does not undo it.
#[derive(Debug)]
struct Noisy {
    noise: GaussianNoise,
    rounds: u32,
    guarantee: GuaranteeView,
}

impl History {
    /// Notes that a round has closed at `unix`, in seconds since 1970.
    pub(super) fn closed(&mut self, unix: u64, summary: &RoundSummary, counts: &UpdateCounts) {
        let (round, updates, defence) = (summary.round, summary.updates, summary.settings.defence());
        self.rounds.push(RoundRecord {
            time: unix,
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
        // A round without an update reveals nothing.
        let revealing = u32::from(summary.updates > 0);
        let before = self.noisy.take();
        self.noisy = match defence.noise().copied() {
            Some(noise) => {
                let is_other = before.as_ref().is_some_and(|before| before.noise != noise);
                self.has_uncovered |= is_other;
                let rounds = before.filter(|_| !is_other).map_or(0, |before| before.rounds).saturating_add(revealing);
                (rounds > 0).then(|| Noisy {
                    noise,
                    rounds,
                    guarantee: holds(self.accountant, noise, rounds, self.has_uncovered),
                })
            }
            None => {
                self.has_uncovered |= revealing > 0 || before.is_some();
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
            trade_off: self.trade_off.clone(),
            noisy: self.noisy.as_ref().map(|noisy| (Defence::Gaussian(noisy.noise), noisy.rounds)),
            has_uncovered: self.has_uncovered,
            updates: self.updates,
        }
    }

    /// Restores a record with the room's update counts. Counts [`UNWRITTEN`] rounds on top of the stored ones, because
    /// the relay may have received their updates.
    pub(super) fn restore(&mut self, record: HistoryRecord, counts: &UpdateCounts, in_force: Defence) {
        let HistoryRecord { losses, rounds, model, trade_off, noisy, has_uncovered, updates } = record;
        let noisy = noisy.or((in_force.noise().is_some()).then_some((in_force, 0)));
        let noisy = noisy.and_then(|(defence, rounds)| Some((*defence.noise()?, rounds.saturating_add(UNWRITTEN))));
        let accountant = self.accountant;
        let fresh = Self::new(accountant);
        *self = Self {
            losses: fresh.losses.refilled(losses),
            rounds: fresh.rounds.refilled(rounds),
            model,
            trade_off,
            noisy: noisy.map(|(noise, rounds)| Noisy {
                noise,
                rounds,
                guarantee: holds(accountant, noise, rounds, has_uncovered),
            }),
            has_uncovered,
            counted: None,
            updates,
            accountant,
        };
        self.count(counts);
    }

    /// Number of rounds kept.
    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// The rounds of the lesson, oldest first.
    pub(super) fn rounds(&self) -> Vec<RoundRecord> {
        self.rounds.iter().cloned().collect()
    }

    /// Clears the counts for a new model or new settings.
    pub(super) fn restart_counts(&mut self) {
        (self.counted, self.updates) = (None, 0);
    }

    /// Clears the losses, because a new model's do not continue the old one's.
    pub(super) fn forget_model(&mut self) {
        self.losses.clear();
        self.trade_off.clear();
        // Count the old model only if a round trained it.
        self.model += u32::from(self.rounds.iter().next_back().is_some_and(|round| round.model == self.model));
        self.restart_counts();
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = &LossPoint> {
        self.losses.iter()
    }

    pub(super) fn measured(&mut self, round: u32, accuracy: f64) {
        if let Some(defence) = self.defence_of(round) {
            self.trade_off.measured(defence, accuracy);
        }
    }

    pub(super) fn scored(&mut self, defence: Defence, attack: AttackMethod, round: u32, ssim: f32) {
        self.trade_off.scored(defence, attack, round, ssim);
    }

    pub(super) fn trade_off(&self) -> Vec<TradeOffPoint> {
        self.trade_off.view()
    }

    fn defence_of(&self, round: u32) -> Option<Defence> {
        let record = self.rounds.iter().rev().find(|record| record.model == self.model && record.round == round);
        record.map(|record| record.settings.defence())
    }

    /// Returns the guarantee of the current noise for the rounds under it, if there were any.
    pub(super) fn guarantee(&self, defence: Defence) -> Option<GuaranteeView> {
        let noisy = self.noisy.as_ref()?;
        (defence.noise() == Some(&noisy.noise)).then(|| noisy.guarantee.clone())
    }

    pub(super) fn update_counts(&self) -> Option<UpdateCountsView> {
        self.counted.clone()
    }
}

fn holds(accountant: Accountant, noise: GaussianNoise, rounds: u32, has_uncovered: bool) -> GuaranteeView {
    let mechanism = Mechanism { clip: noise.clip(), deviation: noise.deviation() };
    let Guarantee { rounds, epsilon, delta, mut sentence } = accountant(mechanism, rounds, noise.delta());
    if has_uncovered {
        // Later noise does not protect updates that were sent without it.
        sentence = format!(
            "Not covered: what the relay received earlier in this room, under another defence or other noise. Only the \
             rounds under this noise: {sentence}"
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

/// Rounds to six decimals, which is finer than a chart can show and makes the JSON a third as long.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unmask_core::{Architecture, OptimiserKind, Rule, VitPreset};

    use super::*;

    /// Says only how many rounds it was asked about.
    const ECHO: Accountant =
        |_, rounds, delta| Guarantee { rounds, epsilon: None, delta, sentence: "So it is.".to_owned() };

    fn noise(epsilon: &str) -> Defence {
        format!("gaussian:eps={epsilon},delta=0.5,clip=1").parse().unwrap()
    }

    fn close(history: &mut History, round: u32, defence: Defence, updates: u32) {
        let settings = RoundSettings::new(defence, Rule::FedSgd, 1, OptimiserKind::Sgd { rate: 0.1 }).unwrap();
        let (clipped, opposed, samples) = (0, 0, updates.into());
        let (loss, losses, void, late) = (None, Vec::new(), None, Vec::new());
        let large = Vec::new();
        let summary =
            RoundSummary { round, settings, updates, clipped, large, opposed, samples, loss, losses, void, late };
        let layout = Arc::new(Architecture::from(VitPreset::Pico).layout());
        history.closed(1000, &summary, &UpdateCounts::new(layout, defence));
    }

    /// The rounds that the guarantee covers, and whether it says that others are not covered.
    fn covered(history: &History, defence: Defence) -> Option<(u32, bool)> {
        history.guarantee(defence).map(|found| (found.rounds, found.sentence.starts_with("Not covered")))
    }

    #[test]
    fn a_guarantee_covers_the_rounds_under_one_noise() {
        let (mut history, weak, strong) = (History::new(ECHO), noise("8"), noise("1"));
        close(&mut history, 1, weak, 0);
        assert_eq!(covered(&history, weak), None, "nothing was received");
        for round in [2, 3] {
            close(&mut history, round, weak, 1);
        }
        assert_eq!((covered(&history, weak), covered(&history, strong)), (Some((2, false)), None));
        close(&mut history, 4, strong, 1);
        assert_eq!((covered(&history, weak), covered(&history, strong)), (None, Some((1, true))));
    }

    #[test]
    fn noise_does_not_cover_what_came_without_it() {
        for (updates, is_uncovered) in [(0, false), (1, true)] {
            let (mut history, noise) = (History::new(ECHO), noise("1"));
            close(&mut history, 1, Defence::None, updates);
            close(&mut history, 2, noise, 1);
            assert_eq!(covered(&history, noise), Some((1, is_uncovered)));
        }
    }

    #[test]
    fn a_restored_guarantee_counts_the_rounds_that_may_be_missing() {
        let (mut history, noise) = (History::new(ECHO), noise("1"));
        close(&mut history, 1, noise, 1);
        let layout = Arc::new(Architecture::from(VitPreset::Pico).layout());
        let mut again = History::new(ECHO);
        again.restore(history.record(), &UpdateCounts::new(layout, noise), noise);
        assert_eq!(covered(&again, noise), Some((1 + UNWRITTEN, false)));
        assert_eq!(again.rounds(), history.rounds());
    }

    #[test]
    fn an_accuracy_counts_for_the_defence_of_its_round() {
        let masked: Defence = "random-binary:0.5".parse().unwrap();
        let mut history = History::new(ECHO);
        close(&mut history, 1, Defence::None, 1);
        close(&mut history, 2, masked, 1);
        history.measured(2, 0.75);
        history.measured(3, 0.25);
        let points: Vec<_> =
            history.trade_off().into_iter().map(|point| (point.defence, point.rounds, point.accuracy)).collect();
        assert_eq!(points, [(Defence::None, 1, None), (masked, 1, Some(0.75))]);
        history.forget_model();
        history.measured(2, 0.5);
        assert!(history.trade_off().is_empty());
        close(&mut history, 1, masked, 1);
        let models: Vec<u32> = history.rounds().iter().map(|round| round.model).collect();
        assert_eq!(models, [1, 1, 2]);
    }

    #[test]
    fn shares_are_short() {
        assert_eq!([0.123_456_78, 3.0].map(short), [0.123_457, 3.0]);
    }
}
