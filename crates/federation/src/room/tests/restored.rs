//! Saved rooms continue where they stopped.

use super::*;

/// Restores the room from its serialised form.
fn restored(room: &Room) -> Room {
    let SavedRoom { state, model, moments, records } = room.saved();
    let state = postcard::from_bytes(&postcard::to_stdvec(&state).unwrap()).unwrap();
    let records = postcard::from_bytes(&postcard::to_stdvec(&records).unwrap()).unwrap();
    Room::restore(SavedRoom { state, model, moments, records }).unwrap()
}

fn adam(defence: &str, rule: &str) -> RoundSettings {
    settings(defence, rule).with_optimiser("adam:0.01".parse().unwrap()).unwrap()
}

/// Adam depends on moments and step count, clipping on norms; the masks are random.
#[test]
fn next_round_is_the_same_bit_for_bit() {
    let mut room = Room::new(model(1), adam("random-binary:0.5", "fedsgd"));
    for client in [A, B] {
        room.handle(Event::Joined(client));
    }
    room.handle(Event::Start);
    let round = |room: &mut Room, seed: u8| {
        for (client, value) in [(A, 0.5), (B, -0.25)] {
            let values = vec![value; room.model().state.weights.len()];
            let update = protect(room, values, [seed + client.0 as u8; 32], None);
            send(room, client, update);
        }
    };
    for number in 0..4 {
        round(&mut room, 10 * number);
        room.handle(Event::Begin);
    }
    // The running fifth round is repeated.
    let mut again = restored(&room);
    assert_eq!((room.round(), again.round(), again.phase()), (5, 4, RoomPhase::Between));
    assert_eq!(again.update_counts().groups(), room.update_counts().groups());
    for client in [A, B] {
        again.handle(Event::Joined(client));
    }
    assert_eq!(cohort(&again.handle(Event::Begin)), [A, B]);
    assert_eq!((again.round(), again.policy()), (room.round(), room.policy()));
    for room in [&mut room, &mut again] {
        round(room, 100);
    }
    assert_eq!((again.round(), again.phase()), (5, RoomPhase::Between));
    assert_eq!(again.model(), room.model());
    assert_eq!(again.saved().moments, room.saved().moments);
    assert_eq!(again.state(), room.state());
    again.handle(Event::Begin);
    let update = protect(&again, vec![0.5; again.model().state.weights.len()], [11; 32], None);
    assert_eq!(refusal(&send(&mut again, A, update)), Refusal::SeedReused, "a seed from before the restart");
}

#[test]
fn the_excluded_stay_excluded_and_choices_stay_chosen() {
    let mut room = started("none", &[A, B]);
    for _ in 0..3 {
        send(&mut room, A, ProtectedUpdate::dense(vec![1.0; 3]));
        let update = dense(&room, 0.0);
        send(&mut room, B, update);
        room.handle(Event::Begin);
    }
    assert_eq!(room.member(A), ClientState::Excluded);
    let masked = settings("random-binary:0.5", "fedsgd");
    room.handle(Event::SetSettings(masked));
    room.handle(Event::SetModel(model(2)));
    let mut again = restored(&room);
    assert_eq!(room.state().next_architecture(), Some(model(2).architecture));
    assert_eq!((again.coming(), again.settings()), (masked, settings("none", "fedsgd")));
    again.handle(Event::Joined(A));
    assert_eq!(again.member(A), ClientState::Excluded);
    again.handle(Event::Joined(B));
    assert_eq!(cohort(&again.handle(Event::Begin)), [B]);
    assert_eq!(again.settings(), masked);
}

/// A client that was silent before the restart is not waited for after it.
#[test]
fn silence_is_remembered() {
    let mut room = started("none", &[A, B]);
    for _ in 0..2 {
        let update = dense(&room, 0.0);
        send(&mut room, A, update);
        let (round, policy) = (room.number, room.policy);
        room.handle(Event::Deadline { round, policy });
        room.handle(Event::Begin);
    }
    assert_eq!(room.member(B), ClientState::SittingOut);
    let mut again = restored(&room);
    for client in [A, B] {
        again.handle(Event::Joined(client));
    }
    assert_eq!(cohort(&again.handle(Event::Begin)), [A, B]);
    let update = dense(&again, 0.0);
    let effects = send(&mut again, A, update);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Quorum { .. })), "{effects:?}");
}

#[test]
fn arrays_of_another_model_are_refused() {
    let saved = || started("none", &[A]).saved();
    let with_model = |model: GlobalModel| Room::restore(SavedRoom { model: Arc::new(model), ..saved() }).unwrap_err();
    let mut short = model(1);
    short.state.weights.pop();
    let expected = model(1).state.weights.len();
    let architecture = model(1).architecture;
    let error = RestoreError::Length { what: "weights", given: expected - 1, expected, architecture };
    assert_eq!(with_model(short), error);
    let other = architecture.with_april_block(true);
    let error = RestoreError::Architecture { model: other, room: architecture };
    assert_eq!(with_model(GlobalModel { architecture: other, state: other.initial(1) }), error);
    let moments = Arc::new(crate::Moments { first: vec![0.0; expected], second: Vec::new() });
    let error = RestoreError::Length { what: "second moments", given: 0, expected, architecture };
    assert_eq!(Room::restore(SavedRoom { moments, ..saved() }).unwrap_err(), error);
    let nano = Architecture::from(VitPreset::Nano);
    let records = Room::new(GlobalModel { architecture: nano, state: nano.initial(1) }, settings("none", "fedsgd"));
    let records = records.saved().records;
    assert_eq!(Room::restore(SavedRoom { records, ..saved() }).unwrap_err(), RestoreError::Counts);
}
