//! The measured quality of the room's model, as the room shows it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use unmask_core::TrainingPictures;
use unmask_data::CLASSES;
use unmask_federation::{GlobalModel, Room, RoomPhase};
use unmask_wire::view::{AccuracyPoint, EvaluationView};

use super::{
    data_set::SharedDataSet,
    evaluation::{Evaluation, HeldOut, Measured, ModelEvaluator, interval},
    host::{Host, Work},
    input::Input,
    recent::{CURVE, Recent},
    sharing::Sharing,
};

/// Upper limit of the time for measuring one model, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// Why the room's model is not measured, in a sentence.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotMeasured {
    #[error("This relay was started without the means to run its model.")]
    NoEvaluator,
    #[error(
        "The model is encrypted: the relay averages weights that it cannot read, and so cannot try them on pictures. \
         Only someone with the key could."
    )]
    Encrypted,
    #[error("There is no time for it: the budget is 0 s a round.")]
    NoTime,
    /// Does not name the source, which may be a folder's path: the outer federation sees this text.
    #[error("There are no held-out pictures yet: they are made when rounds are to train on shared pictures.")]
    NoPictures,
    #[error(
        "Rounds train on private pictures, whose classes are not those of {data_set}; there is nothing to hold out."
    )]
    OtherClasses { data_set: String },
}

#[derive(Debug, thiserror::Error)]
#[error("{seconds} is not a valid time for measuring a model; give 0 to {MAX_BUDGET} seconds a round.")]
pub struct BudgetError {
    seconds: f64,
}

/// The room's side of the evaluation: when to measure, and the results on show.
#[derive(Debug)]
pub(super) struct Measuring {
    /// `None` if this room cannot measure.
    evaluator: Option<Arc<dyn ModelEvaluator>>,
    /// The model measured last, or being measured.
    newest: Weak<GlobalModel>,
    is_busy: bool,
    budget: Duration,
    /// Counts how often results became outdated.
    serial: u64,
    last: Option<EvaluationView>,
    accuracies: Recent<AccuracyPoint>,
    /// Why the last model could not be measured.
    failure: Option<String>,
}

impl Measuring {
    /// `budget` is the time for one model.
    pub(super) fn new(evaluator: Option<Arc<dyn ModelEvaluator>>, budget: Duration) -> Self {
        Self {
            evaluator,
            newest: Weak::new(),
            is_busy: false,
            budget,
            serial: 0,
            last: None,
            accuracies: Recent::new(CURVE),
            failure: None,
        }
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

    /// Has the room's model measured, without copying it, unless it has been or is being measured, or cannot be. Models
    /// are not queued: once one is measured, the room's current model is next.
    pub(super) fn measure(&mut self, room: &Room, sharing: &Sharing, host: &mut dyn Host) {
        if self.is_busy || self.knows(room.model()) {
            return;
        }
        let Ok(held_out) = self.held_out(room, sharing) else { return };
        let (model, serial, round) = (Arc::clone(room.model()), self.serial, round_of_weights(room));
        self.newest = Arc::downgrade(&model);
        self.is_busy = host.start(Work::new("evaluation", move |outside| {
            let outcome = held_out.measure(&model, &|| outside.now());
            // A round that closes meanwhile writes its new weights elsewhere as long as this model is alive.
            drop(model);
            outside.tell(Input::Evaluated(Evaluation { serial, round, outcome }));
        }));
        if !self.is_busy {
            self.failure = Some(format!("The model of round {round} is not measured: there is no thread for it."));
        }
    }

    /// Whether this model is being measured, or was the last to be measured.
    fn knows(&self, model: &Arc<GlobalModel>) -> bool {
        std::ptr::eq(self.newest.as_ptr(), Arc::as_ptr(model))
    }

    /// Returns everything needed to measure the room's model.
    ///
    /// # Errors
    /// Why it is not measured.
    pub(super) fn held_out(&self, room: &Room, sharing: &Sharing) -> Result<HeldOut, NotMeasured> {
        let settings = room.settings();
        let evaluator = Arc::clone(self.evaluator.as_ref().ok_or(NotMeasured::NoEvaluator)?);
        if room.seal().is_some() || settings.encryption().is_some() {
            return Err(NotMeasured::Encrypted);
        }
        if self.budget.is_zero() {
            return Err(NotMeasured::NoTime);
        }
        let data_set = Arc::clone(sharing.data_set().ok_or(NotMeasured::NoPictures)?);
        if settings.pictures() == TrainingPictures::Private && data_set.classes != CLASSES {
            return Err(NotMeasured::OtherClasses { data_set: data_set.name.clone() });
        }
        Ok(HeldOut { evaluator, data_set, budget: self.budget })
    }

    /// Takes a result on this data set; returns the point that it adds to the curve.
    pub(super) fn measured(
        &mut self,
        Evaluation { serial, round, outcome }: Evaluation,
        data_set: Option<&Arc<SharedDataSet>>,
    ) -> Option<AccuracyPoint> {
        self.is_busy = false;
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
        if self.knows(model) {
            self.accuracies.retain(|point| point.round == 0);
            return;
        }
        self.serial += 1;
        (self.last, self.failure) = (None, None);
        self.accuracies.clear();
        self.newest = Weak::new();
    }

    /// The last result, and any reason why the current model is not measured.
    pub(super) fn view(&self, room: &Room, sharing: &Sharing) -> Option<EvaluationView> {
        let remark =
            self.held_out(room, sharing).err().map(|reason| reason.to_string()).or_else(|| self.failure.clone());
        match (&self.last, remark) {
            (None, None) => None,
            (last, remark) => Some(EvaluationView { remark, ..last.clone().unwrap_or_default() }),
        }
    }

    /// Sets the time for measuring one model; returns the line to log.
    pub(super) fn set_budget(&mut self, seconds: f64) -> Result<String, BudgetError> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(BudgetError { seconds });
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

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, ClientId, ModelState, RoundSettings, VitPreset};
    use unmask_data::datasets::{
        DataSet,
        generated::{Half, generate},
    };
    use unmask_defence::ProtectedUpdate;
    use unmask_federation::{Event, ReceivedUpdate};

