//! Clients that do not answer: late, away, sitting out, and back again.

use super::*;

const D: ClientId = ClientId(4);
const E: ClientId = ClientId(5);

/// Sends an update of `client`, which is accepted.
fn answer(room: &mut Room, client: ClientId) -> Vec<Effect> {
    let update = dense(room, 1.0);
    let effects = send(room, client, update);
    assert!(matches!(effects[0], Effect::Accepted { .. }), "{effects:?}");
    effects
}

fn deadline(room: &mut Room) -> Vec<Effect> {
    let (round, policy) = (room.number, room.policy);
    room.handle(Event::Deadline { round, policy })
}

fn waited(room: &mut Room) -> Vec<Effect> {
    let (round, policy) = (room.number, room.policy);
    room.handle(Event::Waited { round, policy })
}

fn hide(room: &mut Room, client: ClientId, is_hidden: bool) -> Vec<Effect> {
    room.handle(Event::Visibility { client, is_hidden })
}

fn sitting_out(effects: &[Effect]) -> Vec<ClientId> {
    let out = |effect: &Effect| match effect {
        Effect::SittingOut(client) => Some(*client),
        _ => None,
    };
    effects.iter().filter_map(out).collect()
}

fn has_quorum(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Quorum { .. }))
}

/// Two rounds of A and B in which B never answers.
fn with_b_sitting_out() -> Room {
    let mut room = started("none", &[A, B]);
    answer(&mut room, A);
    waited(&mut room);
    let effects = deadline(&mut room);
    assert_eq!((closed(&effects).unwrap().late, sitting_out(&effects)), (vec![B], vec![]));
    assert_eq!(room.member(B), ClientState::Late);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
    let effects = answer(&mut room, A);
    assert_eq!((closed(&effects).unwrap().late, sitting_out(&effects)), (vec![], vec![B]));
    assert_eq!(room.member(B), ClientState::SittingOut);
    room
}

#[test]
fn two_silent_rounds_make_a_client_sit_out_until_it_asks() {
    let mut room = with_b_sitting_out();
    for _ in 0..3 {
        assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
        assert!(sitting_out(&answer(&mut room, A)).is_empty(), "it is reported only once");
    }
    assert!(room.handle(Event::Return(B)).is_empty());
    assert_eq!(room.member(B), ClientState::Joined);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    answer(&mut room, B);
    answer(&mut room, A);
    // After an answer, the count of missed rounds starts again.
    room.handle(Event::Begin);
    answer(&mut room, A);
    assert!(sitting_out(&deadline(&mut room)).is_empty());
    assert_eq!(room.member(B), ClientState::Late);
}

/// A client that never answers costs one deadline, even if it asks to come back: no round waits for it until it
/// answers.
#[test]
fn who_asks_and_stays_silent_is_not_waited_for() {
    let mut room = with_b_sitting_out();
    for ask in [Event::Return(B), Event::Joined(B)] {
        room.handle(ask);
        assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
        assert!(has_quorum(&answer(&mut room, A)), "all counted clients have answered");
        assert_eq!(sitting_out(&deadline(&mut room)), [B]);
    }
    // Leaving and coming back with the ticket does not reset this.
    room.handle(Event::Left(B));
    room.handle(Event::Joined(B));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    assert!(has_quorum(&answer(&mut room, A)));
    assert_eq!(sitting_out(&deadline(&mut room)), [B]);
    // Without the ticket, it is a new client.
    room.handle(Event::Left(B));
    room.handle(Event::Forgotten(B));
    room.handle(Event::Joined(B));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    assert!(!has_quorum(&answer(&mut room, A)));
}

