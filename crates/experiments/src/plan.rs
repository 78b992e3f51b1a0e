//! Trainings to compare.

use unmask_simulation::{Config, ConfigError};

use crate::{
    catalogue::Scale,
    defences::ComparedDefence,
    figure::{LineStyle, SeriesStyle},
    request::Seeds,
};

/// One training, described by how it differs from the others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// Key in file names.
    pub(crate) key: String,
    /// Name for readers.
    pub(crate) name: String,
    pub(crate) style: SeriesStyle,
    /// `KEY=VALUE` overrides of the plan's config.
    pub(crate) set: Vec<String>,
    /// Whether its curve is drawn, and not only its final accuracy. A figure with more than a dozen curves is
    /// unreadable.
    pub(crate) has_curve: bool,
}

impl Case {
    pub(crate) fn under(defence: &ComparedDefence) -> Self {
        Self {
            key: defence.key.to_owned(),
            name: defence.name.to_owned(),
            style: defence.style(),
            set: vec![format!("defence={}", defence.defence)],
            has_curve: true,
        }
    }

    /// One case for each of `defences`.
    pub(crate) fn under_each(defences: &[ComparedDefence]) -> Vec<Self> {
        defences.iter().map(Self::under).collect()
    }

    /// The same case in `group`, which has its own undefended case, with these additional settings.
    pub(crate) fn of_group(self, (group, name): (&str, &str), line: LineStyle, set: &[&str]) -> Self {
        Self {
            key: format!("{group}/{}", self.key),
            name: format!("{name}, {}", self.name),
            style: SeriesStyle { line, ..self.style },
            set: [self.set, set.iter().map(|&set| set.to_owned()).collect()].concat(),
            ..self
        }
    }

    pub(crate) fn without_curve(self) -> Self {
        Self { has_curve: false, ..self }
    }
}

/// The trainings of a study at one scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrainingPlan {
    /// A config for `unmask train`, which each case changes.
    pub(crate) config: &'static str,
    /// `KEY=VALUE` overrides of the scale.
    pub(crate) set: Vec<String>,
    /// The others are compared with the first case.
    pub(crate) cases: Vec<Case>,
    pub(crate) seeds: Seeds,
    pub(crate) test_pictures: usize,
}

impl TrainingPlan {
    /// The config of one case.
    ///
    /// # Errors
    /// [`ConfigError`] if the plan's own config is invalid.
    pub(crate) fn config(&self, case: &Case, seed: u64, also: &[String]) -> Result<Config, ConfigError> {
        let seed = format!("seed={seed}");
        let set = [&self.set[..], &case.set, also, &[seed]].concat();
        Config::read(self.config, &set)
    }

    /// The config of the first case; `None` if there are no cases.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub(crate) fn first_config(&self, seed: u64, also: &[String]) -> Result<Option<Config>, ConfigError> {
        self.cases.first().map(|case| self.config(case, seed, also)).transpose()
    }
}

/// The trainings of a study at every scale.
pub(crate) struct TrainingPlans {
    /// The config of the small scale.
    pub(crate) config: &'static str,
    pub(crate) changes: Changes,
    pub(crate) cases: fn(Scale) -> Vec<Case>,
    /// At the small scale.
    pub(crate) seeds: Seeds,
    /// At the small scale.
    pub(crate) test_pictures: usize,
}

/// `KEY=VALUE` for each key of the small config that differs at another scale.
pub(crate) struct Changes {
    pub(crate) tiny: &'static [&'static str],
    pub(crate) quick: &'static [&'static str],
    pub(crate) paper: &'static [&'static str],
}

impl Changes {
    pub(crate) fn at(&self, scale: Scale) -> Vec<String> {
        let set = match scale {
            Scale::Tiny => self.tiny,
            Scale::Quick => self.quick,
            Scale::Small => &[],
            Scale::Paper => self.paper,
        };
        set.iter().map(|&set| set.to_owned()).collect()
    }
}

impl TrainingPlans {
    pub(crate) fn at(&self, scale: Scale) -> TrainingPlan {
        let mut cases = (self.cases)(scale);
        if scale == Scale::Quick {
            // There is only time for the cases in the figures.
            cases.retain(|case| case.has_curve);
        }
        let (seeds, test_pictures) = match scale {
            Scale::Tiny => (Seeds::exactly(2), 40),
            Scale::Quick => (Seeds::exactly(2), 500),
            Scale::Small => (self.seeds, self.test_pictures),
            Scale::Paper => (Seeds::exactly(1), 10_000),
        };
        TrainingPlan { config: self.config, set: self.changes.at(scale), cases, seeds, test_pictures }
    }
}
