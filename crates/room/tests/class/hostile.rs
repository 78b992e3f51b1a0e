//! Hostile input. Each sender is refused with a message, and the round continues for the others.

use crate::support::{Class, Plan, RATE, gradient, layout, protect, state, view};
use unmask_core::{Aggregation, GroupRates, KeyCheck, MaskSeed, UpdateForm};
use unmask_defence::{KeyMaterial, ProtectedUpdate, commitment};
use unmask_wire::{
    ClientMessage, RelayMessage, SeedDraw, frames,
    view::{ClientState, Control, Phase},
};

fn update_message(plan: &Plan, form: UpdateForm) -> ClientMessage {
    ClientMessage::Update { round: plan.round, policy: plan.policy, loss: 1.0, samples: 1, form, draw: None }
}

/// Invalid updates in valid messages. The client stays and takes part in the next round.
#[test]
fn bad_updates_are_refused_and_the_round_goes_on() {
    let class = Class::unattacked(|config| config.defence = "random-binary:0.5".parse().unwrap());
    let (mut honest, mut eve) = (class.client("Honest"), class.client("Eve"));
    class.control(Control::Start);
    let masked =
        |zero_rate| UpdateForm::Masked { seed: MaskSeed([200; 32]), rates: GroupRates::from_bits([zero_rate; 7]) };
    let cases: [(UpdateForm, Vec<f32>, &str); 5] = [
        (masked(32768), vec![0.0; 5], "has 5 values, its mask keeps"),
        (masked(32768), Vec::new(), "has 0 values, its mask keeps"),
        (masked(16384), Vec::new(), "the round's defence is random-binary:0.5"),
        (UpdateForm::Dense, gradient(2), "the round's defence is random-binary:0.5"),
        (UpdateForm::Encrypted { check: KeyCheck([1; 16]) }, gradient(2), "the round's defence is random-binary:0.5"),
    ];
    for (number, (kind, values, reason)) in cases.into_iter().enumerate() {
        let (plan, target) = (honest.plan(), eve.plan());
        eve.socket.send(&update_message(&target, kind), &values);
        let said = eve.refusal();
        assert!(said.contains(reason), "{said}");
        if number == 2 {
            let room =
                class.room_when("the third one too many", |room| state(room, "Eve") == Some(ClientState::Excluded));
            assert!(view(&room, "Eve").refusal.as_ref().is_some_and(|refusal| refusal.contains(reason)));
            class.control(Control::Readmit { client: eve.id });
        }
        honest.update(&plan, gradient(1));
    }
    let (plan, target) = (honest.plan(), eve.plan());
    for value in [f32::NAN, f32::INFINITY] {
        let mut poisoned = gradient(2);
        poisoned.fill(value);
        let keys = KeyMaterial { seed: MaskSeed([77; 32]), cipher: None };
        let update = protect(&target, poisoned, keys);
        if value.is_nan() {
            eve.send_update(&target, 1.0, update);
            assert!(eve.refusal().contains("NaN at position 0"));
        } else {
            eve.send_update(&target, value, update);
            let said = eve.refusal();
            assert!(said.contains("began without this client"), "{said}");
        }
    }
    honest.update(&plan, gradient(1));
    let room = class.room_when("six rounds", |room| room.losses.len() == 6);
    assert!(room.losses.iter().all(|point| point.updates == 1), "{:?}", room.losses);
    assert!(room.log.iter().any(|line| line.text.contains("Eve: refused, update has 5 values")));
}

/// An update of huge values and claims is reported, and has no other effect.
#[test]
fn a_huge_update_moves_nothing() {
    let class = Class::with(|config| config.aggregation = Aggregation::Clipped);
    let mut clients = Vec::new();
    for nickname in ["Ada", "Bob", "Carol"] {
        clients.push(class.client(nickname));
    }
    let mut eve = class.client("Eve");
    class.control(Control::OneRound);
    for (number, client) in clients.iter_mut().enumerate() {
        let plan = client.plan();
        client.update(&plan, gradient(number));
    }
    let plan = eve.plan();
    let form = UpdateForm::Dense;
    let message = ClientMessage::Update {
        round: plan.round,
        policy: plan.policy,
        loss: 1e38,
        samples: 1_000_000,
        form,
        draw: None,
    };
    eve.socket.send(&message, &vec![1e25; layout().len()]);
    class.log_line("is much larger than the others and was scaled down");
    let room = class.room_when("the end of the round", |room| room.phase == Phase::Paused);
    assert_eq!((room.losses[0].updates, room.losses[0].loss), (3, 1.0));
    assert_eq!((view(&room, "Ada").loss, view(&room, "Eve").loss), (Some(1.0), None));
    class.control(Control::OneRound);
    let after = eve.plan().weights;
    let norm = |values: Vec<f32>| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let step: Vec<f32> = plan.weights.iter().zip(&after).map(|(before, after)| after - before).collect();
    // The step is about the mean of the other three, at the room's rate.
    assert!(norm(step) <= 1.3 * RATE * norm(gradient(1)), "the model has moved too far");
}

