//! Which experiment is run, and with what.

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
    /// The first seed; further ones are counted up from it.
    pub seed: u64,
    /// How many seeds; what suits the scale if absent.
    pub seeds: Option<u64>,
    /// Where the experiment gets a folder of its own.
    pub out: PathBuf,
    pub cifar10: PathBuf,
    /// A safetensors file of pretrained weights, in place of those the scale begins with.
    pub weights: Option<PathBuf>,
    pub device: &'a OpenDevice,
    /// Threads to compute with; all if absent.
    pub threads: Option<usize>,
    pub commit: Option<Commit>,
}

impl ExperimentRequest<'_> {
    /// Whether it can be met, as far as that shows before anything is computed.
    ///
    /// # Errors
    /// There are no seeds or threads, or the weights are missing, are another model's or would not be used.
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

    /// Whether the weights that are given, if any are, are those of the model that the experiment trains at `scale`.
    ///
    /// # Errors
    /// They are not, or the experiment has no use for them.
    pub(crate) fn check_weights(&self, scale: Scale) -> Result<(), ExperimentError> {
        let Some(start) = self.start() else { return Ok(()) };
        let study = Study::of(self.experiment, scale).filter(|_| self.experiment.takes_weights());
        let Some(study) = study else {
            return Err(ExperimentError::UnusedWeights { experiment: self.experiment.name() });
        };
        let Some(case) = study.cases.first() else { return Ok(()) };
        Ok(check_start(&study.config(case, self.seed, &[start])?)?)
    }

    /// The key of a config that sets where weights come from, if it is not what the study says.
    pub(crate) fn start(&self) -> Option<String> {
        self.weights.as_ref().map(|path| format!("start={}", path.display()))
    }

    /// What is run, in a line: model, pictures, clients and rounds where there are such.
    ///
    /// # Errors
    /// The experiment's own settings do not fit.
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

    /// The same for one of several parts: each knows beforehand how many seeds there are.
    pub(crate) fn of_part(&self, part: &PartFolder) -> Self {
        let least = Study::of(self.experiment, self.scale).map(|study| self.seeds(&study).least);
        Self { seeds: self.seeds.or(least), out: part.path().to_owned(), ..self.clone() }
    }

    /// The command that does it again, without the paths of one machine.
    pub(crate) fn command(&self) -> String {
        let Self { experiment, scale, seed, seeds, weights, .. } = self;
        let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
        let weights = if weights.is_some() { " --weights FILE" } else { "" };
        format!("unmask reproduce {experiment} --scale {scale} --seed {seed}{seeds}{weights} --out reports")
    }

    /// The pictures. Generated ones are drawn from the seed.
    pub(crate) fn load(&self, source: &Source) -> Result<DataSet, ExperimentError> {
        Ok(DataSet::load(source, &self.cifar10, self.seed)?)
    }

    /// Whether the photographs are there, which an experiment adds where it can.
    pub(crate) fn has_cifar10(&self) -> bool {
        self.cifar10.is_dir()
    }

    /// With how many seeds each training is repeated.
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
