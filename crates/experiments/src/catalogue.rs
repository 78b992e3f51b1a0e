//! The experiments by name, and the figures that each repeats.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    VitFineTuned,
    VitFromScratch,
    ResnetFedsgd,
    ResnetFedavg,
    NonIid,
    AttacksCnn,
    AttacksVit,
    UpdateRatios,
    Encrypted,
    TradeOff,
}

impl Experiment {
    pub const ALL: [Self; 10] = [
        Self::VitFineTuned,
        Self::VitFromScratch,
        Self::ResnetFedsgd,
        Self::ResnetFedavg,
        Self::NonIid,
        Self::AttacksCnn,
        Self::AttacksVit,
        Self::UpdateRatios,
        Self::Encrypted,
        Self::TradeOff,
    ];

    /// Name on the command line, and of the report's folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::VitFineTuned => "vit-fine-tuned",
            Self::VitFromScratch => "vit-from-scratch",
            Self::ResnetFedsgd => "resnet-fedsgd",
            Self::ResnetFedavg => "resnet-fedavg",
            Self::NonIid => "non-iid",
            Self::AttacksCnn => "attacks-cnn",
            Self::AttacksVit => "attacks-vit",
            Self::UpdateRatios => "update-ratios",
            Self::Encrypted => "encrypted",
            Self::TradeOff => "trade-off",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::VitFineTuned => "Accuracy of a fine-tuned ViT under FedSGD",
            Self::VitFromScratch => "Accuracy of a ViT from scratch under FedSGD",
            Self::ResnetFedsgd => "Accuracy of a ResNet under FedSGD",
            Self::ResnetFedavg => "Accuracy of a ResNet under FedAvg",
            Self::NonIid => "Accuracy with clients that see different classes",
            Self::AttacksCnn => "Inverting Gradients against convolutional networks",
            Self::AttacksVit => "Attacks against a ViT",
            Self::UpdateRatios => "How often each parameter is updated",
            Self::Encrypted => "Accuracy with and without encryption",
            Self::TradeOff => "Accuracy beside what the best attacker sees",
        }
    }

    pub fn repeats(self) -> &'static str {
        match self {
            Self::VitFineTuned | Self::VitFromScratch => "RBW Fig. 5, FLRSP Fig. 4",
            Self::ResnetFedsgd => "FLRSP Fig. 5",
            Self::ResnetFedavg => "FLRSP Fig. 6",
            Self::NonIid => "FLRSP Fig. 7",
            Self::AttacksCnn => "FLRSP Figs. 9 to 12",
            Self::AttacksVit => "RBW Fig. 4, FLRSP Fig. 8, Encrypted ViT Fig. 3",
            Self::UpdateRatios => "RBW Fig. 6, FLRSP Fig. 13",
            Self::Encrypted => "Encrypted ViT Table I",
            Self::TradeOff => "RBW Fig. 5 beside FLRSP Figs. 8 to 12",
        }
    }

    pub(crate) fn trains(self) -> bool {
        !matches!(self, Self::AttacksCnn | Self::AttacksVit | Self::UpdateRatios)
    }

    /// Whether the papers start from weights pretrained on ImageNet, so that `--weights` applies.
    pub fn takes_weights(self) -> bool {
        matches!(self, Self::VitFineTuned | Self::Encrypted)
    }

    pub fn question(self) -> &'static str {
        match self {
            Self::VitFineTuned => "How much accuracy does each defence cost when a pretrained model learns on?",
            Self::VitFromScratch => "How much accuracy does each defence cost when a model starts from random weights?",
            Self::ResnetFedsgd => "Do masks cost a convolutional network more, and what does noise do to it?",
            Self::ResnetFedavg => "Is it the same where weights travel instead of gradients?",
            Self::NonIid => {
                "Do masks and noise cost a convolutional network more where each client knows other classes?"
            }
            Self::AttacksCnn => {
                "What does a search for the picture find under masks and noise, with the mask and without?"
            }
            Self::AttacksVit => {
                "What do embedding inversion and APRIL see under masks and noise, with the mask and without?"
            }
            Self::UpdateRatios => "Is every parameter updated as often as G(f) says?",
            Self::Encrypted => "Does the relay, averaging cipher text, train the very same model?",
            Self::TradeOff => "What does each defence cost in accuracy, and what does it leave to the best attacker?",
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown experiment \"{name}\"; the experiments are {}, and all for every one of them",
    Experiment::ALL.map(Experiment::name).join(", ")
)]
pub struct UnknownExperiment {
    pub name: String,
}

impl FromStr for Experiment {
    type Err = UnknownExperiment;

    fn from_str(name: &str) -> Result<Self, UnknownExperiment> {
        let found = Self::ALL.into_iter().find(|experiment| experiment.name() == name.trim());
        found.ok_or_else(|| UnknownExperiment { name: name.to_owned() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A few rounds of the smallest models on generated pictures: a smoke test. Its numbers mean nothing.
    Tiny,
    /// A short version of the small scale for a lesson: all experiments in a quarter of an hour on two cores. Few of
    /// its numbers decide a claim.
    Quick,
    /// Nano models on CIFAR-10: all experiments in about two hours on two fast cores.
    Small,
    Paper,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Quick => "quick",
            Self::Small => "small",
            Self::Paper => "paper",
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scale \"{name}\"; the scales are quick, small and paper")]
pub struct UnknownScale {
    pub name: String,
}

impl FromStr for Scale {
    type Err = UnknownScale;

    fn from_str(name: &str) -> Result<Self, UnknownScale> {
        let found =
            [Self::Tiny, Self::Quick, Self::Small, Self::Paper].into_iter().find(|scale| scale.name() == name.trim());
        found.ok_or_else(|| UnknownScale { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for experiment in Experiment::ALL {
            assert_eq!(experiment.to_string().parse(), Ok(experiment));
            assert_eq!(serde_json::to_string(&experiment).unwrap(), format!("\"{experiment}\""));
        }
        let error = "vit".parse::<Experiment>().unwrap_err().to_string();
        assert!(error.starts_with("unknown experiment \"vit\"; the experiments are vit-fine-tuned, "), "{error}");
        assert_eq!("paper".parse(), Ok(Scale::Paper));
        assert!("huge".parse::<Scale>().unwrap_err().to_string().contains("the scales are quick, small and paper"));
    }
}
