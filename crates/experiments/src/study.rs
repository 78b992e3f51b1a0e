//! Studies: trainings to compare.

mod scale;

use unmask_simulation::{Config, ConfigError};

use self::scale::PAPERS_RATE;
use crate::{
    catalogue::{Experiment, Scale},
    defences::{
        ALL, ComparedDefence, ENCRYPTED, EPS1_MATCHED, EPS1_PRINTED, EPS2_PRINTED, EPS4_MATCHED, EPS4_PRINTED,
        MASKS_AND_NOISE, NONE, R0, R02, R05, R08, R08_EMBEDDINGS, R095, TRADE_OFF, TRADE_OFF_IN_SHORT,
    },
    figure::{LineStyle, SeriesStyle},
};

/// One training, described by how it differs from the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Key in file names.
    pub key: String,
    /// Name for readers.
    pub name: String,
    pub style: SeriesStyle,
    /// `KEY=VALUE` overrides of the study's config.
    pub set: Vec<String>,
    /// Whether its curve is drawn, and not only its final accuracy. A figure with more than a dozen curves is
    /// unreadable.
    pub has_curve: bool,
}

impl Case {
    fn under(defence: &ComparedDefence) -> Self {
        Self {
            key: defence.key.to_owned(),
            name: defence.name.to_owned(),
            style: defence.style(),
            set: vec![format!("defence={}", defence.defence)],
            has_curve: true,
        }
    }

    /// The same case in `group`, which has its own undefended case, with these additional settings.
    fn of_group(self, (group, name): (&str, &str), line: LineStyle, set: &[&str]) -> Self {
        Self {
            key: format!("{group}/{}", self.key),
            name: format!("{name}, {}", self.name),
            style: SeriesStyle { line, ..self.style },
            set: [self.set, set.iter().map(|&set| set.to_owned()).collect()].concat(),
            ..self
        }
    }