/// A late update shows that a client is there. Rounds that waited for it twice in vain wait again once it has answered one
/// in time, or as quickly as rounds wait for anybody.
#[test]
fn who_answers_late_is_asked_and_not_waited_for() {
    let late_update = |room: &Room, round| update_event(B, round, 1, dense(room, 1.0));
    let broken = |_: &Room, round| update_event(B, round, 1, ProtectedUpdate::dense(Vec::new()));
    type Late<'a> = &'a dyn Fn(&Room, u32) -> Event;
    let answers: [Late<'_>; 2] = [&late_update, &broken];
    for late in answers {
        for is_quick in [false, true] {
            let mut room = with_b_sitting_out();
            for round in [1, 3] {
                let answer_of_b = late(&room, round);
                room.handle(answer_of_b);
                assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
                let is_awaited = !has_quorum(&answer(&mut room, A));
                assert_eq!(is_awaited, round == 1, "two rounds have waited for it");
                if is_awaited {
                    waited(&mut room);
                    deadline(&mut room);
                }
            }
            if is_quick {
                deadline(&mut room);
                room.handle(Event::Quick(B));
                let answer_of_b = late(&room, 4);
                room.handle(answer_of_b);
            } else {
                answer(&mut room, B);
            }
            room.handle(Event::Begin);
            assert!(!has_quorum(&answer(&mut room, A)), "rounds wait for it again");
        }
    }
    let mut room = with_b_sitting_out();
    room.handle(Event::Unable { client: B, round: 1, policy: 1, is_locked: false });
    assert_eq!(room.member(B), ClientState::SittingOut, "to be unable is no answer to a round that is over");
}

/// A client that says after each round that it was unable to take part costs two rounds.
#[test]
fn who_is_unable_after_each_round_sits_out() {
    let mut room = started("none", &[A, B]);
    for round in [1, 2] {
        assert!(!has_quorum(&answer(&mut room, A)), "round {round} waits");
        assert_eq!(sitting_out(&deadline(&mut room)), if round == 1 { vec![] } else { vec![B] });
        room.handle(Event::Unable { client: B, round, policy: 1, is_locked: false });
        room.handle(Event::Begin);
    }
    for _ in 0..3 {
        assert!(closed(&answer(&mut room, A)).is_some(), "nobody else is asked");
        assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
    }
}

/// A careful client that leaves doctored rounds out is asked again, and rounds wait for it.
#[test]
fn who_doubts_each_round_still_counts() {
    let mut room = started("none", &[A, B]);
    for round in 1..=4 {
        room.handle(Event::Doubtful { client: B, round, policy: 1 });
        assert!(closed(&answer(&mut room, A)).is_some());
        assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    }
    assert!(!has_quorum(&answer(&mut room, A)), "the round waits");
}

/// What a client does to make others wait, before or after the end of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stall {
    Late,
    Hidden,
    Gone,
    Locked,
}

/// A client that stalls every second round and answers the others well is soon not waited for, whatever it does.
#[test]
fn who_stalls_is_not_waited_for() {
    for stall in [Stall::Late, Stall::Hidden, Stall::Gone, Stall::Locked] {
        let (mut room, mut waits) = (started("none", &[A, B]), 0);
        for number in 0..40 {
            let (round, policy) = (room.number, room.policy);
            if number % 2 == 1 {
                answer(&mut room, B);
                answer(&mut room, A);
            } else {
                let is_awaited = !has_quorum(&answer(&mut room, A));
                waits += u32::from(is_awaited);
                if is_awaited {
                    waited(&mut room);
                }
                match stall {
                    Stall::Late => drop(deadline(&mut room)),
                    Stall::Hidden => {
                        hide(&mut room, B, true);
                        deadline(&mut room);
                    }
                    Stall::Gone => drop(room.handle(Event::Left(B))),
                    Stall::Locked => {
                        room.handle(Event::Unable { client: B, round, policy, is_locked: true });
                        if room.member(B) == ClientState::SittingOut {
                            room.handle(Event::Return(B));
                        }
                    }
                }
                assert_eq!(room.phase(), RoomPhase::Between, "{stall:?}");
                let late = update_event(B, round, policy, ProtectedUpdate::dense(Vec::new()));
                match stall {
                    Stall::Late => drop(room.handle(late)),
                    Stall::Hidden => {
                        room.handle(late);
                        hide(&mut room, B, false);
                    }
                    Stall::Gone => drop(room.handle(Event::Joined(B))),
                    Stall::Locked => {}
                }
            }
            let asked = cohort(&room.handle(Event::Begin));
            assert_eq!(asked, [A, B], "{stall:?} in round {number}");
        }
        assert!(waits <= 5, "{stall:?}: {waits} of 20");
    }
}

