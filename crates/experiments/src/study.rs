//! Trainings that are compared.

mod scale;

use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::{Experiment, Scale},
    defences::{ALL, ComparedDefence, MASKS_AND_NOISE, TRADE_OFF},
    figure::{LineStyle, SeriesStyle},
};

/// One training, by what sets it apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The name of its files.
    pub key: String,
    /// The name a person reads.
    pub name: String,
    pub style: SeriesStyle,
    /// `KEY=VALUE` for each key of the study's config that is different here.
    pub set: Vec<String>,
}

impl Case {
    fn under(defence: &ComparedDefence) -> Self {
        Self {
            key: defence.key.to_owned(),
            name: defence.name.to_owned(),
            style: defence.style(),
            set: vec![format!("defence={}", defence.defence)],
        }
    }
}

/// With how many seeds each case is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    pub least: u64,
    /// No more than so many, where intervals stay wide.
    pub most: u64,
}

impl Seeds {
    pub fn exactly(seeds: u64) -> Self {
        Self { least: seeds, most: seeds }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// A config for `unmask train`, which each case changes.
    pub config: &'static str,
    /// `KEY=VALUE` for what the scale changes in it.
    pub set: Vec<String>,
    /// The first case is what the others are compared with.
    pub cases: Vec<Case>,
    pub seeds: Seeds,
    /// Test pictures of the last, whole evaluation.
    pub test_pictures: usize,
}

impl Study {
    /// The study of an experiment that compares trainings; `None` for the others.
    pub fn of(experiment: Experiment, scale: Scale) -> Option<Self> {
        let (config, cases) = match experiment {
            Experiment::VitFineTuned => (include_str!("../configs/vit-fine-tuned.toml"), cases(&ALL)),
            Experiment::VitFromScratch => (include_str!("../configs/vit-from-scratch.toml"), cases(&ALL)),
            Experiment::ResnetFedsgd => (include_str!("../configs/resnet-fedsgd.toml"), cases(&MASKS_AND_NOISE)),
            Experiment::ResnetFedavg => (include_str!("../configs/resnet-fedavg.toml"), cases(&MASKS_AND_NOISE)),
            Experiment::NonIid => (include_str!("../configs/non-iid.toml"), non_iid()),
            Experiment::Encrypted => (include_str!("../configs/encrypted.toml"), encrypted()),
            Experiment::TradeOff => (include_str!("../configs/trade-off.toml"), cases(&TRADE_OFF)),
            Experiment::AttacksResnet | Experiment::AttacksVit | Experiment::UpdateRatios => return None,
        };
        Some(Self {
            config,
            set: scale::set(experiment, scale),
            cases,
            seeds: scale::seeds(experiment, scale),
            test_pictures: scale::test_pictures(experiment, scale),
        })
    }

    /// What one case is run with.
    ///
    /// # Errors
    /// [`ConfigError`], where the study's own config does not fit.
    pub fn config(&self, case: &Case, seed: u64, also: &[String]) -> Result<Config, ConfigError> {
        let seed = format!("seed={seed}");
        let set = [&self.set[..], &case.set, also, &[seed]].concat();
        Config::read(self.config, &set)
    }
}

/// What the experiment that counts updates runs under `defence`.
pub(crate) fn update_ratios(scale: Scale, seed: u64, defence: &str) -> Result<Config, ConfigError> {
    let set = scale::set(Experiment::UpdateRatios, scale);
    let also = vec![format!("defence={defence}"), format!("seed={seed}")];
    Config::read(include_str!("../configs/update-ratios.toml"), &[set, also].concat())
}

fn cases(defences: &[ComparedDefence]) -> Vec<Case> {
    defences.iter().map(Case::under).collect()
}

/// How classes are divided, by key, name, partition and line.
const PARTITIONS: [(&str, &str, &str, LineStyle); 2] =
    [("iid", "IID", "iid", LineStyle::Solid), ("a0.1", "α = 0.1", "dirichlet:0.1", LineStyle::Dashed)];

/// Each partition under each defence.
fn non_iid() -> Vec<Case> {
    let case = |(key, name, partition, line): (&str, &str, &str, LineStyle), defence: &ComparedDefence| {
        let case = Case::under(defence);
        Case {
            key: format!("{key}-{}", case.key),
            name: format!("{name}, {}", case.name),
            style: SeriesStyle { line, ..case.style },
            set: [case.set, vec![format!("partition={partition}")]].concat(),
        }
    };
    let cases = |partition| MASKS_AND_NOISE.iter().map(move |defence| case(partition, defence));
    PARTITIONS.into_iter().flat_map(cases).collect()
}

fn encrypted() -> Vec<Case> {
    let case = |key: &str, name: &str, style, set: &[&str]| Case {
        key: key.to_owned(),
        name: name.to_owned(),
        style,
        set: set.iter().map(|&set| set.to_owned()).collect(),
    };
    vec![
        case("none", "plain", SeriesStyle::INK, &[]),
        case(
            "encrypted",
            "encrypted",
            SeriesStyle { colour: 4, line: LineStyle::Dashed },
            &["defence=encrypted", "passphrase=correct horse battery staple"],
        ),
    ]
}
