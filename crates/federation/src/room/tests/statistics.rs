//! Batch norm's running statistics in the updates of a ResNet.

use unmask_core::{ResnetPreset, StatisticsError};

use super::*;

/// A room of A and B in its first round.
fn resnet(rule: &str) -> Room {
    let architecture = Architecture::from(ResnetPreset::Nano);
    let mut room = Room::new(GlobalModel { architecture, state: architecture.initial(1) }, settings("none", rule));
    for client in [A, B] {
        room.handle(Event::Joined(client));
    }
    room.handle(Event::Start);
    room
}

fn answer(room: &mut Room, client: ClientId, update: ProtectedUpdate, statistics: Vec<f32>) -> Vec<Effect> {
    let (round, policy) = (room.number, room.policy);
    room.handle(Event::Update(ReceivedUpdate { client, round, policy, loss: 2.0, samples: 1, update, statistics }))
}

#[test]
fn another_number_of_statistics_is_refused_and_the_round_goes_on() {
    for rule in ["fedsgd", "fedavg"] {
        let expected = resnet(rule).model().state.statistics.len();
        for given in [0, 1, expected - 1, expected + 1] {
            let mut room = resnet(rule);
            let update = dense(&room, 0.5);
            let effects = answer(&mut room, A, update.clone(), vec![0.25; given]);
            assert_eq!(refusal(&effects), Refusal::Statistics(StatisticsError::Count { given, expected }), "{rule}");
            assert_eq!(room.phase(), RoomPhase::Training);
            // Nothing refused may be in the mean.
            let summary = closed(&answer(&mut room, B, update, vec![1.5; expected])).unwrap();
            assert_eq!((summary.updates, room.model().state.statistics.clone()), (1, vec![1.5; expected]), "{rule}");
        }
    }
}

/// If values are missing, statistics must not be taken for values.
#[test]
fn values_that_are_too_few_are_refused_before_their_statistics() {
    let mut room = resnet("fedsgd");
    let expected = room.model().state.statistics.len();
    let mut update = dense(&room, 0.5);
    update.values.pop();
    let effects = answer(&mut room, A, update, vec![0.5; expected]);
    assert!(matches!(refusal(&effects), Refusal::Update(_)), "{effects:?}");
}

#[test]
fn a_vit_has_no_statistics() {
    let mut room = started("none", &[A]);
    let update = dense(&room, 0.5);
    let effects = answer(&mut room, A, update, vec![0.5]);
    assert_eq!(refusal(&effects), Refusal::Statistics(StatisticsError::Count { given: 1, expected: 0 }));
}

#[test]
fn a_round_without_any_update_leaves_weights_and_statistics() {
    let mut room = resnet("fedavg");
    let before = Arc::clone(room.model());
    room.handle(Event::Left(A));
    let summary = closed(&room.handle(Event::Left(B))).unwrap();
    assert_eq!((summary.updates, summary.loss), (0, None));
    assert_eq!(room.model(), &before);
}