    fn without_curve(self) -> Self {
        Self { has_curve: false, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    pub least: u64,
    /// The limit for cases with wide intervals.
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
    /// `KEY=VALUE` overrides of the scale.
    pub set: Vec<String>,
    /// The others are compared with the first case.
    pub cases: Vec<Case>,
    pub seeds: Seeds,
    pub test_pictures: usize,
}

impl Study {
    /// The study of an experiment that compares trainings; `None` for the others.
    pub fn of(experiment: Experiment, scale: Scale) -> Option<Self> {
        let (config, cases) = match experiment {
            Experiment::VitFineTuned => (include_str!("../configs/vit-fine-tuned.toml"), fine_tuned(scale)),
            Experiment::VitFromScratch => (include_str!("../configs/vit-from-scratch.toml"), from_scratch()),
            Experiment::ResnetFedsgd => (include_str!("../configs/resnet-fedsgd.toml"), fedsgd(scale)),
            Experiment::ResnetFedavg => (include_str!("../configs/resnet-fedavg.toml"), fedavg()),
            Experiment::NonIid => (include_str!("../configs/non-iid.toml"), non_iid()),
            Experiment::Encrypted => (include_str!("../configs/encrypted.toml"), encrypted(scale)),
            Experiment::TradeOff => (include_str!("../configs/trade-off.toml"), trade_off(scale)),
            Experiment::AttacksCnn | Experiment::AttacksVit | Experiment::UpdateRatios => return None,
        };
        let mut cases = cases;
        if scale == Scale::Quick {
            // There is only time for the cases in the figures.
            cases.retain(|case| case.has_curve);
        }
        Some(Self {
            config,
            set: scale::set(experiment, scale),
            cases,
            seeds: scale::seeds(experiment, scale),
            test_pictures: scale::test_pictures(experiment, scale),
        })
    }

    /// The config of one case.
    ///
    /// # Errors
    /// [`ConfigError`] if the study's own config is invalid.
    pub fn config(&self, case: &Case, seed: u64, also: &[String]) -> Result<Config, ConfigError> {
        let seed = format!("seed={seed}");
        let set = [&self.set[..], &case.set, also, &[seed]].concat();
        Config::read(self.config, &set)
    }
}

/// The config of the experiment that counts updates, under `defence` and with these changes.
pub(crate) fn update_ratios(scale: Scale, seed: u64, defence: &str, also: &[&str]) -> Result<Config, ConfigError> {
    let set = scale::set(Experiment::UpdateRatios, scale);
    let own = vec![format!("defence={defence}"), format!("seed={seed}")];
    let also = also.iter().map(|&set| set.to_owned()).collect();
    Config::read(include_str!("../configs/update-ratios.toml"), &[set, own, also].concat())
}

fn cases(defences: &[ComparedDefence]) -> Vec<Case> {
    defences.iter().map(Case::under).collect()
}

fn trade_off(scale: Scale) -> Vec<Case> {
    match scale {
        Scale::Quick => cases(&TRADE_OFF_IN_SHORT),
        Scale::Tiny | Scale::Small | Scale::Paper => cases(&TRADE_OFF),
    }
}

/// The comparison of both papers, FLRSP's noise exactly as printed, masks by group, and the learning rates that masks
/// are equivalent to by Eq. 12.
fn fine_tuned(scale: Scale) -> Vec<Case> {
    let also = [R0, R095, R08_EMBEDDINGS, EPS4_PRINTED, EPS1_PRINTED].iter().map(Case::under);
    let config_rate = if scale == Scale::Paper { PAPERS_RATE } else { 0.1 };
    // 1 - R^N of R = 0.5, 0.8 and 0.95 with five clients.
    let rates = [0.969, 0.672, 0.226].map(|factor| Case {
        key: format!("rate{factor}"),
        name: format!("no defence, rate x {factor}"),
        set: vec![format!("optimiser=sgd:{}", factor * config_rate)],
        ..Case::under(&NONE)
    });
    cases(&ALL).into_iter().chain(also.chain(rates).map(Case::without_curve)).collect()
}

/// The comparison of both papers, and masks that last an epoch, as in RBW.
fn from_scratch() -> Vec<Case> {
    let an_epoch = |masked: &ComparedDefence| {
        let case = Case::under(masked);
        Case {
            key: masked.key.replacen('r', "e", 1),
            name: format!("{}, one mask an epoch", case.name),
            style: SeriesStyle { line: LineStyle::Dotted, ..case.style },
            set: [case.set, vec!["masks=epoch".to_owned()]].concat(),
            has_curve: false,
        }
    };
    cases(&ALL).into_iter().chain([R02, R05, R08].iter().map(an_epoch)).collect()
}

const PRINTED: [ComparedDefence; 3] = [EPS4_PRINTED, EPS2_PRINTED, EPS1_PRINTED];

/// FLRSP's comparison, with its noise clipped and as printed.
fn fedavg() -> Vec<Case> {
    let printed = PRINTED.iter().map(|noise| Case::under(noise).without_curve());
    cases(&MASKS_AND_NOISE).into_iter().chain(printed).collect()
}

/// FLRSP's comparison with Adam, which learns fastest, and with the papers' SGD and noise as printed.
fn fedsgd(scale: Scale) -> Vec<Case> {
    let optimiser = format!("optimiser=sgd:{}", if scale == Scale::Paper { PAPERS_RATE } else { 0.3 });
    let sgd = |defence: ComparedDefence| {
        Case::under(&defence).of_group(("sgd", "SGD"), LineStyle::Dashed, &[&optimiser]).without_curve()
    };
    let by_sgd = [NONE, R02, R05, R08].into_iter().chain(PRINTED).chain([EPS4_MATCHED, EPS1_MATCHED]);
    cases(&MASKS_AND_NOISE).into_iter().chain(by_sgd.map(sgd)).collect()
}

/// Each division of the classes under each defence.
fn non_iid() -> Vec<Case> {
    let compared = [NONE, R02, R05, R08, EPS4_PRINTED];
    let cases = |group, line, set: &'static [&'static str]| {
        compared.iter().map(move |defence| Case::under(defence).of_group(group, line, set))
    };
    let even = cases(("iid", "IID"), LineStyle::Solid, &["partition=iid"]);
    even.chain(cases(("a0.1", "α = 0.1"), LineStyle::Dashed, &["partition=dirichlet:0.1"])).collect()
}

/// With and without encryption, under both rules.
fn encrypted(scale: Scale) -> Vec<Case> {
    let plain = || Case { name: "plain".to_owned(), ..Case::under(&NONE) };
    let cipher = || Case {
        set: vec![format!("defence={}", ENCRYPTED.defence), "passphrase=correct horse battery staple".to_owned()],
        ..Case::under(&ENCRYPTED)
    };
    let rule = format!("rule=fedavg:epochs=1,rate={}", if scale == Scale::Paper { PAPERS_RATE } else { 0.05 });
    // Each client makes one pass over its pictures.
    let fedavg = |case: Case| {
        let set = [&rule, "schedule=constant", "rounds=1", "evaluate-every=1"];
        case.of_group(("fedavg", "FedAvg"), LineStyle::Dotted, &set).without_curve()
    };
    vec![plain(), cipher(), fedavg(plain()), fedavg(cipher())]
}

#[cfg(test)]
mod tests {
    use unmask_core::Rule;

    use super::*;

    #[test]
    fn no_case_steps_faster_than_the_papers_at_their_scale() {
        let trains = Experiment::ALL.into_iter().filter_map(|experiment| Study::of(experiment, Scale::Paper));
        let mut cases = 0;
        for study in trains {
            for case in &study.cases {
                let config = study.config(case, 1, &[]).unwrap();
                let step = match config.rule {
                    Rule::FedAvg { rate, .. } => f64::from(rate),
                    Rule::FedSgd => config.optimiser.to_string().strip_prefix("sgd:").unwrap().parse().unwrap(),
                };
                assert!(step <= 1.0001 * PAPERS_RATE, "{}: {step}", case.key);
                cases += 1;
            }
        }
        assert!(cases > 50, "{cases}");
    }
}
