//! The trainings of a sweep, and what determines them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unmask_simulation::{Config, ConfigError, is_model_file};

use super::SweepRequest;
use crate::{
    error::ExperimentError,
    parts::Build,
    store::{ROWS, file},
};

/// The most trainings of a sweep, because each part stores their list.
const MOST: usize = 100_000;

/// Config keys that a sweep cannot vary, with the reasons.
const FIXED: [(&str, &str); 5] = [
    ("seed", "--seeds K repeats each training with K seeds, counted up from the config's"),
    ("device", "one device computes all trainings; set it with --set device=gpu"),
    ("threads", "no result depends on it; give --threads N"),
    ("data-dir", "it is a folder of this machine; set it for all trainings with --set"),
    ("passphrase", "no part.json may hold it; write it in the config"),
];

/// A config key with its values, written `KEY=V1; V2` because a value may contain commas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" varies nothing; write KEY=V1; V2, such as 'defence=none; random-binary:0.5'")]
pub struct ParseAxisError(String);

impl FromStr for Axis {
    type Err = ParseAxisError;

    fn from_str(text: &str) -> Result<Self, ParseAxisError> {
        let refused = || ParseAxisError(text.to_owned());
        let (key, values) = text.split_once('=').ok_or_else(refused)?;
        let values: Vec<String> = values.split(';').map(|value| value.trim().to_owned()).collect();
        let key = key.trim().to_owned();
        if key.is_empty() || values.iter().any(String::is_empty) { Err(refused()) } else { Ok(Self { key, values }) }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.values.join("; "))
    }
}

/// The contents of `run.json`. All trainings in a folder belong to one sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    #[serde(flatten)]
    pub(super) build: Build,
    pub(super) settings: SweepSettings,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SweepSettings {
    /// The config before any key is varied, without the keys of one machine and without the passphrase.
    pub(super) config: Config,
    pub(super) vary: Vec<Axis>,
    pub(super) seeds: u64,
}

#[derive(Debug)]
pub(super) struct SweepPlan {
    pub(super) run: RunRecord,
    pub(super) base: Config,
    /// Seed by seed, so that a partial run can already be compared.
    pub(super) cases: Vec<SweepCase>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SweepCase {
    pub(super) file: String,
    /// Its values, without the seed.
    pub(super) key: String,
    /// Its values with the seed, for readers.
    pub(super) name: String,
    pub(super) config: Config,
}

impl SweepCase {
    /// The settings that determine its result.
    pub(super) fn settings(&self) -> String {
        of_any_machine(&self.config).to_toml()
    }
}

impl SweepPlan {
    pub(super) fn new(request: &SweepRequest<'_>) -> Result<Self, ExperimentError> {
        let SweepRequest { config: text, set, vary, seeds, .. } = *request;
        check(vary, seeds)?;
        let base = Config::read(text, set).and_then(Config::resolved)?;
        let read = |values: &[String]| {
            let config = Config::read(text, &[set, values].concat()).and_then(Config::resolved)?;
            config.validate().map(|_| config)
        };
        let settings = SweepSettings { config: of_any_machine(&base), vary: vary.to_vec(), seeds };
        let cases = cases(&settings, &read)?;
        Ok(Self {
            run: RunRecord { build: Build::new(request.commit.as_ref(), request.device), settings },
            base,
            cases,
        })
    }

    /// The plan of a sweep with all trainings finished.
    pub(super) fn finished(run: RunRecord) -> Result<Self, ExperimentError> {
        let base = run.settings.config.clone();
        let text = base.to_toml();
        // The passphrase is in no file, so the config cannot be validated where one is needed.
        let read = |values: &[String]| Config::read(&text, values);
        let cases = cases(&run.settings, &read)?;
        Ok(Self { run, base, cases })
    }

    /// The files of all trainings, relative to the sweep's folder.
    pub(super) fn files(&self) -> Vec<String> {
        self.cases.iter().map(|case| format!("{ROWS}/{}", file(&case.file))).collect()
    }

