//! Checks of updates under each defence.

use unmask_core::{Defence, GroupRates};

use super::*;

/// The update that a defence makes of the same values.
fn update_of(defence: &str, rule: &str) -> ProtectedUpdate {
    let room = Room::new(model(1), settings(defence, rule));
    protect(&room, vec![0.5; room.learner.layout().len()], [9; 32], None)
}

#[test]
fn each_defence_takes_its_own_updates_and_no_others() {
    let defences = ["none", "fixed-position", "random-binary:0.5", "random-binary:pos=0.9,0.5", "frozen-binary:0.5"];
    for rule in ["fedsgd", "fedavg"] {
        for asked in defences {
            for sent in defences {
                let mut room = Room::new(model(1), settings(asked, rule));
                room.handle(Event::Joined(A));
                room.handle(Event::Start);
                let effects = send(&mut room, A, update_of(sent, rule));
                let is_taken = matches!(effects[0], Effect::Accepted { .. });
                // Without a defence, an unchanged position embedding is valid.
                let is_right = asked == sent || (asked, sent) == ("none", "fixed-position");
                assert_eq!(is_taken, is_right, "{sent} under {asked}, {rule}");
                if !is_right {
                    assert!(refusal(&effects).to_string().contains("mask") || sent == "none", "{effects:?}");
                }
            }
        }
    }
}

#[test]
fn refusals_name_what_was_sent_and_what_was_asked_for() {
    let mut room = started("random-binary:0.5", &[A]);
    let update = dense(&room, 1.0);
    let text = refusal(&send(&mut room, A, update)).to_string();
    assert_eq!(text, "the update is not masked, the round's defence is random-binary:0.5");
    let mut room = started("random-binary:0.5", &[A]);
    let text = refusal(&send(&mut room, A, update_of("random-binary:pos=0.9,0.5", "fedsgd"))).to_string();
    assert!(text.contains("masked at rate pos=0.9,0.5"), "{text}");
    let mut room = started("fixed-position", &[A]);
    let update = dense(&room, 1.0);
    assert!(refusal(&send(&mut room, A, update)).to_string().contains("position embedding"));
}

/// Under FedAvg the position embedding must come back bit for bit; a nearly equal or zero one is a change.
#[test]
fn fixed_position_is_bit_for_bit() {
    let fixed = |alter: fn(&mut f32)| {
        let mut room = Room::new(model(1), settings("fixed-position", "fedavg"));
        room.handle(Event::Joined(A));
        room.handle(Event::Start);
        let mut weights = room.model().state.weights.clone();
        weights.iter_mut().for_each(|weight| *weight *= 1.5);
        let position = room.learner.layout().get("pos_embed").unwrap().range.clone();
        weights[position.clone()].copy_from_slice(&room.model().state.weights[position.clone()]);
        alter(&mut weights[position.start + 7]);
        send(&mut room, A, ProtectedUpdate::dense(weights))
    };
    assert!(matches!(fixed(|_| {})[0], Effect::Accepted { .. }));
    assert!(matches!(refusal(&fixed(|weight| *weight = weight.next_up())), Refusal::OtherDefence { .. }));
    assert!(matches!(refusal(&fixed(|weight| *weight = 0.0)), Refusal::OtherDefence { .. }));
}

#[test]
fn seed_must_be_fresh() {
    let mut room = started("random-binary:0.5", &[A, B]);
    let masked = protect(&room, vec![1.0; room.learner.layout().len()], [4; 32], None);
    assert!(matches!(send(&mut room, A, masked.clone())[0], Effect::Accepted { .. }));
    assert_eq!(refusal(&send(&mut room, B, masked)), Refusal::SeedReused);
    room.handle(Event::Begin);
    let common = protect(&room, vec![1.0; room.learner.layout().len()], FROZEN_SEED.0, None);
    assert_eq!(refusal(&send(&mut room, A, common)), Refusal::SeedReused);
}

#[test]
fn frozen_seed_must_be_the_common_one_and_may_come_again() {
    let mut room = started("frozen-binary:0.5", &[A, B]);
    for _ in 0..2 {
        for client in [A, B] {
            let frozen = protect(&room, vec![1.0; room.learner.layout().len()], [0; 32], None);
            assert!(matches!(send(&mut room, client, frozen)[0], Effect::Accepted { .. }));
        }
        room.handle(Event::Begin);
    }
    let rates: GroupRates = "0.5".parse().unwrap();
    let own = Defence::RandomBinary { rates };
    let plain = PlainUpdate { values: vec![1.0; room.learner.layout().len()], reference: None };
    let own = own.protect(room.learner.layout(), plain, KeyMaterial { seed: MaskSeed([3; 32]), cipher: None }).unwrap();
    let refusal = refusal(&send(&mut room, A, own));
    assert!(refusal.to_string().contains("not the common frozen one"), "{refusal}");
}