/// Neither a chosen seed, nor another client's, nor one from a nonce that its client committed to after seeing the plan.
#[test]
fn a_mask_s_seed_is_drawn_and_counts_once() {
    let class = Class::unattacked(|config| config.defence = "random-binary:0.5".parse().unwrap());
    let (mut ada, mut eve) = (class.client("Ada"), class.client("Eve"));
    class.control(Control::Start);
    let (mut plan, mut copy) = (ada.plan(), eve.plan());
    ada.update(&plan, gradient(1));
    assert_eq!(ada.answer(), RelayMessage::Accepted { round: 1 });
    ada.update(&plan, gradient(1));
    assert!(ada.refusal().contains("already taken"));
    for is_ada_s in [false, true] {
        let seed = if is_ada_s { ada.seed(&copy) } else { MaskSeed([77; 32]) };
        let update = protect(&copy, gradient(2), KeyMaterial { seed, cipher: None });
        eve.send_update(&copy, 1.0, update);
        let (said, reason) =
            (eve.refusal(), if is_ada_s { "used before" } else { "not drawn together with the relay" });
        assert!(said.contains(reason), "{said}");
        (plan, copy) = (ada.plan(), eve.plan());
        if plan.round == 2 {
            ada.update(&plan, gradient(1));
        }
    }
    // She is away for a round, and answers it when she sees the plan of the next one.
    let hide = |is_hidden| ClientMessage::Visibility { is_hidden };
    eve.socket.send(&hide(true), &[]);
    ada.update(&plan, gradient(1));
    plan = ada.plan();
    eve.socket.send(&hide(false), &[]);
    ada.update(&plan, gradient(1));
    let (late, new) = (eve.plan(), [99; 32]);
    let update = protect(&copy, gradient(2), KeyMaterial { seed: eve.seed(&copy), cipher: None });
    let draw = Some(SeedDraw { nonce: eve.socket.nonce, next: commitment(&new) });
    let (round, policy) = (copy.round, copy.policy);
    let message = ClientMessage::Update { round, policy, loss: 1.0, samples: 1, form: update.form, draw };
    eve.socket.send(&message, &update.values);
    eve.socket.nonce = new;
    eve.update(&late, gradient(2));
    assert!(eve.refusal().contains("after the round had begun"));
    plan = ada.plan();
    ada.update(&plan, gradient(1));
    plan = eve.plan();
    eve.update(&plan, gradient(2));
    assert_eq!(eve.answer(), RelayMessage::Accepted { round: plan.round });
}

#[test]
fn wrong_length_without_a_mask() {
    let class = Class::with(|config| config.start = true);
    let mut eve = class.client("Eve");
    let plan = eve.plan();
    eve.send_update(&plan, 1.0, ProtectedUpdate::dense(vec![0.0; 3]));
    assert!(eve.refusal().contains(&format!("3 values, its layout has {}", layout().len())));
    let plan = eve.plan();
    eve.send_update(&plan, f32::NAN, ProtectedUpdate::dense(gradient(1)));
    assert!(eve.refusal().contains("loss is NaN"));
    let plan = eve.plan();
    eve.socket.send(
        &ClientMessage::Unable { round: plan.round, policy: plan.policy, reason: "tired\n".into(), is_locked: false },
        &[],
    );
    class.log_line("Eve cannot take part in round 3: tired");
    let plan = eve.plan();
    // Longer than any update of this room.
    let mut long = frames(&update_message(&plan, UpdateForm::Dense), &vec![0.0; 2 * layout().len()]).unwrap();
    eve.socket.frame(&long.swap_remove(0));
    assert!(eve.socket.goodbye().contains("over the limit"));
}

#[test]
fn second_hello_is_refused() {
    let class = Class::start();
    let mut eve = class.client("Eve");
    eve.socket.hello("Ada", None);
    assert!(eve.refusal().contains("second hello"));
    assert_eq!(class.room().clients.len(), 1);
}
