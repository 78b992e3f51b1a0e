//! Trainings that are compared: which there are, and what is expected of them.

mod defences;
mod scales;

use unmask_simulation::{Config, ConfigError};

use self::defences::{ALL, Kind, MASKS_AND_NOISE, Protection};
pub(crate) use self::scales::set as scale_set;
use crate::{
    catalogue::{Experiment, Scale},
    figure::{Look, Stroke},
};

/// One training, by what sets it apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The name of its files.
    pub key: String,
    /// The name a person reads.
    pub name: String,
    /// How its line is drawn.
    pub look: Look,
    /// `KEY=VALUE` for each key of the study's config that is different here.
    pub set: Vec<String>,
}

/// What is expected of a case beside another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The case.
    pub case: String,
    /// What it is compared with.
    pub base: String,
    /// How.
    pub kind: Expected,
}

/// A relation of two accuracies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// No more than so many points apart.
    Within(f64),
    /// More than so many points lower.
    Lower(f64),
}

/// Trainings that are compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// A config for `unmask train`, which each case changes.
    pub config: &'static str,
    /// `KEY=VALUE` for what the scale changes in it.
    pub set: Vec<String>,
    /// The first case is what the others are compared with.
    pub cases: Vec<Case>,
    /// What is expected.
    pub expectations: Vec<Expectation>,
    /// Each case is repeated with so many seeds.
    pub seeds: u64,
    /// Test pictures of the last, whole evaluation.
    pub test_pictures: usize,
}

impl Study {
    /// The study of an experiment that compares trainings; `None` for the others.
    pub fn of(experiment: Experiment, scale: Scale) -> Option<Self> {
        let (config, cases, expectations) = match experiment {
            Experiment::VitFineTuned => {
                (include_str!("../experiments/vit-fine-tuned.toml"), cases(ALL), [masks(), noise(), frozen()].concat())
            }
            Experiment::VitFromScratch => (
                include_str!("../experiments/vit-from-scratch.toml"),
                cases(ALL),
                [masks(), vec![expect("fixed", "none", Expected::Lower(0.0))], noise(), frozen()].concat(),
            ),
            Experiment::ResnetFedsgd => {
                (include_str!("../experiments/resnet-fedsgd.toml"), cases(MASKS_AND_NOISE), [masks(), noise()].concat())
            }
            Experiment::ResnetFedavg => {
                (include_str!("../experiments/resnet-fedavg.toml"), cases(MASKS_AND_NOISE), [masks(), noise()].concat())
            }
            Experiment::NonIid => {
                let (cases, expectations) = non_iid();
                (include_str!("../experiments/non-iid.toml"), cases, expectations)
            }
            Experiment::Encrypted => (include_str!("../experiments/encrypted.toml"), encrypted(), Vec::new()),
            Experiment::AttacksResnet | Experiment::AttacksVit | Experiment::UpdateRatios => return None,
        };
        Some(Self {
            config,
            set: scales::set(experiment, scale),
            cases,
            expectations,
            seeds: scales::seeds(experiment, scale),
            test_pictures: scales::test_pictures(scale),
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

fn cases(protections: &[Protection]) -> Vec<Case> {
    protections.iter().map(Protection::case).collect()
}

fn expect(case: &str, base: &str, kind: Expected) -> Expectation {
    Expectation { case: case.to_owned(), base: base.to_owned(), kind }
}

/// Random binary masks cost next to nothing.
fn masks() -> Vec<Expectation> {
    ["r0.2", "r0.5", "r0.8"].map(|case| expect(case, "none", Expected::Within(2.0))).to_vec()
}

/// Noise costs much: in FLRSP 47 points with epsilon 1 and 3.4 with epsilon 4.
fn noise() -> Vec<Expectation> {
    vec![expect("eps4", "none", Expected::Lower(2.0)), expect("eps1", "none", Expected::Lower(10.0))]
}

/// What a frozen mask drops is never trained, so accuracy falls as R grows.
fn frozen() -> Vec<Expectation> {
    [("f0.5", "f0.2"), ("f0.8", "f0.5"), ("f0.8", "none")]
        .map(|(case, base)| expect(case, base, Expected::Lower(0.0)))
        .to_vec()
}

/// How classes are divided, by key, name, partition and stroke.
const PARTITIONS: [(&str, &str, &str, Stroke); 2] =
    [("iid", "IID", "iid", Stroke::Solid), ("a0.1", "α = 0.1", "dirichlet:0.1", Stroke::Dashed)];

/// Each partition without and with masks; masks are compared within a partition, partitions without masks.
fn non_iid() -> (Vec<Case>, Vec<Expectation>) {
    let masks = || ALL.iter().filter(|protection| matches!(protection.kind, Kind::None | Kind::Random));
    let mut cases = Vec::new();
    let mut expectations = Vec::new();
    for (key, name, partition, stroke) in PARTITIONS {
        for protection in masks() {
            let case = protection.case();
            let joined = format!("{key}-{}", case.key);
            if protection.kind == Kind::Random {
                expectations.push(expect(&joined, &format!("{key}-none"), Expected::Within(2.0)));
            }
            cases.push(Case {
                key: joined,
                name: format!("{name}, {}", case.name),
                look: Look { stroke, ..case.look },
                set: [case.set, vec![format!("partition={partition}")]].concat(),
            });
        }
    }
    expectations.push(expect("a0.1-none", "iid-none", Expected::Lower(0.0)));
    (cases, expectations)
}

/// In the plain, and with the embeddings multiplied by keys.
fn encrypted() -> Vec<Case> {
    let case = |key: &str, name: &str, look, set: &[&str]| Case {
        key: key.to_owned(),
        name: name.to_owned(),
        look,
        set: set.iter().map(|&set| set.to_owned()).collect(),
    };
    vec![
        case("none", "plain", Look::INK, &[]),
        case(
            "encrypted",
            "encrypted",
            Look { colour: 4, stroke: Stroke::Dashed },
            &["defence=encrypted", "passphrase=correct horse battery staple"],
        ),
    ]
}
