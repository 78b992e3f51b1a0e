//! Trainings that are compared: which there are, and what is expected of them.

mod scale;

use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::{Experiment, Scale},
    defences::{ALL, ComparedDefence, DefenceKind, MASKS_AND_NOISE, TRADE_OFF},
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

#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    pub case: String,
    pub base: String,
    pub relation: Relation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relation {
    /// No more than so many points apart.
    Within(f64),
    /// More than so many points lower.
    Lower(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// A config for `unmask train`, which each case changes.
    pub config: &'static str,
    /// `KEY=VALUE` for what the scale changes in it.
    pub set: Vec<String>,
    /// The first case is what the others are compared with.
    pub cases: Vec<Case>,
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
                (include_str!("../configs/vit-fine-tuned.toml"), cases(&ALL), [masks(), noise(), frozen()].concat())
            }
            Experiment::VitFromScratch => (
                include_str!("../configs/vit-from-scratch.toml"),
                cases(&ALL),
                [masks(), vec![expect("fixed", "none", Relation::Lower(0.0))], noise(), frozen()].concat(),
            ),
            Experiment::ResnetFedsgd => {
                (include_str!("../configs/resnet-fedsgd.toml"), cases(&MASKS_AND_NOISE), [masks(), noise()].concat())
            }
            Experiment::ResnetFedavg => {
                (include_str!("../configs/resnet-fedavg.toml"), cases(&MASKS_AND_NOISE), [masks(), noise()].concat())
            }
            Experiment::NonIid => {
                let (cases, expectations) = non_iid();
                (include_str!("../configs/non-iid.toml"), cases, expectations)
            }
            Experiment::Encrypted => (include_str!("../configs/encrypted.toml"), encrypted(), Vec::new()),
            Experiment::TradeOff => (
                include_str!("../configs/trade-off.toml"),
                cases(&TRADE_OFF),
                [
                    masks(),
                    vec![expect("r0.95", "none", Relation::Lower(0.0)), expect("eps4", "none", Relation::Lower(2.0))],
                ]
                .concat(),
            ),
            Experiment::AttacksResnet | Experiment::AttacksVit | Experiment::UpdateRatios => return None,
        };
        Some(Self {
            config,
            set: scale::set(experiment, scale),
            cases,
            expectations,
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

fn expect(case: &str, base: &str, relation: Relation) -> Expectation {
    Expectation { case: case.to_owned(), base: base.to_owned(), relation }
}

/// Random binary masks cost next to nothing.
fn masks() -> Vec<Expectation> {
    ["r0.2", "r0.5", "r0.8"].map(|case| expect(case, "none", Relation::Within(2.0))).to_vec()
}

/// Noise costs much: in FLRSP 47 points with epsilon 1 and 3.4 with epsilon 4.
fn noise() -> Vec<Expectation> {
    vec![expect("eps4", "none", Relation::Lower(2.0)), expect("eps1", "none", Relation::Lower(10.0))]
}

/// What a frozen mask drops is never trained, so accuracy falls as R grows.
fn frozen() -> Vec<Expectation> {
    [("f0.5", "f0.2"), ("f0.8", "f0.5"), ("f0.8", "none")]
        .map(|(case, base)| expect(case, base, Relation::Lower(0.0)))
        .to_vec()
}

/// How classes are divided, by key, name, partition and line.
const PARTITIONS: [(&str, &str, &str, LineStyle); 2] =
    [("iid", "IID", "iid", LineStyle::Solid), ("a0.1", "α = 0.1", "dirichlet:0.1", LineStyle::Dashed)];

/// Each partition without and with masks; masks are compared within a partition, partitions without masks.
fn non_iid() -> (Vec<Case>, Vec<Expectation>) {
    let masks = || ALL.iter().filter(|defence| defence.is_mask() || defence.kind == DefenceKind::None);
    let mut cases = Vec::new();
    let mut expectations = Vec::new();
    for (key, name, partition, line) in PARTITIONS {
        for defence in masks() {
            let case = Case::under(defence);
            let joined = format!("{key}-{}", case.key);
            if defence.is_mask() {
                expectations.push(expect(&joined, &format!("{key}-none"), Relation::Within(2.0)));
            }
            cases.push(Case {
                key: joined,
                name: format!("{name}, {}", case.name),
                style: SeriesStyle { line, ..case.style },
                set: [case.set, vec![format!("partition={partition}")]].concat(),
            });
        }
    }
    expectations.push(expect("a0.1-none", "iid-none", Relation::Lower(0.0)));
    (cases, expectations)
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
