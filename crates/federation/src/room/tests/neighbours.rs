//! How many updates a step is made of. Who knows all but one of them knows that one, too.

use super::*;

const D: ClientId = ClientId(4);

fn started_with(robots: &[ClientId], people: &[ClientId], updates: Option<u32>) -> (Room, u32) {
    let mut room = room("none").with_quorum(Quorum { updates, ..Quorum::default() });
    for robot in robots {
        room.handle(Event::Robot(*robot));
    }
    for client in robots.iter().chain(people) {
        room.handle(Event::Joined(*client));
    }
    let effects = room.handle(Event::Start);
    let least = effects.iter().find_map(|effect| match effect {
        Effect::Plan { least, .. } => Some(*least),
        _ => None,
    });
    (room, least.expect("a plan"))
}

/// Ends the round after the answers of these clients.
fn after(room: &mut Room, answers: &[ClientId]) -> Result<(), Void> {
    let mut effects = Vec::new();
    for client in answers {
        let update = dense(room, 1.0);
        effects.extend(send(room, *client, update));
    }
    let (round, policy) = (room.round(), room.policy());
    effects.extend(room.handle(Event::Deadline { round, policy }));
    closed(&effects).expect("a closed round").void.map_or(Ok(()), Err)
}

#[test]
fn with_three_people_a_step_needs_three_of_them() {
    for (answers, expected) in [
        (vec![A, C], Err(Void::TooFew { updates: 2, least: 3 })),
        (vec![D, A, C], Err(Void::TooFewPeople { people: 2, least: 3 })),
        (vec![A, B, C], Ok(())),
    ] {
        let (mut room, least) = started_with(&[D], &[A, B, C], None);
        let before = room.model().state.weights.clone();
        assert_eq!((least, after(&mut room, &answers)), (3, expected), "{answers:?}");
        assert_eq!(room.model().state.weights != before, expected.is_ok());
    }
}

#[test]
fn with_fewer_people_robots_count() {
    let (mut room, least) = started_with(&[C, D], &[A, B], None);
    assert_eq!((least, after(&mut room, &[A, B])), (3, Err(Void::TooFew { updates: 2, least: 3 })));
    let (mut room, _) = started_with(&[C, D], &[A, B], None);
    assert_eq!(after(&mut room, &[A, C, D]), Ok(()));
    // Two updates hide nothing from each other, and the plan says so.
    let (mut room, least) = started_with(&[B], &[A], None);
    assert_eq!((least, after(&mut room, &[A])), (1, Ok(())));
}

#[test]
fn the_least_number_can_be_set() {
    let (mut room, least) = started_with(&[], &[A, B, C], Some(1));
    assert_eq!((least, after(&mut room, &[A])), (1, Ok(())));
    let (mut room, least) = started_with(&[], &[A, B], Some(4));
    assert_eq!((least, after(&mut room, &[A, B])), (4, Err(Void::TooFew { updates: 2, least: 4 })));
    let (mut room, _) = started_with(&[D], &[A, B, C], Some(2));
    assert_eq!(after(&mut room, &[A, D]), Err(Void::TooFewPeople { people: 1, least: 2 }));
}

/// One of three cannot void every round by an update that no rule counts.
#[test]
fn who_spoils_rounds_is_soon_not_counted_on() {
    let (mut room, _) = started_with(&[], &[A, B, C], None);
    let mut void = 0;
    for round in 1..=30 {
        let mut effects = Vec::new();
        for (client, value) in [(A, 1.0), (B, 1.0), (C, 1e25)] {
            let update = dense(&room, value);
            effects.extend(send(&mut room, client, update));
        }
        let summary = closed(&effects).expect("all have answered");
        assert_eq!(summary.updates, 2, "round {round}");
        void += u32::from(summary.void.is_some());
        room.handle(Event::Begin);
    }
    assert!((3..=7).contains(&void), "{void} of 30 rounds took no step");
}

/// Neither by leaving after the plan, nor without the passphrase, does one of three stop learning.
#[test]
fn who_takes_no_part_is_soon_not_counted_on() {
    for is_leaving in [true, false] {
        let (mut room, _) = started_with(&[], &[A, B, C], None);
        let mut steps = 0;
        for _ in 0..30 {
            let (round, policy) = (room.round(), room.policy());
            if is_leaving {
                room.handle(Event::Left(C));
            } else {
                room.handle(Event::Unable { client: C, round, policy, is_locked: true });
            }
            let mut effects = Vec::new();
            for client in [A, B] {
                let update = dense(&room, 1.0);
                effects.extend(send(&mut room, client, update));
            }
            steps += u32::from(closed(&effects).expect("all have answered").void.is_none());
            if is_leaving {
                room.handle(Event::Joined(C));
            }
            room.handle(Event::Begin);
        }
        assert!((20..30).contains(&steps), "{steps} of 30 rounds took a step");
    }
}
