//! What a change of the plan would change.

use serde::Serialize;
use unmask_core::{Outlook, Rule};
use unmask_inversion::InferenceAttack;

use crate::{
    Deployment, Viewer,
    report::{needs_colluder, predict},
};

/// A change of the plan, and the predictions that it changes.
#[derive(Debug, Clone, Serialize)]
pub struct Control {
    pub name: String,
    pub changes: Vec<Change>,
    /// Attacks that are exact with it.
    pub exact: Vec<(Viewer, InferenceAttack)>,
    /// What it costs, in a sentence.
    pub cost: &'static str,
    /// What is known against it, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub viewer: Viewer,
    pub attack: InferenceAttack,
    pub from: Outlook,
    pub to: Outlook,
}

/// Pictures that a batch is enlarged by.
const LARGER: usize = 8;

/// Every control that the plan does not have yet.
pub(crate) fn controls(plan: &Deployment) -> Vec<Control> {
    let defence = |text: &str| Some(Deployment { defence: text.parse().ok()?, ..*plan });
    let batch = plan.batch.saturating_mul(LARGER);
    let cohort = plan.cohort.saturating_mul(2);
    let is_plain = plan.defence.rates().is_none();
    let candidates = [
        (plan.cohort > 1 && !plan.secure_sum).then(|| {
            let sum = Deployment { secure_sum: true, ..*plan };
            (
                "Secure aggregation: the server sees only the sum".to_owned(),
                Some(sum),
                "A protocol among the clients, which must stay until it ends.",
            )
        }),
        Some((
            format!("Batches of {batch} pictures"),
            Some(Deployment { batch, ..*plan }),
            "Each client needs that many pictures.",
        )),
        plan.secure_sum.then(|| {
            (
                format!("A cohort of {cohort} clients"),
                Some(Deployment { cohort, ..*plan }),
                "As many clients must answer each round.",
            )
        }),
        (!plan.rule.is_fedavg()).then(|| {
            let rule = Rule::FedAvg { epochs: 4, rate: 0.1 };
            (
                "Four local epochs (FedAvg)".to_owned(),
                Some(Deployment { rule, ..*plan }),
                "More computing on each device.",
            )
        }),
        is_plain.then(|| {
            ("Random masks, R = 0.5".to_owned(), defence("random-binary:0.5"), "Half of each update is lost.")
        }),
        Some((
            "Random masks, R = 0.95".to_owned(),
            defence("random-binary:0.95"),
            "Most of each update is lost: training slows down.",
        )),
        Some((
            "A fixed position embedding".to_owned(),
            defence("fixed-position"),
            "The position embedding does not learn.",
        )),
        plan.defence.noise().is_none().then(|| {
            (
                "Gaussian noise, clipped (ε = 4, δ = 1e-5)".to_owned(),
                defence("gaussian:eps=4,delta=1e-5,clip=0.5"),
                "Accuracy falls with the noise; epsilon grows with each round.",
            )
        }),
        Some((
            "Encrypted embeddings, keyed start".to_owned(),
            defence("encrypted:keyed"),
            "All clients share a passphrase that nobody gives away.",
        )),
    ];
    let changed = candidates.into_iter().flatten().filter_map(|(name, changed, cost)| {
        let changed = changed?;
        (changed.check().is_ok() && changed != *plan).then(|| control(plan, &changed, name, cost))
    });
    changed.collect()
}

/// What is known of small sums.
const TAKEN_APART: &str =
    "The attack batch takes sums this small apart, picture by picture, as far as rounding allows.";

/// The attacks that a party makes alone.
fn attacks() -> impl Iterator<Item = InferenceAttack> {
    InferenceAttack::all().into_iter().filter(|attack| !needs_colluder(*attack))
}

fn control(plan: &Deployment, changed: &Deployment, name: String, cost: &'static str) -> Control {
    let outlook = |deployment: &Deployment, viewer, attack| {
        Some(predict(deployment, viewer, &deployment.sight(viewer)?, attack).outlook)
    };
    let mut changes = Vec::new();
    for viewer in [Viewer::Server, Viewer::Client] {
        for attack in attacks() {
            if let (Some(from), Some(to)) = (outlook(plan, viewer, attack), outlook(changed, viewer, attack))
                && from != to
            {
                changes.push(Change { viewer, attack, from, to });
            }
        }
    }
    let all = [Viewer::Server, Viewer::Client].into_iter();
    let exact = all.flat_map(|viewer| attacks().map(move |attack| (viewer, attack)));
    let exact = exact.filter(|&(viewer, attack)| outlook(changed, viewer, attack) == Some(Outlook::Exact)).collect();
    let caution = changed.may_be_taken_apart(Viewer::Server).then_some(TAKEN_APART);
    Control { name, changes, exact, cost, caution }
}

impl Control {
    /// What is exact for this party.
    pub fn exact(&self, viewer: Viewer) -> impl Iterator<Item = InferenceAttack> {
        self.exact.iter().filter(move |(party, _)| *party == viewer).map(|(_, attack)| *attack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(defence: &str, secure_sum: bool) -> Deployment {
        Deployment {
            model: "vit_nano_patch4_32".parse().unwrap(),
            april_block: false,
            rule: Rule::FedSgd,
            batch: 1,
            cohort: 10,
            defence: defence.parse().unwrap(),
            secure_sum,
        }
    }

    /// A plan lists what it does not have yet, and each control says what it takes away.
    #[test]
    fn controls_change_predictions() {
        let all = controls(&plan("none", false));
        let named = |part: &str| all.iter().find(|control| control.name.contains(part)).unwrap();
        let embedding: InferenceAttack = "embedding".parse().unwrap();
        for part in ["Secure aggregation", "Batches of 8", "R = 0.5", "fixed position", "Gaussian", "keyed start"] {
            let lost = named(part).changes.iter().any(|change| {
                (change.viewer, change.attack, change.from) == (Viewer::Server, embedding, Outlook::Exact)
            });
            assert!(lost, "{part}");
        }
        let still: Vec<InferenceAttack> = named("Secure aggregation").exact(Viewer::Server).collect();
        assert_eq!(still, [InferenceAttack::Membership]);
        let names = |plan| controls(&plan).into_iter().map(|control| control.name).collect::<Vec<_>>().join("; ");
        let protected = names(plan("fixed-position", true));
        assert!(!protected.contains("Secure") && !protected.contains("fixed position"), "{protected}");
        assert!(protected.contains("cohort of 20"), "{protected}");
        let resnet = Deployment { model: "resnet_nano".parse().unwrap(), ..plan("none", false) };
        assert!(!names(resnet).contains("position"), "a ResNet has no embeddings");
    }
}