    use super::*;
    use crate::{data_set::DataConfig, evaluation::BatchEvaluation, snapshot::Snapshot};

    #[derive(Debug)]
    struct Nothing;

    impl ModelEvaluator for Nothing {
        fn evaluate(&self, _: Architecture, _: &ModelState, _: &[f32], _: &[usize]) -> anyhow::Result<BatchEvaluation> {
            anyhow::bail!("not asked")
        }
    }

    /// Counts the work that it is asked to start.
    #[derive(Default)]
    struct Busy(usize);

    impl Host for Busy {
        fn publish(&mut self, _: Snapshot) {}

        fn erase_set_aside(&mut self) -> bool {
            true
        }

        fn start(&mut self, _: Work) -> bool {
            self.0 += 1;
            true
        }

        fn expect(&mut self, _: Architecture) {}

        fn reuse(&mut self, _: Vec<f32>) {}
    }

    fn load(_: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
        let half = |half, count| generate(half, count, seed);
        let (train, test) = (half(Half::Train, 10)?, half(Half::Test, 10)?);
        Ok(DataSet { name: "shapes".to_owned(), train, test, left_out: Vec::new() })
    }

    fn surroundings() -> (Measuring, Room, Sharing) {
        let config = DataConfig::default();
        let data_set = SharedDataSet::load(load, &config, 1).unwrap();
        let architecture = Architecture::from(VitPreset::Pico);
        let model = GlobalModel { architecture, state: architecture.initial(1) };
        let settings = RoundSettings::new(Default::default(), Default::default(), 1, Default::default()).unwrap();
        let settings = settings.with_pictures(TrainingPictures::Shared { shard: 1 });
        let measuring = Measuring::new(Some(Arc::new(Nothing)), Duration::from_secs(5));
        (measuring, Room::new(model, settings), Sharing::new(config, 1, Some(data_set), load))
    }

    fn outcome(round: u32) -> Evaluation {
        let measured = Measured { pictures: 4, correct: 1, loss: 2.0, confusion: Vec::new(), seconds: 0.1 };
        Evaluation { serial: 0, round, outcome: Ok(measured) }
    }

    #[test]
    fn each_model_is_measured_once_one_at_a_time() {
        let (mut measuring, mut room, sharing) = surroundings();
        let mut host = Busy::default();
        let mut asks = |measuring: &mut Measuring, room: &Room| {
            let before = host.0;
            measuring.measure(room, &sharing, &mut host);
            host.0 - before
        };
        assert_eq!((asks(&mut measuring, &room), round_of_weights(&room)), (1, 0));
        assert_eq!(asks(&mut measuring, &room), 0);
        room.handle(Event::Joined(ClientId(1)));
        room.handle(Event::Start);
        assert_eq!((room.round(), round_of_weights(&room)), (1, 0), "its weights come later");
        let update = ProtectedUpdate::dense(vec![0.5; room.model().state.weights.len()]);
        let (client, round, policy, loss, samples) = (ClientId(1), 1, room.policy(), 1.0, 1);
        room.handle(Event::Update(ReceivedUpdate {
            client,
            round,
            policy,
            loss,
            samples,
            update,
            statistics: Vec::new(),
        }));
        assert_eq!(round_of_weights(&room), 1);
        assert_eq!(asks(&mut measuring, &room), 0, "the first is still being measured");
        let point = measuring.measured(outcome(0), None).unwrap();
        assert_eq!((point.round, point.accuracy), (0, 0.25));
        assert_eq!(asks(&mut measuring, &room), 1);
        measuring.measured(outcome(1), None).unwrap();
        assert_eq!(asks(&mut measuring, &room), 0, "it is the one measured last");
        assert_eq!(measuring.accuracies().map(|point| point.round).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn without_time_nothing_is_measured_and_the_last_result_stays() {
        let (mut measuring, room, sharing) = surroundings();
        assert_eq!(measuring.view(&room, &sharing), None);
        measuring.measured(outcome(0), None).unwrap();
        measuring.set_budget(-1.0).unwrap_err();
        assert_eq!(measuring.budget(), Duration::from_secs(5));
        measuring.set_budget(0.0).unwrap();
        assert_eq!(measuring.budget(), Duration::ZERO);
        assert_eq!(measuring.held_out(&room, &sharing).unwrap_err(), NotMeasured::NoTime);
        let view = measuring.view(&room, &sharing).unwrap();
        assert_eq!((view.pictures, view.remark), (4, Some(NotMeasured::NoTime.to_string())));
        let point = |round| AccuracyPoint { round, accuracy: 0.5, loss: 1.0, pictures: 4 };
        measuring.restore(vec![point(1), point(2)], 2, Duration::from_secs(3));
        assert_eq!(measuring.budget(), Duration::from_secs(3));
        assert_eq!(measuring.accuracies().map(|point| point.round).collect::<Vec<_>>(), [1]);
    }
}
