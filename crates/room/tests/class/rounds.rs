//! Rounds: what ends them, and what changes between them.

use std::time::Duration;

use crate::support::{Class, gradient, state};
use unmask_core::{Architecture, VitPreset};
use unmask_wire::{
    RelayMessage,
    view::{ClientState, Control, NextView, Phase},
};

#[test]
fn closed_is_told_to_everybody() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let mut late_comer = class.client("Bob");
    ada.update(&plan, gradient(1));
    let closed = RelayMessage::Closed { round: 1, loss: Some(1.0), updates: 1 };
    assert_eq!(late_comer.socket.message().unwrap().0, closed);
    assert_eq!(ada.socket.message().unwrap().0, RelayMessage::Accepted { round: 1 });
    assert_eq!(ada.socket.message().unwrap().0, closed);
    let room = class.room_when("the pause", |room| room.phase == Phase::Paused);
    assert_eq!((room.round, room.deadline_seconds), (1, None));
}

/// If a client does not answer, the deadline ends the round for the others, and the next round does not wait for it.
#[test]
fn silent_client_is_late_and_comes_back() {
    let class = Class::with(|config| config.deadline = Duration::from_secs(2));
    let (mut ada, mut mute) = (class.client("Ada"), class.client("Mute"));
    class.control(Control::Start);
    let (plan, missed) = (ada.plan(), mute.plan());
    let room = class.room();
    assert_eq!(room.phase, Phase::Training);
    assert!(room.deadline_seconds.is_some_and(|left| left > 0.0 && left <= 2.0), "{:?}", room.deadline_seconds);
    ada.update(&plan, gradient(1));
    let plan = ada.plan();
    assert_eq!(plan.round, 2);
    class.log_line("Round 1 closed without Mute");
    assert_eq!(state(&class.room(), "Mute"), Some(ClientState::Late));
    ada.update(&plan, gradient(1));
    assert_eq!(ada.plan().round, 3);
    mute.update(&missed, gradient(2));
    class.log_line("the update is for round 1");
    assert!(mute.plan().round >= 3);
}

#[test]
fn controls_take_effect_from_the_next_round_on() {
    let class = Class::unattacked(|_| {});
    let mut ada = class.client("Ada");
    class.control(Control::Start);
    let plan = ada.plan();
    class.control(Control::Defence { defence: "random-binary:0.25".parse().unwrap() });
    let room = class.room();
    let next = NextView { defence: Some("random-binary:0.25".parse().unwrap()), ..NextView::default() };
    assert_eq!((room.defence.to_string().as_str(), room.next), ("none", Some(next)));
    ada.update(&plan, gradient(1));
    let plan = ada.plan();
    assert_eq!((plan.round, plan.defence.to_string().as_str()), (2, "random-binary:0.25"));
    class.control(Control::AprilBlock { on: true });
    let april = Architecture::from(VitPreset::Pico).with_april_block(true);
    let next = NextView { architecture: Some(april), ..NextView::default() };
    assert_eq!(class.room().next, Some(next));
    // A reverted choice changes nothing.
    class.control(Control::AprilBlock { on: false });
    assert_eq!(class.room().next, None);
    class.control(Control::AprilBlock { on: true });
    ada.update(&plan, gradient(1));
    let plan = ada.plan();
    assert_eq!((plan.round, plan.model.april_block), (1, true));
    let room = class.room();
    assert!(room.architecture == april && room.next.is_none() && room.losses.is_empty());
    assert_eq!(room.parameters, plan.weights.len());
    class.control(Control::Reset);
    let room = class.room();
    assert_eq!((room.phase, room.round, room.architecture), (Phase::Paused, 0, april));
    // After it answers the dropped round, it can take part in the next one.
    class.control(Control::Start);
    ada.send_update(&plan, 1.0, unmask_defence::ProtectedUpdate::dense(Vec::new()));
    class.log_line("no round is running");
    let fresh = ada.plan();
    assert_eq!(fresh.round, 1);
    assert_ne!(fresh.weights, plan.weights);
}

#[test]
fn seeded_room_that_starts_by_itself() {
    let start = || Class::with(|config| (config.seed, config.start) = (Some(7), true));
    let (one, other) = (start(), start());
    assert_eq!(one.room().phase, Phase::Waiting);
    let weights = one.client("Ada").plan().weights;
    assert_eq!(weights, other.client("Ada").plan().weights);
}
