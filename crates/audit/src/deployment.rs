//! A planned federation, and who receives what in it.

use serde::Serialize;
use unmask_attack::Sight;
use unmask_core::{Architecture, Defence, NoEmbeddings, Outlook, Rule, words};

/// What decides the leakage of a federation before it has any data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Deployment {
    #[serde(serialize_with = "name")]
    pub model: Architecture,
    /// Whether the first block is the one that APRIL needs.
    pub april_block: bool,
    pub rule: Rule,
    /// Pictures of a client in its update.
    pub batch: usize,
    /// Clients whose updates make one round.
    pub cohort: usize,
    pub defence: Defence,
    /// Whether secure aggregation gives the server only the sum of the cohort's updates.
    pub secure_sum: bool,
}

fn name<S: serde::Serializer>(model: &Architecture, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(model)
}

/// The most pictures in an update that is tried.
const MOST_PICTURES: usize = 64;
/// The server's rate at which a trial makes differences of models.
pub(crate) const SERVER_RATE: f32 = 0.1;

/// Why no federation has these numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeploymentError {
    #[error("{what} is 0; give 1 or more")]
    Zero { what: &'static str },
    #[error(transparent)]
    Defence(#[from] NoEmbeddings),
    #[error("a secure sum of one client hides nothing; give a cohort of 2 or more, or leave the secure sum out")]
    SumOfOne,
}

/// A party that may attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// Follows the protocol, and looks at what it receives.
    Server,
    /// A client, which receives the new model of each round.
    Client,
    /// Also chooses the weights that clients get, so that one picture's gradient arrives alone.
    DishonestServer,
    /// Somebody on the network, or a stranger to whom the model is given.
    Outsider,
}

words!(Viewer {
    Server = "server",
    Client = "client",
    DishonestServer = "dishonest-server",
    Outsider = "outsider",
}, UnknownViewer, "there is no party {name:?}; the parties are {words}", ", ");

impl Viewer {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Server => "The server (honest but curious)",
            Self::Client => "A curious client",
            Self::DishonestServer => "A server that chooses the weights",
            Self::Outsider => "An outsider",
        }
    }
}

impl Deployment {
    /// # Errors
    /// [`DeploymentError`] names the number and the remedy.
    pub fn check(&self) -> Result<(), DeploymentError> {
        for (what, number) in [("the batch", self.batch), ("the cohort", self.cohort)] {
            if number == 0 {
                return Err(DeploymentError::Zero { what });
            }
        }
        if self.secure_sum && self.cohort == 1 {
            return Err(DeploymentError::SumOfOne);
        }
        Ok(self.defence.check(self.model)?)
    }

    /// What this party can solve for; `None` if it receives no update, or nothing that the honest server does not.
    pub fn sight(&self, viewer: Viewer) -> Option<Sight> {
        let is_dishonest = viewer == Viewer::DishonestServer;
        let clients = match viewer {
            Viewer::DishonestServer => (self.hidden_among() > 1).then_some(1),
            Viewer::Server => Some(self.summed()),
            // The difference of two models is the mean update, from which a client takes its own.
            Viewer::Client => self.cohort.checked_sub(1).filter(|others| *others > 0),
            Viewer::Outsider => Some(self.cohort),
        }?;
        let Self { model: architecture, rule, defence, .. } = *self;
        let batch = if is_dishonest { 1 } else { self.batch };
        let is_difference = matches!(viewer, Viewer::Client | Viewer::Outsider);
        // Every client has the key.
        let has_key = viewer == Viewer::Client && defence.is_encrypted();
        let defence = if has_key { Defence::None } else { defence };
        Some(Sight { architecture, rule, defence, clients, batch, is_difference })
    }

    /// Pictures among which an honest server finds each one.
    pub fn hidden_among(&self) -> usize {
        self.batch.saturating_mul(self.summed())
    }

    /// Clients whose updates the server receives as one.
    pub fn summed(&self) -> usize {
        if self.secure_sum { self.cohort } else { 1 }
    }

    /// Whether what `viewer` sees is known up to rounding. A client does not know which values of others a mask kept.
    pub(crate) fn knows_values(&self, viewer: Viewer) -> bool {
        matches!(viewer, Viewer::Server | Viewer::DishonestServer) && !self.secure_sum
            || self.defence.rates().is_none()
            || self.defence.has_common_mask()
    }

    /// Whether this party receives a sum of plain gradients that is small enough to have been taken apart.
    pub(crate) fn may_be_taken_apart(&self, viewer: Viewer) -> bool {
        let is_plain = |sight: &Sight| sight.defence == Defence::None && !sight.rule.is_fedavg();
        self.sight(viewer).filter(is_plain).is_some_and(|sight| sight.pictures() > 1 && sight.has_independent_tokens())
    }

