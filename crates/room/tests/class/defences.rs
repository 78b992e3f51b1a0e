//! Every defence: accepted and refused updates, and what the projector shows.

use std::collections::HashMap;

use crate::support::{Class, Client, Plan, RATE, gradient, layout, protect};
use unmask_core::{Defence, MaskSeed, Rule};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_wire::{
    RelayMessage,
    view::{Control, NextView, RoomView, UpdateCountsView},
};

fn under(defence: &str, seed: u8) -> ProtectedUpdate {
    let defence: Defence = defence.parse().unwrap();
    let plain = PlainUpdate { values: gradient(2), reference: None };
    defence.protect(&layout(), plain, KeyMaterial { seed: MaskSeed([seed; 32]), cipher: None }).unwrap()
}

fn choose(class: &Class, defence: &str) {
    class.control(Control::Defence { defence: defence.parse().unwrap() });
}

fn one_round(class: &Class, client: &mut Client) -> Plan {
    class.control(Control::OneRound);
    client.plan()
}

/// One room goes through all defences. Under each, an update made under another is refused with a reason, and a
/// matching one is averaged.
#[test]
fn each_defence_takes_updates_of_its_own_alone() {
    let class = Class::unattacked(|_| {});
    let mut ada = class.client("Ada");
    let hint = "random-binary:patch=0.95,pos=0.95,0.2";
    let noise = "gaussian:eps=4,delta=0.00001,clip=0.5";
    let cases = [
        ("none", "random-binary:0.5", "the round's defence is none"),
        ("fixed-position", "none", "position embedding"),
        (hint, "random-binary:0.5", "the round's defence is random-binary:"),
        ("frozen-binary:0.5", "random-binary:0.5", "not the common frozen one"),
        ("frozen-binary:0.5", "frozen-binary:0.25", "the round's defence is frozen-binary:0.5"),
        (noise, "random-binary:0.5", "the round's defence is gaussian:"),
        ("random-binary:0.5", "none", "the round's defence is random-binary:0.5"),
    ];
    for (number, (defence, other, reason)) in (1u8..).zip(cases) {
        choose(&class, defence);
        let plan = one_round(&class, &mut ada);
        assert_eq!(plan.defence, defence.parse().unwrap());
        ada.send_update(&plan, 1.0, under(other, number));
        let said = ada.refusal();
        assert!(said.contains(reason), "{other} under {defence}: {said}");
        let before = plan.weights;
        let plan = one_round(&class, &mut ada);
        assert_eq!(plan.weights, before, "what was refused under {defence} moved the model");
        let sent = protect(&plan, gradient(1), KeyMaterial { seed: ada.seed(&plan), cipher: None });
        ada.send_update(&plan, 1.0, sent.clone());
        assert_eq!(ada.answer(), RelayMessage::Accepted { round: plan.round }, "{defence}");
        // The mean of one update is that update.
        let stepped = one_round(&class, &mut ada);
        for ((after, before), sent) in stepped.weights.iter().zip(&before).zip(sent.expand(&layout()).unwrap()) {
            assert!((after - (before - RATE * sent)).abs() < 1e-5, "{defence}: {before} became {after}, not by {sent}");
        }
        ada.send_update(&stepped, 1.0, under(other, 200 + number));
        ada.refusal();
    }
}

fn groups(counts: &UpdateCountsView) -> HashMap<&str, (f64, f64)> {
    counts.groups.iter().map(|group| (group.key.as_str(), (group.never, group.mean))).collect()
}

fn rounds(class: &Class, clients: &mut [Client], number: u8) -> RoomView {
    let before = class.room().losses.len();
    for round in 0..number {
        class.control(Control::OneRound);
        for (client, who) in clients.iter_mut().zip(1u8..) {
            let plan = client.plan();
            client.update(&plan, gradient(who.into()));
        }
        let closed = before + usize::from(round) + 1;
        class.room_when("the round's end", |room| room.losses.len() == closed);
    }
    class.room()
}

