//! The measured quality of the room's model, as the room shows it.

use std::{sync::Arc, time::Duration};

use unmask_core::TrainingPictures;
use unmask_data::CLASSES;
use unmask_federation::{GlobalModel, Room, RoomPhase};
use unmask_wire::view::{AccuracyPoint, EvaluationView};

use super::{
    data_set::SharedDataSet,
    evaluation::{Evaluation, EvaluationJob, HeldOut, Measured, ModelEvaluator, interval, thread::EvaluationThread},
    recent::{CURVE, Recent},
    sharing::Sharing,
};

/// Upper limit of the time for measuring one model, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// The room's side of the evaluation: when to measure, and the results on show.
#[derive(Debug)]
pub(super) struct Measuring {
    /// `None` if this relay cannot measure.
    thread: Option<EvaluationThread>,
    evaluator: Option<Arc<dyn ModelEvaluator>>,
    budget: Duration,
    /// Counts how often results became outdated.
    serial: u64,
    last: Option<EvaluationView>,
    accuracies: Recent<AccuracyPoint>,
    /// Why the last model could not be measured.
    failure: Option<String>,
}

impl Measuring {
    /// Starts the thread if there is an evaluator; `report` returns false once the room is gone. `budget` is the time
    /// for one model.
    pub(super) fn start(
        report: impl Fn(Evaluation) -> bool + Send + 'static,
        evaluator: Option<Arc<dyn ModelEvaluator>>,
        budget: Duration,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            thread: evaluator.is_some().then(|| EvaluationThread::start(report)).transpose()?,
            evaluator,
            budget,
            serial: 0,
            last: None,
            accuracies: Recent::new(CURVE),
            failure: None,
        })
    }

    /// Restores the curve of a model after `round` rounds; its last point is measured again.
    pub(super) fn restore(&mut self, accuracies: Vec<AccuracyPoint>, round: u32, budget: Duration) {
        let earlier = accuracies.into_iter().filter(|point| point.round < round);
        self.accuracies = Recent::new(CURVE).refilled(earlier);
        self.budget = budget;
    }

    pub(super) fn budget(&self) -> Duration {
        self.budget
    }

    pub(super) fn accuracies(&self) -> impl Iterator<Item = &AccuracyPoint> {
        self.accuracies.iter()
    }

    /// Measures the room's model, unless it has been or is being measured, or cannot be.
    pub(super) fn measure(&mut self, room: &Room, sharing: &Sharing) {
        let (model, serial, round) = (room.model(), self.serial, round_of_weights(room));
        if self.thread.as_ref().is_some_and(|thread| thread.is_due(model))
            && let Ok(held_out) = self.held_out(room, sharing)
            && let Some(thread) = &mut self.thread
        {
            thread.begin(EvaluationJob { serial, round, model: Arc::clone(model), held_out });
        }
    }

    /// Returns everything needed to measure a model of the room's architecture, or the reason why it cannot be
    /// measured.
    pub(super) fn held_out(&self, room: &Room, sharing: &Sharing) -> Result<HeldOut, String> {
        if let Some(reason) = self.why_not(room, sharing) {
            return Err(reason);
        }
        match (&self.evaluator, sharing.data_set()) {
            (Some(evaluator), Some(data_set)) => {
                Ok(HeldOut { evaluator: Arc::clone(evaluator), data_set: Arc::clone(data_set), budget: self.budget })
            }
            _ => Err("This relay has nothing to measure with.".to_owned()),
        }
    }

    /// Why the current model is not measured, in words for people; `None` if it is.
    fn why_not(&self, room: &Room, sharing: &Sharing) -> Option<String> {
        let settings = room.settings();
        if self.thread.is_none() {
            return Some("This relay was started without the means to run its model.".to_owned());
        }
        if room.seal().is_some() || settings.encryption().is_some() {
            return Some(
                "The model is encrypted: the relay averages weights that it cannot read, and so cannot try them on \
                 pictures. Only someone with the key could."
                    .to_owned(),
            );
        }
        if self.budget.is_zero() {
            return Some("There is no time for it: the budget is 0 s a round.".to_owned());
        }
        let Some(data_set) = sharing.data_set() else {
            // Do not name the source: the federation sees this text, and the source may be a folder's path.
            return Some(
                "There are no held-out pictures yet: they are made when rounds are to train on shared pictures."
                    .to_owned(),
            );
        };
        if settings.pictures() == TrainingPictures::Private && data_set.classes != CLASSES {
            return Some(format!(
                "Rounds train on private pictures, whose classes are not those of {}; there is nothing to hold out.",
                data_set.name
            ));
        }
        None
    }

    /// Takes a result on this data set; returns the point that it adds to the curve.
    pub(super) fn measured(
        &mut self,
        Evaluation { serial, round, outcome }: Evaluation,
        data_set: Option<&Arc<SharedDataSet>>,
    ) -> Option<AccuracyPoint> {
        self.thread.as_mut()?.done();
        if serial != self.serial {
            return None;
        }
        match outcome {
            Ok(Measured { pictures, correct, loss, confusion, seconds }) => {
                let accuracy = f64::from(correct) / f64::from(pictures.max(1));
                self.failure = None;
                let point = AccuracyPoint { round, accuracy, loss, pictures };
                self.accuracies.push(point.clone());
                self.last = Some(EvaluationView {
                    round,
                    accuracy,
                    interval: interval(correct, pictures),
                    loss,
                    pictures,
                    confusion,
                    classes: data_set.map(|data_set| data_set.classes.clone()).unwrap_or_default(),
                    seconds,
                    remark: None,
                });
                Some(point)
            }
            Err(reason) => {
                self.failure = Some(format!("The model of round {round} is not measured: {reason}."));
                None
            }
        }
    }

    /// Clears the results for an earlier model. The new model's starting point may have been measured already, and
    /// stays.
    pub(super) fn forget_model(&mut self, model: &Arc<GlobalModel>) {
        if self.thread.as_ref().is_some_and(|thread| thread.knows(model)) {
            self.accuracies.retain(|point| point.round == 0);
            return;
        }
        self.serial += 1;
        (self.last, self.failure) = (None, None);
        self.accuracies.clear();
        if let Some(thread) = &mut self.thread {
            thread.forget();
        }
    }

    /// The last result, and any reason why the current model is not measured.
    pub(super) fn view(&self, room: &Room, sharing: &Sharing) -> Option<EvaluationView> {
        let remark = self.why_not(room, sharing).or_else(|| self.failure.clone());
        match (&self.last, remark) {
            (None, None) => None,
            (last, remark) => Some(EvaluationView { remark, ..last.clone().unwrap_or_default() }),
        }
    }

    /// Sets the time for measuring one model; returns the line to log.
    pub(super) fn set_budget(&mut self, seconds: f64) -> Result<String, String> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(format!(
                "{seconds} is not a valid time for measuring a model; give 0 to {MAX_BUDGET} seconds a round."
            ));
        }
        self.budget = Duration::from_secs_f64(seconds);
        Ok(match seconds {
            0.0 => "The teacher stopped measuring the model.".to_owned(),
            _ => format!("The teacher gives measuring the model {seconds} s a round."),
        })
    }
}

/// The round that produced the room's weights.
fn round_of_weights(room: &Room) -> u32 {
    let round = room.round();
    if room.phase() == RoomPhase::Training { round.saturating_sub(1) } else { round }
}