    /// Why a program cannot try what this party would, with this many synthetic updates: a clause.
    pub fn obstacle(&self, viewer: Viewer, updates: usize) -> Option<String> {
        let Some(sight) = self.sight(viewer) else { return Some("it receives nothing of others".to_owned()) };
        let pictures = match viewer {
            Viewer::DishonestServer if self.secure_sum && self.model.vit().is_none() => {
                return Some("this program adds up no updates with batch norm".to_owned());
            }
            Viewer::DishonestServer => self.hidden_among(),
            _ => sight.pictures(),
        };
        if updates == 0 {
            return Some("no updates were asked for".to_owned());
        }
        if !self.knows_values(viewer) {
            return Some("this party does not know which values the masks kept".to_owned());
        }
        // A sum of protected updates is not one protected update of all pictures, and neither is one of local training.
        if sight.clients > 1 && (sight.defence != Defence::None || sight.rule.is_fedavg()) {
            return Some("this program does not add up protected or locally trained updates".to_owned());
        }
        (pictures > MOST_PICTURES)
            .then(|| format!("{pictures} pictures would take long; at most {MOST_PICTURES} are tried"))
    }

    /// The rule by which a trial makes what this party sees: a difference of models is one step at the server's rate.
    pub fn trial_rule(&self, viewer: Viewer) -> Rule {
        match self.sight(viewer) {
            Some(sight) if sight.is_difference && !self.rule.is_fedavg() => {
                Rule::FedAvg { epochs: 1, rate: SERVER_RATE }
            }
            _ => self.rule,
        }
    }

    /// What this party receives, in a sentence.
    pub(crate) fn receives(&self, viewer: Viewer) -> String {
        let Self { batch, cohort, .. } = *self;
        let pictures = |count: usize| if count == 1 { "one picture".to_owned() } else { format!("{count} pictures") };
        match viewer {
            Viewer::Server if self.secure_sum => {
                format!("The sum of {cohort} updates, made from {}.", pictures(cohort.saturating_mul(batch)))
            }
            Viewer::Server => format!("Every update of every client, each made from {}.", pictures(batch)),
            Viewer::Client if cohort == 1 => {
                "The new model. It is the only client, so there is nobody else's update.".to_owned()
            }
            Viewer::Client => format!(
                "The new model of each round. Subtracting the previous model gives the average update, if the server averages \
                 plainly. Without the client's own update, {} left, made from {}.",
                if cohort == 2 {
                    "that of one other client is".to_owned()
                } else {
                    format!("those of {} others are", cohort - 1)
                },
                pictures((cohort - 1).saturating_mul(batch))
            ),
            Viewer::DishonestServer if self.sight(viewer).is_none() => {
                "The same: an update of one picture is already what doctored weights would make of it.".to_owned()
            }
            Viewer::DishonestServer => format!(
                "The gradient of one picture alone, out of {}: it sends weights under which the others have none (fishing{}).",
                self.hidden_among(),
                if self.secure_sum { ", or inconsistent models" } else { "" }
            ),
            Viewer::Outsider => format!(
                "With TLS, the size and time of each message. Without TLS, all that the server receives. Anybody who is given the \
                 model of each round has the average of {cohort} update{}.",
                if cohort == 1 { "" } else { "s" }
            ),
        }
    }

    /// A prediction that assumes values the party does not know promises nothing.
    pub(crate) fn tempered(&self, viewer: Viewer, outlook: Outlook) -> Outlook {
        if outlook == Outlook::Exact && !self.knows_values(viewer) { Outlook::Unknown } else { outlook }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(defence: &str, cohort: usize, secure_sum: bool) -> Deployment {
        Deployment {
            model: "vit_lab_patch8_32".parse().unwrap(),
            april_block: false,
            rule: Rule::FedSgd,
            batch: 2,
            cohort,
            defence: defence.parse().unwrap(),
            secure_sum,
        }
    }

    #[test]
    fn each_party_sees_as_many_pictures_as_are_added() {
        let pictures = |deployment: Deployment| Viewer::ALL.map(|viewer| Some(deployment.sight(viewer)?.pictures()));
        assert_eq!(pictures(deployment("none", 10, false)), [Some(2), Some(18), Some(1), Some(20)]);
        assert_eq!(pictures(deployment("none", 10, true)), [Some(20), Some(18), Some(1), Some(20)]);
        assert_eq!(pictures(deployment("none", 1, false)), [Some(2), None, Some(1), Some(2)]);
        let single = Deployment { batch: 1, ..deployment("none", 10, false) };
        assert_eq!(single.sight(Viewer::DishonestServer), None, "nothing to take apart");
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let refused = |deployment: Deployment| deployment.check().unwrap_err().to_string();
        assert!(refused(Deployment { batch: 0, ..deployment("none", 3, false) }).contains("the batch is 0"));
        assert!(refused(deployment("none", 1, true)).contains("cohort of 2 or more"));
        let resnet = Deployment { model: "resnet_nano".parse().unwrap(), ..deployment("fixed-position", 3, false) };
        assert!(refused(resnet).contains("resnet_nano has none"));
    }
}
