//! The client under attack, and controls that belong together.

use crate::support::{Class, Client, gradient, state};
use unmask_core::{ClientId, Defence};
use unmask_lesson::Scene;
use unmask_wire::view::{ClientState, Control, Phase};

/// The first client to join is the target. If it leaves, another present client is.
#[test]
fn target_is_always_somebody_present() {
    let class = Class::start();
    assert_eq!(class.room().target, None);
    let (ada, bob, eve) = (class.client("Ada"), class.client("Bob"), class.client("Eve"));
    assert_eq!(class.room().target, Some(ada.id));
    class.control(Control::Target { client: eve.id });
    assert_eq!(class.room().target, Some(eve.id));
    let gone = eve.id;
    drop(eve);
    class.room_when("another target", |room| room.target == Some(ada.id));
    let sentence = class.refusal_of(&Control::Target { client: gone });
    assert!(sentence.contains("Eve"), "{sentence}");
    drop((ada, bob));
    let room = class.room_when("no target", |room| room.target.is_none());
    assert_eq!(state(&room, "Ada"), Some(ClientState::Gone));
    let zoe = class.client("Zoe");
    assert_eq!(class.room().target, Some(zoe.id));
}

fn masked(rate: &str) -> Control {
    Control::Defence { defence: rate.parse().unwrap() }
}

/// The first of two controls lets a round begin, which must already have the second.
#[test]
fn no_round_begins_between_controls_sent_together() {
    let class = Class::start();
    let mut ada = Client::join_unseen(&class, "Ada");
    class.control(Control::Lesson { scene: Scene::SecureSum, beat: 0 });
    class.control(Control::Start);
    assert_eq!(class.room().phase, Phase::Waiting, "Ada did not agree to be asked");
    let controls = vec![Control::Lesson { scene: Scene::Lobby, beat: 0 }, masked("random-binary:0.5")];
    class.control(Control::Together { controls });
    let plan = ada.plan();
    assert_eq!((plan.round, plan.defence), (1, "random-binary:0.5".parse().unwrap()));
}

#[test]
fn controls_sent_together_end_at_the_first_refusal() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    let unknown = Control::Target { client: ClientId(77) };
    let controls = vec![masked("random-binary:0.5"), unknown, masked("random-binary:0.9"), Control::Start];
    let sentence = class.refusal_of(&Control::Together { controls });
    assert!(sentence.contains("77"), "{sentence}");
    let slow = Control::Collude { passphrase: Some("stork".to_owned()) };
    let sentence = class.refusal_of(&Control::Together { controls: vec![slow] });
    assert!(sentence.contains("collude") && sentence.contains("alone"), "{sentence}");
    assert_eq!(class.room().phase, Phase::Paused);
    class.control(Control::Start);
    assert_eq!(ada.plan().defence, "random-binary:0.5".parse::<Defence>().unwrap());
}

/// No weights are made for a choice that the same list takes back.
#[test]
fn a_choice_reverted_in_one_list_costs_no_model() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, gradient(1));
    class.room_when("a trained model", |room| room.losses.len() == 1);
    let (before, on) = (class.weights(), !class.room().architecture.april_block());
    let [there, back] = [on, !on].map(|on| Control::AprilBlock { on });
    class.control(Control::Together { controls: vec![Control::Start, there, Control::Batch { samples: 1 }, back] });
    assert_eq!(ada.plan().round, 2);
    assert_eq!(class.weights(), before);
}

#[test]
fn a_list_in_a_list_is_refused() {
    let class = Class::start();
    let inner = Control::Together { controls: vec![Control::Start] };
    let sentence = class.refusal_of(&Control::Together { controls: vec![inner] });
    assert!(sentence.contains("another list"), "{sentence}");
}