/// The projector's chart compares two clients' masks over three rounds with G(f), and restarts under each policy.
#[test]
fn update_counts_are_shown_for_the_policy_in_force() {
    let class = Class::unattacked(|config| config.defence = "random-binary:pos=0.9,0.5".parse().unwrap());
    let mut clients = [class.client("Ada"), class.client("Bob")];
    assert_eq!(class.room().update_counts, None);
    let counts = rounds(&class, &mut clients, 3).update_counts.unwrap();
    assert_eq!((counts.rounds, counts.updates, counts.sampled), (3, 2.0, None));
    assert_eq!(counts.groups.iter().map(|group| group.parameters).sum::<usize>(), layout().len());
    for group in &counts.groups {
        let rate: f64 = group.rate.unwrap();
        assert!((rate - if group.key == "pos" { 0.9 } else { 0.5 }).abs() < 1e-4, "{group:?}");
        let (share, expected) = group.bins.iter().fold((0.0, 0.0), |(s, e), bin| (s + bin.share, e + bin.expected));
        assert!((share - 1.0).abs() < 1e-5 && (expected - 1.0).abs() < 1e-5, "{group:?}");
        // G(f) = C(3, f) (1 - R^2)^f (R^2)^(3 - f), with a tolerance of six standard deviations.
        let missed = rate * rate;
        let binomial = [1.0, 3.0, 3.0, 1.0];
        assert_eq!(group.bins.len(), binomial.len());
        for (f, (bin, ways)) in group.bins.iter().zip(binomial).enumerate() {
            let wanted = ways * (1.0 - missed).powi(f as i32) * missed.powi(3 - f as i32);
            assert!((bin.expected - wanted).abs() < 1e-5, "{group:?}");
            let deviation = (wanted * (1.0 - wanted) / group.parameters as f64).sqrt();
            assert!((bin.share - wanted).abs() < 6.0 * deviation + 1e-6, "{group:?}");
        }
    }
    let json = serde_json::to_string(&class.room()).unwrap();
    assert!(json.len() < 32 * 1024, "{} bytes", json.len());

    choose(&class, "fixed-position");
    let counts = rounds(&class, &mut clients, 2).update_counts.unwrap();
    assert_eq!((counts.rounds, groups(&counts)["pos"], groups(&counts)["attn"]), (2, (1.0, 0.0), (0.0, 2.0)));

    choose(&class, "frozen-binary:0.5");
    let counts = rounds(&class, &mut clients, 2).update_counts.unwrap();
    for group in &counts.groups {
        assert!((group.never + group.mean / 2.0 - 1.0).abs() < 1e-5, "neither never nor always: {group:?}");
    }
    assert!((groups(&counts)["mlp"].0 - 0.5).abs() < 0.02, "{counts:?}");

    class.control(Control::Reset);
    assert_eq!(class.room().update_counts, None);
}

/// A rule, optimiser or batch size chosen during a round takes effect from the next one.
#[test]
fn settings_take_effect_between_rounds() {
    let class = Class::unattacked(|_| {});
    let mut ada = class.client("Ada");
    let plan = one_round(&class, &mut ada);
    assert_eq!((plan.rule, plan.batch), (Rule::FedSgd, 1));
    class.control(Control::Rule { rule: "fedavg:epochs=2,rate=0.05".parse().unwrap() });
    class.control(Control::Optimiser { optimiser: "adam:0.01".parse().unwrap() });
    class.control(Control::Batch { samples: 4 });
    choose(&class, "fixed-position");
    let room = class.room();
    let now = [room.rule.to_string(), room.optimiser.to_string(), room.defence.to_string()];
    assert_eq!((now.each_ref().map(String::as_str), room.batch), (["fedsgd", "sgd:0.5", "none"], 1));
    let next = NextView {
        defence: Some("fixed-position".parse().unwrap()),
        rule: Some("fedavg:epochs=2,rate=0.05".parse().unwrap()),
        optimiser: Some("adam:0.01".parse().unwrap()),
        batch: Some(4),
        ..NextView::default()
    };
    assert_eq!(room.next, Some(next));
    ada.update(&plan, gradient(1));
    let plan = one_round(&class, &mut ada);
    assert_eq!((plan.round, plan.batch, plan.defence), (2, 4, Defence::FixedPosition));
    assert_eq!(plan.rule, Rule::FedAvg { epochs: 2, rate: 0.05 });
    let room = class.room();
    let now = [room.rule.to_string(), room.optimiser.to_string(), room.defence.to_string()];
    assert_eq!(
        (now.each_ref().map(String::as_str), room.batch),
        (["fedavg:epochs=2,rate=0.05", "adam:0.01", "fixed-position"], 4)
    );
    assert_eq!(room.next, None);
    // A choice that is reverted before the next round has no effect.
    choose(&class, "none");
    choose(&class, "fixed-position");
    assert_eq!(class.room().next, None);
    class.log_line("The teacher chose a batch size of 4 from the next round on.");
}