    /// The values of each combination, in the order of the cases of one seed.
    pub(super) fn combinations(&self) -> Vec<Vec<&str>> {
        combinations(&self.run.settings.vary)
    }
}

/// The config without the keys that may differ between machines.
fn of_any_machine(config: &Config) -> Config {
    Config { threads: None, data_dir: None, passphrase: None, ..config.clone() }
}

fn check(vary: &[Axis], seeds: u64) -> Result<(), ExperimentError> {
    if seeds == 0 {
        return Err(ExperimentError::NoSeeds);
    }
    for (at, axis) in vary.iter().enumerate() {
        if let Some((_, reason)) = FIXED.iter().find(|(key, _)| *key == axis.key) {
            return Err(ExperimentError::Axis { key: axis.key.clone(), reason });
        }
        if vary[..at].iter().any(|other| other.key == axis.key) {
            return Err(ExperimentError::Axis { key: axis.key.clone(), reason: "it is varied twice; join its values" });
        }
        if axis.key == "model" && axis.values.iter().any(|value| is_model_file(value)) {
            let reason =
                "a file is of this machine; write each model as a name, such as vit_patch8_dim128_depth6_heads2_64";
            return Err(ExperimentError::Axis { key: axis.key.clone(), reason });
        }
        for (at, value) in axis.values.iter().enumerate() {
            if axis.values[..at].contains(value) {
                return Err(ExperimentError::Duplicate { what: "the value", name: format!("{}={value}", axis.key) });
            }
        }
    }
    let sizes = vary.iter().map(|axis| axis.values.len()).chain([usize::try_from(seeds).unwrap_or(usize::MAX)]);
    let cases = sizes.fold(1, usize::saturating_mul);
    if cases > MOST {
        return Err(ExperimentError::TooManyCases { cases: cases.to_string(), most: MOST });
    }
    Ok(())
}

fn combinations(vary: &[Axis]) -> Vec<Vec<&str>> {
    vary.iter().fold(vec![Vec::new()], |all, axis| {
        let with = |values: &Vec<_>, value| values.iter().copied().chain([value]).collect();
        all.iter().flat_map(|values| axis.values.iter().map(move |value| with(values, value.as_str()))).collect()
    })
}

fn cases(
    settings: &SweepSettings,
    read: &dyn Fn(&[String]) -> Result<Config, ConfigError>,
) -> Result<Vec<SweepCase>, ExperimentError> {
    let SweepSettings { config, vary, seeds } = settings;
    let combinations = combinations(vary);
    let mut cases = Vec::new();
    for seed in (0..*seeds).map(|number| config.seed.wrapping_add(number)) {
        for values in &combinations {
            let mut set: Vec<String> =
                vary.iter().zip(values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
            let key = if set.is_empty() { "the config".to_owned() } else { set.join(", ") };
            let name = format!("{key}, seed {seed}");
            set.push(format!("seed={seed}"));
            let config = read(&set).map_err(|source| ExperimentError::Case { case: name.clone(), source })?;
            cases.push(SweepCase { file: format!("{:05}-seed-{seed}", cases.len()), key, name, config });
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unmask_model::device::OpenDevice;

    use super::*;

    const CONFIG: &str = "model = \"vit_pico_patch4_16\"\ndefence = \"encrypted\"\noptimiser = \"sgd:0.1\"\nclients = 2\nrounds = 3\nseed = 5\nthreads = 1\npassphrase = \"secret\"\n";

    fn plan(vary: &[&str], set: &[&str], seeds: u64) -> Result<SweepPlan, ExperimentError> {
        let vary: Vec<Axis> = vary.iter().map(|axis| axis.parse().unwrap()).collect();
        let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        SweepPlan::new(&SweepRequest {
            config: CONFIG,
            set: &set,
            vary: &vary,
            seeds,
            cifar10: "nowhere".into(),
            device: &OpenDevice::cpu(),
            threads: None,
            commit: None,
            out: Path::new("nowhere"),
        })
    }

    #[test]
    fn cases_are_all_values_with_all_seeds() {
        let plan =
            plan(&["defence=none; gaussian:eps=4,delta=0.5,clip=0.5", "batch=2;4;8"], &["clients=3"], 2).unwrap();
        assert_eq!((plan.cases.len(), plan.combinations().len()), (12, 6));
        let SweepCase { file, name, config, .. } = &plan.cases[10];
        assert_eq!(file, "00010-seed-6");
        assert_eq!(name, "defence=gaussian:eps=4,delta=0.5,clip=0.5, batch=4, seed 6");
        assert_eq!((config.batch, config.seed, config.clients, config.rounds), (4, 6, 3, Some(3)));
        assert_eq!(plan.files()[10], "rows/00010-seed-6.json");
        assert_eq!(plan.cases[0].key, plan.cases[6].key);
        assert_eq!(plan.combinations()[5], ["gaussian:eps=4,delta=0.5,clip=0.5", "8"]);
    }

    /// The record in `part.json` gives the same cases on any machine.
    #[test]
    fn a_plan_is_made_again_of_its_record() {
        let vary = ["defence=none; encrypted", "rounds=2; 3"];
        let one = plan(&vary, &[], 1).unwrap();
        let there = plan(&vary, &["threads=7", "data-dir=/elsewhere"], 1).unwrap();
        let text = serde_json::to_string(&one.run).unwrap();
        assert_eq!(text, serde_json::to_string(&there.run).unwrap());
        assert!(!text.contains("secret"), "{text}");
        let again = SweepPlan::finished(serde_json::from_str(&text).unwrap()).unwrap();
        let of = |plan: &SweepPlan| -> Vec<_> {
            plan.cases.iter().map(|case| (case.file.clone(), case.key.clone(), case.settings())).collect()
        };
        assert_eq!(of(&one), of(&again));
        assert_eq!(again.run, one.run);
    }

    #[test]
    fn what_cannot_be_swept_is_refused_by_name() {
        let refusal = |vary: &[&str], seeds| plan(vary, &[], seeds).unwrap_err().to_string();
        for (vary, seeds, says) in [
            (&["seed=1;2"][..], 1, "seed cannot be varied: --seeds K"),
            (&["batch=2", "batch=4"], 1, "batch cannot be varied: it is varied twice"),
            (&["batch=2;2"], 1, "the value batch=2 is there twice"),
            (&["clinets=2"], 1, "did you mean \"clients\""),
            (&["batch=2; many"], 1, "batch=many, seed 5: --set: batch:"),
            (&["clients=2; 0"], 1, "clients=0, seed 5: clients = 0 will not do"),
            (&["model=vit_nano_patch4_32; mine.toml"], 1, "model cannot be varied: a file is of this machine"),
            (&["batch=2"], 0, "--seeds 1 or more"),
            (&["batch=1;2;3"], 50_000, "150000 trainings are more"),
        ] {
            let error = refusal(vary, seeds);
            assert!(error.contains(says), "{error}");
        }
        for text in ["batch", "=2", "batch=", "batch=2;;3"] {
            assert!(text.parse::<Axis>().unwrap_err().to_string().contains("varies nothing"), "{text}");
        }
    }
}
