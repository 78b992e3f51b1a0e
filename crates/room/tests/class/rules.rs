//! FedAvg, and updates made under an outdated policy.

use std::time::Duration;

use crate::support::{Class, Client, Plan, gradient, layout, protect};
use unmask_core::{GroupRates, Rule, ZeroRate};
use unmask_defence::{KeyMaterial, Mask, ProtectedUpdate};
use unmask_wire::{RelayMessage, view::Control};

/// Returns weights with few digits, so that their weighted mean is exact.
fn weights(number: usize) -> Vec<f32> {
    (0..layout().len()).map(|i| ((number * 131 + i * 17) % 101) as f32 / 64.0 - 0.75).collect()
}

fn fedavg(defence: &str) -> Class {
    let defence = defence.parse().unwrap();
    Class::with(|config| (config.rule, config.defence, config.batch) = (Rule::FED_AVG, defence, 3))
}

fn sent(client: &Client, plan: &Plan, values: Vec<f32>) -> ProtectedUpdate {
    protect(plan, values, KeyMaterial { seed: client.seed(plan), cipher: None })
}

/// By Eq. 3, the next plan is exactly the mean, weighted by samples.
#[test]
fn weights_are_averaged_by_samples() {
    let class = fedavg("none");
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::Start);
    let (plan, other) = (ada.plan(), bob.plan());
    assert_eq!(plan.rule, Rule::FED_AVG);
    let update = sent(&ada, &plan, weights(1));
    ada.send_samples(&plan, 1.0, 1, update);
    let update = sent(&bob, &other, weights(2));
    bob.send_samples(&other, 3.0, 3, update);
    assert_eq!(ada.answer(), RelayMessage::Accepted { round: 1 });
    let plan = ada.plan();
    let mean: Vec<f32> = weights(1).iter().zip(weights(2)).map(|(one, three)| (one + 3.0 * three) / 4.0).collect();
    assert_eq!((plan.round, plan.weights), (2, mean));
}

/// By Eq. 4, dropped weights do not count, and weights that no client sent are unchanged to the bit.
#[test]
fn masked_weights_are_averaged_where_they_were_sent() {
    let class = fedavg("random-binary:0.75");
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::Start);
    let (before, other) = (ada.plan(), bob.plan());
    let update = sent(&ada, &before, weights(1));
    ada.send_samples(&before, 1.0, 1, update);
    let update = sent(&bob, &other, weights(2));
    bob.send_samples(&other, 1.0, 2, update);
    let after = ada.plan();
    let rates = GroupRates::uniform(ZeroRate::new(0.75).unwrap());
    let mask = |seed| Mask::new(seed, &rates, &layout()).entries().collect::<Vec<bool>>();
    let (mine, others) = (mask(ada.seed(&before)), mask(bob.seed(&other)));
    let (one, two) = (weights(1), weights(2));
    let mut untouched = 0;
    for i in 0..before.weights.len() {
        let wanted = match (mine[i], others[i]) {
            (true, true) => (f64::from(one[i]) + 2.0 * f64::from(two[i])) / 3.0,
            (true, false) => one[i].into(),
            (false, true) => two[i].into(),
            (false, false) => {
                untouched += 1;
                assert_eq!(after.weights[i].to_bits(), before.weights[i].to_bits(), "weight {i}");
                continue;
            }
        };
        assert!(
            (f64::from(after.weights[i]) - wanted).abs() < 1e-6,
            "weight {i}: {} is not {wanted}",
            after.weights[i]
        );
    }
    assert!(untouched > before.weights.len() / 2, "{untouched}");
}

#[test]
fn an_update_of_no_samples_is_refused() {
    let class = fedavg("none");
    let mut eve = class.client("Eve");
    class.control(Control::Start);
    let plan = eve.plan();
    let update = sent(&eve, &plan, weights(1));
    eve.send_samples(&plan, 1.0, 0, update);
    let said = eve.refusal();
    assert!(said.contains("0 samples"), "{said}");
    let room = class.room();
    assert!(room.losses.is_empty(), "{:?}", room.losses);
}

/// A claim of a million samples counts as one batch.
#[test]
fn a_claim_weighs_no_more_than_a_batch() {
    let class = fedavg("none");
    let (mut ada, mut eve) = (class.client("Ada"), class.client("Eve"));
    class.control(Control::Start);
    let (plan, other) = (ada.plan(), eve.plan());
    let update = sent(&ada, &plan, weights(1));
    ada.send_samples(&plan, 1.0, 3, update);
    let update = sent(&eve, &other, weights(2));
    eve.send_samples(&other, 1.0, 1_000_000, update);
    let mean: Vec<f32> =
        weights(1).iter().zip(weights(2)).map(|(one, other)| (3.0 * one + 3.0 * other) / 6.0).collect();
    assert_eq!(ada.plan().weights, mean);
}

/// An update for a round of the old rule is not averaged into one of the new rule. It is logged, and the student does
/// not have to act.
#[test]
fn update_of_an_old_policy_is_refused() {
    let class = Class::with(|config| config.deadline = Duration::from_secs(2));
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::Start);
    let (missed, plan) = (ada.plan(), bob.plan());
    class.control(Control::Rule { rule: "fedavg".parse().unwrap() });
    bob.update(&plan, gradient(1));
    let plan = bob.plan();
    assert_eq!((plan.round, plan.rule), (2, Rule::FED_AVG));
    ada.update(&missed, gradient(2));
    class.log_line("under policy 1, the round runs under policy 2");
    bob.update(&plan, weights(1));
    let plan = bob.plan();
    assert_eq!((plan.round, plan.weights), (3, weights(1)));
    assert_eq!(ada.plan().round, 3);
}
