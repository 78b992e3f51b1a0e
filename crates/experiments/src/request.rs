//! The request for an experiment.

mod record;

use std::path::PathBuf;

use unmask_data::datasets::{DataSet, Source};
use unmask_model::device::OpenDevice;
use unmask_simulation::{Commit, Config, check_start};

pub(crate) use self::record::{ReproduceSettings, RunRecord};
use crate::{
    catalogue::{Experiment, Scale},
    error::ExperimentError,
    parts::PartFolder,
    study::{self, Seeds, Study},
    trade_off,
};

#[derive(Debug, Clone)]
pub struct ExperimentRequest<'a> {
    pub experiment: Experiment,
    pub scale: Scale,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds; the scale's default if absent.
    pub seeds: Option<u64>,
    /// The experiment creates its own folder in this one.
    pub out: PathBuf,
    pub cifar10: PathBuf,
    /// A safetensors file of pretrained weights to use in place of the scale's.
    pub weights: Option<PathBuf>,
    pub device: &'a OpenDevice,
    /// Number of threads; all if absent.
    pub threads: Option<usize>,
    pub commit: Option<Commit>,
}

impl ExperimentRequest<'_> {
    /// Checks the request as far as possible before anything is computed.
    ///
    /// # Errors
    /// There are no seeds or threads, or the weights are missing, belong to another model or would not be used.
    pub fn check(&self) -> Result<(), ExperimentError> {
        if self.seeds == Some(0) {
            return Err(ExperimentError::NoSeeds);
        }
        if self.threads == Some(0) {
            return Err(ExperimentError::NoThreads);
        }
        self.check_weights(self.scale)?;
        if self.weights.is_none() && self.scale == Scale::Paper && self.experiment.takes_weights() {
            return Err(ExperimentError::NeedsWeights {
                experiment: self.experiment.name(),
                model: "vit_small_patch16_224".to_owned(),
            });
        }
        Ok(())
    }

    /// Checks that any given weights fit the model that the experiment trains at `scale`.
    ///
    /// # Errors
    /// They do not fit, or the experiment does not use them.
    pub(crate) fn check_weights(&self, scale: Scale) -> Result<(), ExperimentError> {
        let Some(start) = self.start() else { return Ok(()) };
        let study = Study::of(self.experiment, scale).filter(|_| self.experiment.takes_weights());
        let Some(study) = study else {
            return Err(ExperimentError::UnusedWeights { experiment: self.experiment.name() });
        };
        let Some(case) = study.cases.first() else { return Ok(()) };
        Ok(check_start(&study.config(case, self.seed, &[start])?)?)
    }

    /// The config override for the given weights, if there are any.
    pub(crate) fn start(&self) -> Option<String> {
        self.weights.as_ref().map(|path| format!("start={}", path.display()))
    }

    /// Describes the run in one line: model, pictures, clients and rounds, where they apply.
    ///
    /// # Errors
    /// The experiment's own settings are invalid.
    pub fn describe(&self) -> Result<String, ExperimentError> {
        let Self { experiment, scale, seed, .. } = self;
        let what = match (Study::of(*experiment, *scale), experiment) {
            (Some(study), _) => {
                let studies = match experiment {
                    Experiment::TradeOff => trade_off::studies(*scale, self.has_cifar10(), &study),
                    _ => vec![study],
                };
                let mut all = Vec::new();
                for study in &studies {
                    let Some(case) = study.cases.first() else { continue };
                    let Seeds { least, most } = self.seeds(study);
                    let cases = study.cases.len() as u64;
                    let more = if most > least { format!(" to {}", cases * most) } else { String::new() };
                    let config = study.config(case, *seed, &[])?;
                    all.push(format!("{}{more} trainings, each of {}", cases * least, training(&config, *scale)));
                }
                Some(all.join("; ")).filter(|all| !all.is_empty())
            }
            (None, Experiment::UpdateRatios) => {
                Some(format!("trainings of {}", training(&study::update_ratios(*scale, *seed, "none", &[])?, *scale)))
            }
            (None, _) => None,
        };
        let what = what.unwrap_or_else(|| format!("{}, {scale} scale", experiment.title()));
        Ok(format!("{experiment}: {what}"))
    }

    /// The same request for one of several parts. All parts must use the same fixed number of seeds.
    pub(crate) fn of_part(&self, part: &PartFolder) -> Self {
        let least = Study::of(self.experiment, self.scale).map(|study| self.seeds(&study).least);
        Self { seeds: self.seeds.or(least), out: part.path().to_owned(), ..self.clone() }
    }

    /// The command that repeats the run, without paths of this machine.
    pub(crate) fn command(&self) -> String {
        let Self { experiment, scale, seed, seeds, weights, .. } = self;
        let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
        let weights = if weights.is_some() { " --weights FILE" } else { "" };
        format!("unmask reproduce {experiment} --scale {scale} --seed {seed}{seeds}{weights} --out reports")
    }

    /// Loads the pictures. Generated ones are drawn from the seed.
    pub(crate) fn load(&self, source: &Source) -> Result<DataSet, ExperimentError> {
        Ok(DataSet::load(source, &self.cifar10, self.seed)?)
    }

    /// Whether CIFAR-10 is available. Some experiments add cases if it is.
    pub(crate) fn has_cifar10(&self) -> bool {
        self.cifar10.is_dir()
    }

    pub(crate) fn seeds(&self, study: &Study) -> Seeds {
        self.seeds.map_or(study.seeds, Seeds::exactly)
    }
}

fn training(config: &Config, scale: Scale) -> String {
    let Config { model, data, clients, rule, rounds, epochs, .. } = config;
    let length = match (rounds, epochs) {
        (Some(rounds), _) => format!("{rounds} rounds"),
        (None, epochs) => format!("{} epochs", epochs.unwrap_or(0)),
    };
    format!("{model} on {data} with {clients} clients for {length} of {rule} ({scale} scale)")
}
