//! How well the room's model does, as the room shows it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use unmask_core::TrainingPictures;
use unmask_data::CLASSES;
use unmask_federation::RoomPhase;
use unmask_wire::view::{AccuracyPoint, EvaluationView};

use super::{Actor, Input, MAX_LOSSES, keep, reporter};
use crate::{
    config::RelayConfig,
    room::evaluation::{Evaluation, EvaluationJob, EvaluationThread, Measured, interval},
};

/// Longest time that may be chosen for measuring one model, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// What the actor holds of the evaluation.
#[derive(Debug)]
pub(super) struct Measuring {
    /// Where this relay can measure.
    thread: Option<EvaluationThread>,
    budget: Duration,
    /// Counts how often earlier results were to be forgotten.
    serial: u64,
    last: Option<EvaluationView>,
    accuracies: VecDeque<AccuracyPoint>,
    /// Why the last model could not be measured.
    failure: Option<String>,
}

impl Measuring {
    /// Starts the thread, where something to measure with was handed in.
    pub(super) fn start(inputs: mpsc::WeakSender<Input>, config: &RelayConfig) -> anyhow::Result<Self> {
        let evaluator = config.evaluator.clone();
        Ok(Self {
            thread: evaluator
                .map(|evaluator| EvaluationThread::start(reporter(inputs, Input::Evaluated), evaluator))
                .transpose()?,
            budget: config.data.evaluation_budget,
            serial: 0,
            last: None,
            accuracies: VecDeque::new(),
            failure: None,
        })
    }

    pub(super) fn accuracies(&self) -> Vec<AccuracyPoint> {
        self.accuracies.iter().cloned().collect()
    }
}

impl Actor {
    /// Measures the room's model unless that was done, is being done, or cannot be done.
    pub(super) fn measure(&mut self) {
        if self.why_not_measured().is_some() {
            return;
        }
        let round = self.round_of_weights();
        let (model, budget, serial) = (self.room.model(), self.measuring.budget, self.measuring.serial);
        if let (Some(thread), Some(data_set)) = (&mut self.measuring.thread, self.sharing.data_set())
            && thread.is_due(model)
        {
            let (model, data_set) = (Arc::clone(model), Arc::clone(data_set));
            thread.begin(EvaluationJob { serial, round, model, data_set, budget });
        }
    }

    /// The round after which the room's weights came about.
    fn round_of_weights(&self) -> u32 {
        let round = self.room.round();
        if self.room.phase() == RoomPhase::Training { round.saturating_sub(1) } else { round }
    }

    /// Why the model in force is not measured, in words for people; `None` where it is.
    fn why_not_measured(&self) -> Option<String> {
        let settings = self.room.settings();
        if self.measuring.thread.is_none() {
            return Some("This relay was started without the means to run its model.".to_owned());
        }
        if self.room.seal().is_some() || settings.encryption().is_some() {
            return Some(
                "The model is encrypted: the relay averages weights that it cannot read, and so cannot try them on \
                 pictures. Whoever has the key could."
                    .to_owned(),
            );
        }
        if self.measuring.budget.is_zero() {
            return Some("There is no time for it: the budget is 0 s a round.".to_owned());
        }
        let source = &self.config.data.source;
        let Some(data_set) = self.sharing.data_set() else {
            return Some(format!(
                "There are no held-out pictures yet: those of {source} are made when rounds are to train on them."
            ));
        };
        if settings.pictures() == TrainingPictures::Private && data_set.classes != CLASSES {
            return Some(format!(
                "Rounds train on private pictures, whose classes are not those of {}; there is nothing to hold out.",
                data_set.name
            ));
        }
        None
    }

    pub(super) fn measured(&mut self, Evaluation { serial, round, outcome }: Evaluation) {
        let Some(thread) = &mut self.measuring.thread else { return };
        thread.done();
        if serial != self.measuring.serial {
            return;
        }
        match outcome {
            Ok(Measured { pictures, correct, loss, confusion, seconds }) => {
                let accuracy = f64::from(correct) / f64::from(pictures.max(1));
                self.measuring.failure = None;
                keep(&mut self.measuring.accuracies, MAX_LOSSES, AccuracyPoint { round, accuracy, loss, pictures });
                self.measuring.last = Some(EvaluationView {
                    round,
                    accuracy,
                    interval: interval(correct, pictures),
                    loss,
                    pictures,
                    confusion,
                    classes: self.sharing.data_set().map(|data_set| data_set.classes.clone()).unwrap_or_default(),
                    seconds,
                    remark: None,
                });
            }
            Err(reason) => {
                self.measuring.failure = Some(format!("The model of round {round} is not measured: {reason}."))
            }
        }
    }

    /// A new model begins: what was measured of an earlier one is not shown beside it. Of this one, the start may have
    /// been measured already.
    pub(super) fn forget_measured(&mut self) {
        let is_known = self.measuring.thread.as_ref().is_some_and(|thread| thread.knows(self.room.model()));
        let Measuring { last, accuracies, failure, serial, thread, .. } = &mut self.measuring;
        if is_known {
            accuracies.retain(|point| point.round == 0);
            return;
        }
        *serial += 1;
        (*last, *failure) = (None, None);
        accuracies.clear();
        if let Some(thread) = thread {
            thread.forget();
        }
    }

    /// The last result, and why the model in force is not measured where it is not.
    pub(super) fn evaluation(&self) -> Option<EvaluationView> {
        let remark = self.why_not_measured().or_else(|| self.measuring.failure.clone());
        match (&self.measuring.last, remark) {
            (None, None) => None,
            (last, remark) => Some(EvaluationView { remark, ..last.clone().unwrap_or_default() }),
        }
    }

    pub(super) fn set_evaluation_budget(&mut self, seconds: f64) -> Result<(), String> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(format!(
                "{seconds} is no time for measuring a model; give seconds a round, 0 to {MAX_BUDGET}."
            ));
        }
        self.measuring.budget = Duration::from_secs_f64(seconds);
        self.say(match seconds {
            0.0 => "The teacher stopped measuring the model.".to_owned(),
            _ => format!("The teacher gives measuring the model {seconds} s a round."),
        });
        Ok(())
    }
}
