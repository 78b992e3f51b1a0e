//! The model, and what a round's updates do to it.

use std::sync::Arc;

use unmask_core::{Defence, ModelState, OptimiserKind, ParamLayout, RoundSettings, Rule};
use unmask_secagg::MeanOfSum;

use super::{Accepted, GlobalModel, Refusal};
use crate::{Aggregate, Optimiser, Overflow, UpdateCounts, gate::Statistics, norm_gate::NormGate};

/// No training step moves the weights by this many times their own norm, not even if training diverges. A larger update
/// is not a gradient.
const FARTHEST: f64 = 100.0;

#[derive(Debug, Clone)]
pub(super) struct Learner {
    model: Arc<GlobalModel>,
    layout: Arc<ParamLayout>,
    optimiser: Optimiser,
    aggregate: Aggregate,
    statistics: Statistics,
    counts: UpdateCounts,
}

/// Whether norms of updates say something about those under the new settings. The norm of a masked update is that of the
/// whole one, as far as it can be estimated, so masks change nothing.
fn are_comparable(before: &RoundSettings, now: &RoundSettings) -> bool {
    let is_masked =
        |defence| matches!(defence, Defence::None | Defence::RandomBinary { .. } | Defence::FrozenBinary { .. });
    let (defence, then) = (now.defence(), before.defence());
    (before.rule(), before.batch(), before.pictures()) == (now.rule(), now.batch(), now.pictures())
        && (defence == then || is_masked(defence) && is_masked(then))
}

impl Learner {
    pub(super) fn new(model: Arc<GlobalModel>, settings: &RoundSettings) -> Self {
        let layout = Arc::new(model.architecture.layout());
        let counts = UpdateCounts::new(Arc::clone(&layout), settings.defence());
        Self::resumed(model, layout, settings, Optimiser::new(settings.optimiser()), counts)
    }

    /// A learner that continues; no norms are known yet.
    pub(super) fn resumed(
        model: Arc<GlobalModel>,
        layout: Arc<ParamLayout>,
        settings: &RoundSettings,
        optimiser: Optimiser,
        counts: UpdateCounts,
    ) -> Self {
        let aggregate = Aggregate::new(Arc::clone(&layout), settings.defence(), settings.aggregation());
        Self { model, layout, optimiser, aggregate, statistics: Statistics::default(), counts }
    }

    /// The same learner with the norms of earlier rounds: of updates, and of running statistics.
    pub(super) fn with_norms(self, norms: NormGate, statistics: NormGate) -> Self {
        let (aggregate, statistics) = (self.aggregate.resumed(norms), Statistics::resumed(statistics));
        Self { aggregate, statistics, ..self }
    }

    /// The same learner, whose steps move only what so many updates have.
    pub(super) fn with_min_kept(self, min_kept: u32) -> Self {
        Self { aggregate: self.aggregate.with_min_kept(min_kept), ..self }
    }

    pub(super) fn model(&self) -> &Arc<GlobalModel> {
        &self.model
    }

    pub(super) fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    pub(super) fn optimiser(&self) -> &Optimiser {
        &self.optimiser
    }

    pub(super) fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }

    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(super) fn counts(&self) -> &UpdateCounts {
        &self.counts
    }

    /// Changes to `settings` and, if there is one, to a new model.
    pub(super) fn change(&mut self, before: &RoundSettings, settings: &RoundSettings, model: Option<GlobalModel>) {
        let is_new = model.is_some();
        if is_new || settings.optimiser() != before.optimiser() {
            self.optimiser = Optimiser::new(settings.optimiser());
        }
        if let Some(model) = model {
            if model.architecture != self.model.architecture {
                self.layout = Arc::new(model.architecture.layout());
                let (layout, min_kept) = (Arc::clone(&self.layout), self.aggregate.min_kept());
                self.aggregate =
                    Aggregate::new(layout, settings.defence(), settings.aggregation()).with_min_kept(min_kept);
            }
            self.model = Arc::new(model);
        }
        let keeps_norms = !is_new && are_comparable(before, settings);
        self.aggregate.change(settings.defence(), settings.aggregation(), keeps_norms);
        self.statistics = Statistics::default();
        self.counts = UpdateCounts::new(Arc::clone(&self.layout), settings.defence());
    }

    /// Replaces the weights of the model, unless `state` is of another size.
    pub(super) fn restart_from(&mut self, state: ModelState, settings: &RoundSettings) {
        let lengths = |state: &ModelState| (state.weights.len(), state.statistics.len());
        if lengths(&state) == lengths(&self.model.state) {
            self.set_state(state);
            self.optimiser = Optimiser::new(settings.optimiser());
        }
    }

    pub(super) fn set_state(&mut self, state: ModelState) {
        self.model = Arc::new(GlobalModel { architecture: self.model.architecture, state });
    }

    pub(super) fn begin_round(&mut self, settings: &RoundSettings) {
        self.aggregate.begin(self.harmless_norm(settings));
        self.statistics.restart();
    }

    /// The norm of an update that would, unclipped, move the weights by [`FARTHEST`] times their own norm. Adam's step
    /// length does not depend on the gradient's norm, so Adam counts as having a rate of 1.
    fn harmless_norm(&self, settings: &RoundSettings) -> f64 {
        let rate = match (settings.rule(), settings.optimiser()) {
            (Rule::FedSgd, OptimiserKind::Sgd { rate }) => f64::from(rate),
            (Rule::FedSgd, OptimiserKind::Adam { .. }) | (Rule::FedAvg { .. }, _) => 1.0,
        };
        let square = |weight: &f32| f64::from(*weight) * f64::from(*weight);
        FARTHEST * self.model.state.weights.iter().map(square).sum::<f64>().sqrt() / rate
    }

    /// Adds an accepted update. Returns its values if their memory can be used again.
    pub(super) fn add(&mut self, accepted: Accepted, reference: Option<&[f32]>) -> Option<Vec<f32>> {
        self.statistics.add(accepted.statistics, accepted.update.weight);
        self.aggregate.take(accepted.update, reference).map(|spent| spent.update.into_values())
    }

    /// Adds the mean of `updates` updates that nobody sees.
    ///
    /// # Errors
    /// The mean is not finite or does not fit the model.
    pub(super) fn add_mean(&mut self, mean: MeanOfSum, updates: u32) -> Result<(), Refusal> {
        self.aggregate.add_mean(mean.values, mean.kept, updates)
    }

    /// Judges the updates that wait, now that no more will arrive. Returns the positions of those left out.
    pub(super) fn judge(&mut self, reference: Option<&[f32]>) -> &[usize] {
        let left_out = self.aggregate.judge(reference);
        self.statistics.leave_out(left_out);
        left_out
    }

    /// Takes the step. `trained` is the model of the round; its weights are copied only if somebody else still holds
    /// them, such as an attack.
    ///
    /// # Errors
    /// The step would overflow. The model stays as it was.
    pub(super) fn step(&mut self, trained: Arc<GlobalModel>, settings: &RoundSettings) -> Result<(), Overflow> {
        let statistics = self.statistics.mean(&trained.state.statistics, settings.aggregation());
        drop(trained);
        let state = &mut Arc::make_mut(&mut self.model).state;
        self.aggregate.close(settings.rule(), &mut self.optimiser, &mut state.weights, &mut self.counts)?;
        state.statistics = statistics;
        Ok(())
    }

    /// Forgets the round's norms, because it took no step.
    pub(super) fn forget_norms(&mut self) {
        self.aggregate.forget_norms();
    }
}
