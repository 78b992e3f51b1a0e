//! Runs one training, and tests its model.

use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use unmask_client::TrainingError;
use unmask_core::ModelState;
use unmask_data::datasets::{DataSet, Labelled};
use unmask_model::{ModelError, Network};
use unmask_simulation::{Config, Metrics, Simulation, SimulationError};

use crate::{
    accuracy::{Correctness, mean},
    error::ExperimentError,
    run::{ExperimentEvent, Trainer, notify},
};

/// Test pictures in a batch; limits the memory of a batch with the papers' models.
const TOGETHER: usize = 32;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingRun {
    pub(crate) case: String,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    pub(crate) points: Vec<TestPoint>,
    /// At the first test after training began, if there was one.
    #[serde(rename = "early_hits", default, skip_serializing_if = "Option::is_none")]
    pub(crate) early: Option<Correctness>,
    /// After the last round.
    #[serde(rename = "hits")]
    pub(crate) correctness: Correctness,
    /// Why it ended before the last round, if it did.
    pub(crate) diverged: Option<String>,
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestPoint {
    pub(crate) round: u32,
    pub(crate) epoch: f64,
    /// Mean cross-entropy of the clients' batches since the previous test; `None` before the first round.
    pub(crate) loss: Option<f64>,
    /// On the first of the test pictures, which are the same in every training.
    pub(crate) accuracy: f64,
}

/// Collects rounds into points.
#[derive(Debug, Default)]
struct Curve {
    points: Vec<TestPoint>,
    /// Losses since the last point.
    losses: Vec<f64>,
}

impl Curve {
    fn push(&mut self, round: u32, epoch: f64, accuracy: f64) {
        let loss = (!self.losses.is_empty()).then(|| mean(&self.losses));
        self.losses.clear();
        self.points.push(TestPoint { round, epoch, loss, accuracy });
    }
}

/// Runs one training, the `case` of its study, tests its model on `test_pictures` pictures, and returns both.
pub(crate) fn train(
    trainer: Trainer<'_>,
    case: &str,
    config: &Config,
    data: &DataSet,
    test_pictures: usize,
) -> Result<(TrainingRun, ModelState), ExperimentError> {
    let Trainer { device, threads, on_event } = trainer;
    let clock = Instant::now();
    let config = Config { threads, ..config.clone() };
    let mut simulation = Simulation::new(&config, data, device)?;
    let rounds = simulation.rounds();
    let network = Network::new(simulation.architecture(), device.device())?;
    let tried = |simulation: &Simulation<'_>, pictures: usize| -> Result<Correctness, SimulationError> {
        Ok(test(&network, &simulation.state()?, &data.test, pictures)?)
    };
    let (mut curve, mut early) = (Curve::default(), None);
    let mut advance = |simulation: &mut Simulation<'_>| -> Result<Advance, SimulationError> {
        if simulation.round() == 0 && curve.points.is_empty() && simulation.is_test_due(0) {
            curve.push(0, 0.0, tried(simulation, config.test_pictures)?.accuracy());
        }
        let Metrics { round, epoch, loss, .. } = simulation.step()?;
        curve.losses.extend(loss.map(f64::from));
        let is_last = round == rounds;
        let correctness = match simulation.is_test_due(round) {
            true => Some(tried(simulation, if is_last { test_pictures } else { config.test_pictures })?),
            false => None,
        };
        if let Some(correctness) = &correctness {
            let sample = correctness.of_first(config.test_pictures);
            curve.push(round, epoch, sample.accuracy());
            early.get_or_insert(sample);
        }
        Ok(Advance { round, loss, last: correctness.filter(|_| is_last) })
    };
    // Weights without finite logits classify nothing correctly.
    let nothing = || -> Correctness { (0..data.test.len().min(test_pictures)).map(|_| false).collect() };
    let (correctness, diverged) = loop {
        let Advance { round, loss, last } = match advance(&mut simulation) {
            Ok(advance) => advance,
            Err(error) if has_diverged(&error) => {
                // Weights that would overflow in the next step may still classify pictures.
                let correctness = match tried(&simulation, test_pictures) {
                    Err(SimulationError::Model(ModelError::NonFinite { .. })) => nothing(),
                    correctness => correctness?,
                };
                break (correctness, Some(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let note = loss.map_or(String::new(), |loss| format!("loss {loss:.2}"));
        notify(
            on_event,
            ExperimentEvent::Progress { share: f64::from(round) / f64::from(rounds.max(1)), note: &note },
        )?;
        if let Some(correctness) = last {
            break (correctness, None);
        }
    };
    let state = simulation.state()?;
    let trained = TrainingRun {
        case: case.to_owned(),
        seed: config.seed,
        rounds,
        points: curve.points,
        early,
        correctness,
        diverged,
        seconds: clock.elapsed().as_secs_f64(),
    };
    Ok((trained, state))
}

struct Advance {
    round: u32,
    loss: Option<f32>,
    /// After the last round: which pictures the model classifies correctly.
    last: Option<Correctness>,
}

/// Divergence is a result, common under noise, and not a failure of the experiment.
fn has_diverged(error: &SimulationError) -> bool {
    matches!(
        error,
        SimulationError::Client { source: TrainingError::Model(ModelError::NonFinite { .. }), .. }
            | SimulationError::Model(ModelError::NonFinite { .. })
            | SimulationError::Refused { .. }
    )
}

/// Which of the first `pictures` of `set` the model classifies correctly.
fn test(network: &Network, state: &ModelState, set: &Labelled, pictures: usize) -> Result<Correctness, ModelError> {
    let architecture = network.architecture();
    let (side, classes) = (architecture.side(), architecture.classes());
    let all: Vec<usize> = (0..set.len().min(pictures)).collect();
    let answers: Vec<Vec<bool>> = all
        .par_chunks(TOGETHER)
        .map(|indices| {
            let images: Vec<f32> = indices.iter().filter_map(|&index| set.chw_resized(index, side)).flatten().collect();
            let labels: Vec<usize> = indices.iter().map(|&index| usize::from(set.labels()[index])).collect();
            let found = network.evaluate_blocking(state, &images, &labels)?;
            Ok(found.logits.chunks_exact(classes).zip(labels).map(|(row, label)| predicted(row) == label).collect())
        })
        .collect::<Result<_, ModelError>>()?;
    Ok(answers.into_iter().flatten().collect())
}

/// The class with the largest logit; the first one if several are equal.
fn predicted(logits: &[f32]) -> usize {
    let best = |best: usize, class: usize| if logits[class] > logits[best] { class } else { best };
    (0..logits.len()).fold(0, best)
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, path::Path};

    use unmask_data::datasets::Source;
    use unmask_model::device::OpenDevice;

    use super::*;

    const TESTED: usize = 30;

    fn trained(set: &[&str]) -> TrainingRun {
        let usual = [
            "model=vit_pico_patch4_16",
            "data=generated",
            "train-slice=0..60",
            "clients=2",
            "batch=4",
            "rounds=5",
            "evaluate-every=2",
            "test-pictures=20",
        ];
        let set: Vec<String> = usual.iter().chain(set).map(|&set| set.to_owned()).collect();
        let config = Config::read("", &set).unwrap();
        let data = DataSet::load(&Source::Generated, Path::new(""), 1).unwrap();
        let device = OpenDevice::cpu();
        let trainer = Trainer { device: &device, threads: Some(2), on_event: &mut |_| ControlFlow::Continue(()) };
        train(trainer, "none", &config, &data, TESTED).unwrap().0
    }

    fn rounds(run: &TrainingRun) -> Vec<u32> {
        run.points.iter().map(|point| point.round).collect()
    }

    #[test]
    fn every_point_is_of_the_same_pictures_and_the_last_of_those_tested_in_the_end() {
        let run = trained(&[]);
        assert_eq!(rounds(&run), [0, 2, 4, 5]);
        assert_eq!(run.correctness.pictures(), TESTED);
        let early = run.early.unwrap();
        assert_eq!(early.pictures(), 20);
        assert_eq!(run.points[1].accuracy, early.accuracy());
        assert_eq!(run.points[3].accuracy, run.correctness.of_first(20).accuracy());
        assert!(run.points[0].loss.is_none() && run.points[1..].iter().all(|point| point.loss.is_some()));
        assert_eq!(run.diverged, None);
    }

    #[test]
    fn without_tests_on_the_way_the_last_is_the_first() {
        let run = trained(&["evaluate-every=0"]);
        assert_eq!(rounds(&run), [5]);
        assert_eq!(run.early, Some(run.correctness.of_first(20)));
    }

    #[test]
    fn a_training_that_grows_beyond_all_bounds_says_so_and_is_tested_as_it_stands() {
        let run = trained(&["optimiser=sgd:1e30"]);
        assert!(run.diverged.is_some(), "{run:?}");
        assert_eq!((rounds(&run), run.correctness.pictures()), (vec![0], TESTED));
        assert_eq!(run.early, None);
    }
}