/// Slow clients among quick ones are charged only where the round outlasts its last answer.
#[test]
fn who_answers_just_after_the_end_is_waited_for() {
    let mut room = started("none", &[A, B, C, D, E]);
    for _ in 0..30 {
        for client in [A, B] {
            answer(&mut room, client);
        }
        waited(&mut room);
        for client in [C, D] {
            answer(&mut room, client);
        }
        // The fourth of five ends the round, and the fifth comes a moment later.
        let (round, policy) = (room.number, room.policy);
        deadline(&mut room);
        let late = update_event(E, round, policy, ProtectedUpdate::dense(Vec::new()));
        room.handle(late);
        assert_eq!(cohort(&room.handle(Event::Begin)).len(), 5);
    }
    for client in [A, B, C, D] {
        let effects = answer(&mut room, client);
        let is_awaited = |effect: &Effect| matches!(effect, Effect::Quorum { awaited: true, .. });
        assert_eq!(effects.iter().any(is_awaited), client == D, "the round still waits for the fifth");
    }
}

/// One that is unable in time twice in a row is not asked again until it asks. A missing passphrase is no excuse where
/// nothing is encrypted.
#[test]
fn who_is_unable_twice_sits_out() {
    for is_locked in [false, true] {
        let mut room = started("none", &[A, B]);
        for round in [1, 2] {
            let effects = room.handle(Event::Unable { client: B, round, policy: 1, is_locked });
            assert_eq!(sitting_out(&effects), if round == 2 { vec![B] } else { vec![] });
            assert!(closed(&answer(&mut room, A)).is_some());
            room.handle(Event::Begin);
        }
        assert_eq!(room.member(B), ClientState::SittingOut);
        room.handle(Event::Return(B));
        assert_eq!(room.member(B), ClientState::Joined);
    }
}

/// A client that always answers after the deadline is slow, but never sits out.
#[test]
fn who_is_always_late_never_sits_out() {
    let mut room = started("none", &[A, B]);
    for round in [1, 3, 5] {
        assert_eq!(has_quorum(&answer(&mut room, A)), round == 5, "two rounds wait for it");
        waited(&mut room);
        assert!(sitting_out(&deadline(&mut room)).is_empty());
        room.handle(Event::Begin);
        let late = update_event(B, round, 1, dense(&room, 1.0));
        assert!(matches!(refusal(&room.handle(late)), Refusal::Stale { .. }));
        assert!(sitting_out(&answer(&mut room, A)).is_empty());
        assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    }
}

#[test]
fn a_late_client_that_asks_need_not_answer_first() {
    let mut room = started("none", &[A, B]);
    answer(&mut room, A);
    deadline(&mut room);
    room.handle(Event::Return(B));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    answer(&mut room, A);
    assert_eq!(sitting_out(&deadline(&mut room)), [B], "that was the second round in a row");
}

/// With nobody else there, a client that comes back gets a round immediately.
#[test]
fn a_room_of_silent_clients_waits_and_goes_on() {
    let come_back: [(ClientState, Event); 5] = [
        (ClientState::Late, Event::Return(A)),
        (ClientState::Late, Event::Unable { client: A, round: 1, policy: 1, is_locked: false }),
        (ClientState::Away, Event::Return(A)),
        (ClientState::Away, Event::Visibility { client: A, is_hidden: false }),
        (ClientState::Away, Event::Joined(A)),
    ];
    for (state, event) in come_back {
        let mut room = started("none", &[A]);
        hide(&mut room, A, state == ClientState::Away);
        deadline(&mut room);
        assert_eq!(room.member(A), state);
        assert!(room.handle(Event::Begin).is_empty());
        assert_eq!(room.phase(), RoomPhase::Waiting);
        assert_eq!(cohort(&room.handle(event)), [A]);
    }
    // A leaves; only B, which sits out, and an excluded client remain.
    let mut room = with_b_sitting_out();
    room.handle(Event::Joined(C));
    for _ in 0..3 {
        room.handle(Event::Begin);
        send(&mut room, C, ProtectedUpdate::dense(Vec::new()));
        answer(&mut room, A);
    }
    assert_eq!(room.member(C), ClientState::Excluded);
    assert!(room.handle(Event::Left(A)).is_empty());
    assert!(room.handle(Event::Begin).is_empty());
    assert_eq!(room.phase(), RoomPhase::Waiting);
    assert!(room.handle(Event::Return(C)).is_empty(), "only the teacher lets it back in");
    assert_eq!(cohort(&room.handle(Event::Return(B))), [B]);
}

