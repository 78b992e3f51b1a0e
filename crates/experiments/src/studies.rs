//! The list of the studies. A new study is a file here and a line in [`STUDIES`].

mod attacks_cnn;
mod attacks_vit;
mod encrypted;
mod non_iid;
mod resnet_fedavg;
mod resnet_fedsgd;
mod settings;
pub(crate) mod trade_off;
#[cfg(test)]
mod training_tests;
mod update_ratios;
mod vit_fine_tuned;
mod vit_from_scratch;

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use crate::{catalogue::Experiment, error::ExperimentError, study::Study};

static STUDIES: [&dyn Study; 10] = [
    &vit_fine_tuned::STUDY,
    &vit_from_scratch::STUDY,
    &resnet_fedsgd::STUDY,
    &resnet_fedavg::STUDY,
    &non_iid::STUDY,
    &attacks_cnn::STUDY,
    &attacks_vit::STUDY,
    &update_ratios::STUDY,
    &encrypted::STUDY,
    &trade_off::STUDY,
];

/// The study of an experiment.
///
/// # Errors
/// It is not in the list.
pub(crate) fn study(experiment: Experiment) -> Result<&'static dyn Study, ExperimentError> {
    let found = STUDIES.into_iter().find(|study| study.about().name == experiment.name());
    found.ok_or(ExperimentError::NoStudy { experiment: experiment.name() })
}

impl Experiment {
    /// All experiments, in the order of the list.
    pub fn all() -> [Self; STUDIES.len()] {
        STUDIES.map(|study| Self::new(study.about()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown experiment \"{name}\"; the experiments are {}, and all for every one of them",
    Experiment::all().map(Experiment::name).join(", ")
)]
pub struct UnknownExperiment {
    pub name: String,
}

impl FromStr for Experiment {
    type Err = UnknownExperiment;

    fn from_str(name: &str) -> Result<Self, UnknownExperiment> {
        let found = Self::all().into_iter().find(|experiment| experiment.name() == name.trim());
        found.ok_or_else(|| UnknownExperiment { name: name.to_owned() })
    }
}

impl<'de> Deserialize<'de> for Experiment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::Rule;

    use super::{settings::PAPERS_RATE, *};
    use crate::catalogue::Scale;

    #[test]
    fn names_are_read_as_they_are_written() {
        for experiment in Experiment::all() {
            assert_eq!(experiment.to_string().parse(), Ok(experiment));
            let text = serde_json::to_string(&experiment).unwrap();
            assert_eq!(text, format!("\"{experiment}\""));
            assert_eq!(serde_json::from_str::<Experiment>(&text).unwrap(), experiment);
        }
        let error = "vit".parse::<Experiment>().unwrap_err().to_string();
        assert!(error.starts_with("unknown experiment \"vit\"; the experiments are vit-fine-tuned, "), "{error}");
    }

    #[test]
    fn no_case_steps_faster_than_the_papers_at_their_scale() {
        let mut cases = 0;
        for plan in STUDIES.into_iter().filter_map(|study| study.plan(Scale::Paper)) {
            for case in &plan.cases {
                let config = plan.config(case, 1, &[]).unwrap();
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
