//! Where the weights of an attacked model come from.

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, InitOptions, LenetInit, ModelState, initial_lenet, initial_weights};
use unmask_simulation::Config;

use crate::{
    catalogue::{Experiment, Scale},
    error::ExperimentError,
    run::{ExperimentEvent, ExperimentRun},
    study::Study,
    training::train,
};

/// Standard deviation of the q, k and v weights of a block that nothing was changed for.
const USUAL_QKV_STD: f32 = 0.02;

/// Where an attacked model's weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    /// As a new room draws them: of a block made for APRIL with wide q, k and v weights.
    Initial,
    /// The same with q, k and v weights as narrow as everywhere else.
    NarrowApril,
    /// A LeNet's as Deep Leakage from Gradients draws them.
    Wide,
    /// What this network came to by `configs/attacked.toml` with these changes, what they are in words, and the name of its file.
    Trained { key: &'static str, set: &'static [&'static str], words: &'static str },
    /// What the study `vit-fine-tuned` came to without a defence.
    FineTuned,
}

/// A model that was trained to be attacked.
#[derive(Debug, Serialize, Deserialize)]
struct TrainedModel {
    weights: Vec<f32>,
    statistics: Vec<f32>,
    /// Share of test pictures that it classifies correctly.
    accuracy: f64,
}

impl Weights {
    /// What they are, to follow a model's name.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Initial => "at its initial weights",
            Self::NarrowApril => "at usual initial weights, q, k and v with a standard deviation of 0.02",
            Self::Wide => "at wide initial weights, uniform within 1/2",
            Self::Trained { words, .. } => words,
            Self::FineTuned => "after fine-tuning",
        }
    }

    /// The weights of `architecture`; trained ones are kept.
    ///
    /// # Errors
    /// The pictures are missing, or training fails or is ended.
    pub(super) fn state(
        self,
        run: &mut ExperimentRun<'_, '_>,
        architecture: Architecture,
    ) -> Result<ModelState, ExperimentError> {
        let seed = run.request.seed;
        match (self, architecture) {
            (Self::NarrowApril, Architecture::Vit(config)) => {
                let options = InitOptions { april_qkv_std: USUAL_QKV_STD };
                Ok(ModelState::from_weights(initial_weights(&config, seed, options)))
            }
            (Self::Wide, Architecture::Lenet(config)) => {
                Ok(ModelState::from_weights(initial_lenet(&config, seed, LenetInit::Wide)))
            }
            (Self::Trained { .. } | Self::FineTuned, _) => self.trained(run, architecture),
            (Self::Initial | Self::NarrowApril | Self::Wide, _) => Ok(architecture.initial(seed)),
        }
    }

    fn trained(
        self,
        run: &mut ExperimentRun<'_, '_>,
        architecture: Architecture,
    ) -> Result<ModelState, ExperimentError> {
        let config = self.config(run, architecture)?;
        let (key, settings) = (self.key(architecture), config.to_toml());
        let file = run.file(&key, run.request.seed);
        if let Some(TrainedModel { weights, statistics, .. }) = run.store.get(&file, &settings)? {
            return Ok(ModelState { weights, statistics });
        }
        run.notify(ExperimentEvent::CaseStarted { name: &key })?;
        let data = run.request.load(&config.data)?;
        let (trained, state) = train(run.trainer(), &key, &config, &data, config.test_pictures)?;
        let ModelState { weights, statistics } = state.clone();
        let model = TrainedModel { weights, statistics, accuracy: trained.correctness.accuracy() };
        run.store.put(&file, &settings, &model)?;
        Ok(state)
    }

    /// One file for all panels that attack these weights.
    fn key(self, architecture: Architecture) -> String {
        let key = if let Self::Trained { key, .. } = self { key } else { "fine-tuned" };
        format!("{}-{key}-weights", architecture.name())
    }

    fn config(self, run: &ExperimentRun<'_, '_>, architecture: Architecture) -> Result<Config, ExperimentError> {
        let (scale, seed) = (run.request.scale, run.request.seed);
        if self == Self::FineTuned
            && let Some(study) = Study::of(Experiment::VitFineTuned, scale)
            && let Some(case) = study.cases.first()
        {
            return Ok(study.config(case, seed, &[])?);
        }
        let tiny: &[&str] = &["data=generated", "clients=2", "batch=2", "rounds=2", "test-pictures=8"];
        let also = match self {
            Self::Trained { set, .. } => set,
            _ => &[],
        };
        let of_scale = if scale == Scale::Tiny { tiny } else { &[] };
        let own = [format!("model={}", architecture.name()), format!("seed={seed}")];
        let set: Vec<String> = [also, of_scale].concat().into_iter().map(str::to_owned).chain(own).collect();
        Ok(Config::read(include_str!("../../configs/attacked.toml"), &set)?)
    }

    /// How well a trained model that is kept classifies, in percent of the test pictures.
    pub(super) fn accuracy(
        self,
        run: &ExperimentRun<'_, '_>,
        architecture: Architecture,
    ) -> Result<Option<f64>, ExperimentError> {
        if !matches!(self, Self::Trained { .. } | Self::FineTuned) {
            return Ok(None);
        }
        let settings = self.config(run, architecture)?.to_toml();
        let kept = run.store.get::<TrainedModel>(&run.file(&self.key(architecture), run.request.seed), &settings)?;
        Ok(kept.map(|model| 100.0 * model.accuracy))
    }
}