#[test]
fn an_update_of_no_samples_is_refused() {
    let mut room = started("none", &[A]);
    let update = dense(&room, 1.0);
    let refusal = refusal(&send_samples(&mut room, A, update, 0));
    assert_eq!(refusal, Refusal::Samples(0));
    assert!(refusal.to_string().starts_with("0 samples"));
}

/// An update left out for its norm is not averaged, but still counts as clipped.
#[test]
fn a_round_says_how_many_were_too_large_averaged_or_not() {
    for (values, updates, clipped) in [([1.0, 1.0, 1.0], 3, 0), ([0.001, 1.0, 1e30], 2, 2), ([1.0, 1e30, 1e30], 1, 2)] {
        let mut room = started("none", &[A, B, C]);
        let [a, b, c] = values.map(|value| dense(&room, value));
        send(&mut room, A, a);
        send(&mut room, B, b);
        let summary = closed(&send(&mut room, C, c)).unwrap();
        assert_eq!((summary.updates, summary.clipped), (updates, clipped), "{values:?}");
    }
}

/// Claimed samples beyond the room's batch must not count.
#[test]
fn samples_beyond_the_batch_count_as_one_batch() {
    for samples in [2, 1_000_001, u32::MAX] {
        let mut room = started("none", &[A]);
        let update = dense(&room, 1.0);
        assert_eq!(closed(&send_samples(&mut room, A, update, samples)).unwrap().samples, 1);
    }
}

/// Eq. 3: five samples weigh five times as much as one; not so under FedSGD (Eq. 1).
#[test]
fn samples_weigh_under_fedavg_alone() {
    for (rule, expected) in [("fedavg", 3.5), ("fedsgd", 0.0)] {
        let settings = settings("none", rule).with_batch(5).unwrap().with_aggregation(Aggregation::Mean).unwrap();
        let mut room = Room::new(model(1), settings);
        room.handle(Event::Joined(A));
        room.handle(Event::Joined(B));
        room.handle(Event::Start);
        let before = room.model().state.weights.clone();
        let (one, other) = (dense(&room, 1.0), dense(&room, if rule == "fedavg" { 4.0 } else { -1.0 }));
        send_samples(&mut room, A, one, 1);
        let summary = closed(&send_samples(&mut room, B, other, 5)).unwrap();
        assert_eq!((summary.updates, summary.samples), (2, 6));
        let expected = if rule == "fedavg" { vec![expected; before.len()] } else { before };
        assert_eq!(room.model().state.weights, expected);
    }
}

fn received(room: &Room, client: ClientId, update: ProtectedUpdate) -> ReceivedUpdate {
    let (round, policy) = (room.number, room.policy);
    ReceivedUpdate { client, round, policy, loss: 2.0, samples: 1, update, statistics: Vec::new() }
}

/// An accepted update shows its values and its mask, which are those that the client sent.
#[test]
fn accepted_updates_can_be_read_before_the_room_takes_them() {
    let mut room = started("random-binary:0.5", &[A, B]);
    let update = protect(&room, vec![1.5; room.learner.layout().len()], [4; 32], None);
    let accepted = room.accept(received(&room, A, update.clone())).unwrap();
    assert_eq!((accepted.client(), accepted.round(), accepted.samples()), (A, 1, 1));
    assert_eq!(accepted.update().values(), update.values);
    assert!(accepted.update().words().unwrap().eq(update.mask(room.learner.layout()).unwrap()));
    assert_eq!(room.member(A), ClientState::Training, "nothing has changed yet");
    assert!(matches!(room.handle(Event::Checked(Ok(accepted)))[0], Effect::Accepted { client: A, round: 1 }));
}

/// The room may move on between the check of an update and its addition.
#[test]
fn accepted_updates_that_come_too_late_are_refused() {
    let mut room = started("random-binary:0.5", &[A, B]);
    let same = protect(&room, vec![1.0; room.learner.layout().len()], [4; 32], None);
    let [first, second, late] = [(A, &same), (B, &same), (A, &same)]
        .map(|(client, update)| room.accept(received(&room, client, update.clone())).unwrap());
    assert!(matches!(room.handle(Event::Checked(Ok(first)))[0], Effect::Accepted { .. }));
    assert_eq!(refusal(&room.handle(Event::Checked(Ok(late.clone())))), Refusal::Twice { round: 1 });
    assert_eq!(refusal(&room.handle(Event::Checked(Ok(second)))), Refusal::SeedReused);
    assert_eq!(room.phase(), RoomPhase::Between);
    assert_eq!(refusal(&room.handle(Event::Checked(Ok(late)))), Refusal::Stale { update: 1, current: None });
}
