//! The weights of an attacked model.

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, InitOptions, LenetInit, ModelState, initial_lenet, initial_weights};
use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::Scale,
    error::ExperimentError,
    run::{ExperimentEvent, ExperimentRun},
    training::train,
};

/// Standard deviation of the q, k and v weights of an ordinary block.
const USUAL_QKV_STD: f32 = 0.02;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Weights {
    /// Drawn as in a new room: an APRIL block has wide q, k and v weights.
    Initial,
    /// The same, but with q, k and v weights as narrow as in other blocks.
    NarrowApril,
    /// A LeNet's weights as Deep Leakage from Gradients draws them.
    Wide,
    /// Trained with `configs/attacked.toml` changed by `set`. `key` is the name of the file, `words` describes the
    /// weights.
    Trained { key: &'static str, set: &'static [&'static str], words: &'static str },
    /// Trained with the config of another study, without a defence.
    FineTuned { config: fn(Scale, u64) -> Result<Config, ConfigError> },
}

#[derive(Debug, Serialize, Deserialize)]
struct TrainedModel {
    weights: Vec<f32>,
    statistics: Vec<f32>,
    accuracy: f64,
}

impl Weights {
    /// Description to follow a model's name.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Initial => "at its initial weights",
            Self::NarrowApril => "at usual initial weights, q, k and v with a standard deviation of 0.02",
            Self::Wide => "at wide initial weights, uniform within 1/2",
            Self::Trained { words, .. } => words,
            Self::FineTuned { .. } => "after fine-tuning",
        }
    }

    /// The weights of `architecture`. Trained weights are cached.
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
            (Self::Trained { .. } | Self::FineTuned { .. }, _) => self.trained(run, architecture),
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

    /// All panels that attack these weights share one file.
    fn key(self, architecture: Architecture) -> String {
        let key = if let Self::Trained { key, .. } = self { key } else { "fine-tuned" };
        format!("{}-{key}-weights", architecture.name())
    }

    fn config(self, run: &ExperimentRun<'_, '_>, architecture: Architecture) -> Result<Config, ExperimentError> {
        let (scale, seed) = (run.request.scale, run.request.seed);
        if let Self::FineTuned { config } = self {
            return Ok(config(scale, seed)?);
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

    /// Accuracy of a cached trained model, in percent of the test pictures.
    pub(super) fn accuracy(
        self,
        run: &ExperimentRun<'_, '_>,
        architecture: Architecture,
    ) -> Result<Option<f64>, ExperimentError> {
        if !matches!(self, Self::Trained { .. } | Self::FineTuned { .. }) {
            return Ok(None);
        }
        let settings = self.config(run, architecture)?.to_toml();
        let kept = run.store.get::<TrainedModel>(&run.file(&self.key(architecture), run.request.seed), &settings)?;
        Ok(kept.map(|model| 100.0 * model.accuracy))
    }
}