/// One of five clients is in the background: the other four are enough, and the round does not wait for its deadline.
#[test]
fn a_hidden_client_is_neither_counted_nor_late() {
    let all = [A, B, C, D, E];
    let mut room = started("none", &all);
    hide(&mut room, E, true);
    assert!(room.is_hidden(E) && room.member(E) == ClientState::Training);
    for client in [A, B, C] {
        assert!(!has_quorum(&answer(&mut room, client)), "three of four are less than 0.8");
    }
    assert!(has_quorum(&answer(&mut room, D)));
    let effects = deadline(&mut room);
    assert_eq!((closed(&effects).unwrap().late, sitting_out(&effects)), (vec![], vec![]));
    assert_eq!(room.member(E), ClientState::Away);
    for _ in 0..3 {
        assert_eq!(cohort(&room.handle(Event::Begin)), [A, B, C, D]);
        for client in [A, B, C, D] {
            assert!(sitting_out(&answer(&mut room, client)).is_empty());
        }
    }
    // It answers late and is asked again, though still in the background.
    room.handle(Event::Unable { client: E, round: 1, policy: 1, is_locked: false });
    assert_eq!(cohort(&room.handle(Event::Begin)), all);
    answer(&mut room, E);
    assert_eq!(room.member(E), ClientState::Sent, "a background client can be fast enough");
}

/// The others may have waited only for a client that now goes to the background or leaves.
#[test]
fn hiding_and_leaving_can_complete_the_quorum() {
    for is_hiding in [true, false] {
        let mut room = started("none", &[A, B, C]);
        hide(&mut room, C, true);
        answer(&mut room, A);
        let effects = if is_hiding { hide(&mut room, B, true) } else { room.handle(Event::Left(B)) };
        assert!(has_quorum(&effects));
        assert!(!has_quorum(&hide(&mut room, B, false)), "reported once");
        assert_eq!(room.phase(), RoomPhase::Training);
    }
}

/// With all clients in the background, there is no answer time to measure: the deadline ends the round.
#[test]
fn hidden_clients_alone_are_waited_for() {
    let mut room = started("none", &[A, B]);
    assert!(!has_quorum(&hide(&mut room, A, true)));
    assert!(!has_quorum(&hide(&mut room, B, true)));
    let unable = room.handle(Event::Unable { client: A, round: 1, policy: 1, is_locked: false });
    assert!(!has_quorum(&unable), "no update has arrived");
    assert_eq!(closed(&answer(&mut room, B)).unwrap().updates, 1);
}

#[test]
fn a_late_client_that_hides_is_away_and_back_when_it_is_seen() {
    let mut room = started("none", &[A, B]);
    answer(&mut room, A);
    deadline(&mut room);
    hide(&mut room, B, true);
    assert_eq!(room.member(B), ClientState::Away);
    for _ in 0..2 {
        room.handle(Event::Begin);
        assert!(sitting_out(&answer(&mut room, A)).is_empty());
    }
    hide(&mut room, B, false);
    assert_eq!((room.member(B), room.is_hidden(B)), (ClientState::Joined, false));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
}

/// A reloaded page counts as visible until it says otherwise.
#[test]
fn joining_again_forgets_the_background() {
    let mut room = started("none", &[A]);
    hide(&mut room, A, true);
    room.handle(Event::Joined(A));
    assert!(!room.is_hidden(A));
    hide(&mut room, B, true);
    assert!(!room.is_hidden(B), "B is not there");
}

/// Only an answer or a request ends sitting out; readmission, a reset or a visible tab does not.
#[test]
fn nothing_but_asking_or_answering_ends_sitting_out() {
    let mut room = with_b_sitting_out();
    hide(&mut room, B, true);
    hide(&mut room, B, false);
    room.handle(Event::Readmit(B));
    room.handle(Event::Reset(model(2)));
    assert_eq!(room.member(B), ClientState::SittingOut);
    room.handle(Event::Start);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
}

/// Not answering a request to encrypt the model counts like a missed round.
#[test]
fn silence_about_a_seal_counts() {
    let mut room = Room::new(model(1), settings("encrypted", "fedsgd"));
    for client in [A, B] {
        room.handle(Event::Joined(client));
    }
    room.handle(Event::Start);
    let ask = |room: &mut Room| {
        room.handle(Event::Begin);
        room.handle(Event::Salt([1; 16]));
    };
    room.handle(Event::Salt([1; 16]));
    let silence = Event::Deadline { round: 0, policy: room.policy };
    assert!(sitting_out(&room.handle(silence.clone())).is_empty());
    assert_eq!(room.member(A), ClientState::Late);
    ask(&mut room);
    assert_eq!(room.member(B), ClientState::Training);
    assert_eq!(sitting_out(&room.handle(silence)), [A]);
    assert_eq!((room.member(A), room.member(B)), (ClientState::SittingOut, ClientState::Late));
}

/// A client excluded for bad updates is not asked to encrypt the model.
#[test]
fn an_excluded_client_is_not_asked_to_seal() {
    let mut room = started("none", &[A, B]);
    for _ in 0..3 {
        send(&mut room, A, ProtectedUpdate::dense(Vec::new()));
        answer(&mut room, B);
        room.handle(Event::Begin);
    }
    assert_eq!(room.member(A), ClientState::Excluded);
    room.handle(Event::SetSettings(settings("encrypted", "fedsgd")));
    answer(&mut room, B);
    room.handle(Event::Salt([1; 16]));
    room.handle(Event::Begin);
    assert_eq!((room.phase(), room.member(B)), (RoomPhase::Sealing, ClientState::Training));
    assert_eq!(room.member(A), ClientState::Excluded);
}

/// The room remembers only connected clients and those that the caller has not forgotten.
#[test]
fn clients_that_are_gone_are_forgotten() {
    let mut room = started("none", &[A]);
    for number in 10..1000 {
        let passer_by = ClientId(number);
        room.handle(Event::Joined(passer_by));
        room.handle(Event::Given { client: passer_by, pictures: 7 });
        room.handle(Event::Left(passer_by));
    }
    room.handle(Event::Given { client: B, pictures: 7 });
    assert_eq!(room.members.known(), 1);
    for number in 10..30 {
        let hostile = ClientId(number);
        room.handle(Event::Joined(hostile));
        answer(&mut room, A);
        assert_eq!(cohort(&room.handle(Event::Begin)), [A, hostile]);
        send(&mut room, hostile, ProtectedUpdate::dense(Vec::new()));
        room.handle(Event::Forgotten(hostile));
        assert!(room.member(hostile) != ClientState::Gone, "it is there");
        room.handle(Event::Left(hostile));
        assert_eq!(room.members.known(), 2);
        room.handle(Event::Forgotten(hostile));
        assert_eq!(room.members.known(), 1);
    }
}

#[test]
fn who_is_late_in_the_foreground_stays_late_until_it_answers() {
    let mut room = started("none", &[A, B]);
    answer(&mut room, A);
    deadline(&mut room);
    for (is_hidden, state) in [(false, ClientState::Late), (true, ClientState::Away), (false, ClientState::Joined)] {
        hide(&mut room, B, is_hidden);
        assert_eq!(room.member(B), state);
    }
}
