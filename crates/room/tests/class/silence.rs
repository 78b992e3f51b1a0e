//! Clients that do not answer: sitting out, away, and back.

use std::time::Duration;

use crate::support::{Class, Client, gradient, state};
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{ClientState, Control, RoomView},
};

fn train(client: &mut Client) -> u32 {
    let plan = client.plan();
    client.update(&plan, gradient(1));
    plan.round
}

fn says(room: &RoomView, part: &str) -> usize {
    room.log.iter().filter(|line| line.text.contains(part)).count()
}

/// Runs two rounds with Ada and Mute, who sits out after them.
fn with_mute_sitting_out(deadline: Duration) -> (Class, Client, Client) {
    let class = Class::with(|config| config.deadline = deadline);
    let (mut ada, mut mute) = (class.client("Ada"), class.client("Mute"));
    class.control(Control::Start);
    assert_eq!(mute.plan().round, 1);
    assert_eq!((train(&mut ada), train(&mut ada)), (1, 2));
    assert_eq!(mute.answer(), RelayMessage::SittingOut);
    let room = class.room_when("Mute out", |room| state(room, "Mute") == Some(ClientState::SittingOut));
    assert_eq!(says(&room, "Mute has not taken part in two rounds and sits out"), 1);
    (class, ada, mute)
}

#[test]
fn silent_client_sits_out_until_it_asks_to_come_back() {
    let (class, mut ada, mut mute) = with_mute_sitting_out(Duration::from_secs(1));
    train(&mut ada);
    mute.socket.send(&ClientMessage::Return, &[]);
    class.log_line("Mute is in the rounds again");
    train(&mut ada);
    let next = train(&mut ada);
    let plan = mute.plan();
    assert!(plan.round > 2 && plan.round <= next, "round {}", plan.round);
}

/// A silent client delays a round until the deadline only once, no matter how often it asks for a round, returns with
/// its ticket, or becomes visible. Until it answers, rounds last only as long as the others need.
#[test]
fn client_that_never_answers_is_waited_for_once() {
    let deadline = Duration::from_secs(6);
    let (class, mut ada, mut mute) = with_mute_sitting_out(deadline);
    for _ in 0..2 {
        mute.socket.send(&ClientMessage::Return, &[]);
        class.room_when("Mute in", |room| state(room, "Mute") != Some(ClientState::SittingOut));
        // A round may have begun before the request.
        train(&mut ada);
        train(&mut ada);
        assert_eq!(mute.answer(), RelayMessage::SittingOut);
    }
    for _ in 0..2 {
        mute = Client::join(&class, "Mute", Some(mute.ticket));
        train(&mut ada);
        train(&mut ada);
        assert_eq!(mute.answer(), RelayMessage::SittingOut);
    }
    assert!(class.passed() < 2 * deadline, "{:?} for rounds of some milliseconds", class.passed());
}

/// A background tab gets its plan, but the round closes without it long before the deadline of a minute.
#[test]
fn hidden_client_is_away_and_not_waited_for() {
    let class = Class::start();
    let (mut ada, mut phone) = (class.client("Ada"), class.client("Phone"));
    phone.socket.send(&ClientMessage::Visibility { is_hidden: true }, &[]);
    class.room_when("Phone away", |room| state(room, "Phone") == Some(ClientState::Away));
    class.control(Control::Start);
    let plan = phone.plan();
    for round in 1..=4 {
        assert_eq!(train(&mut ada), round);
    }
    let room = class.room();
    assert_eq!(state(&room, "Phone"), Some(ClientState::Away));
    assert_eq!((says(&room, "without Phone"), says(&room, "sits out")), (0, 0));
    // It may still answer in the background, and is then asked again.
    phone.update(&plan, gradient(2));
    class.log_line("the update is for round 1");
    train(&mut ada);
    let round = train(&mut ada);
    assert!(phone.plan().round > 4);
    // Once visible again, it need not answer first.
    class.room_when("the next round", |room| room.round > round);
    phone.socket.send(&ClientMessage::Visibility { is_hidden: false }, &[]);
    class.room_when("Phone in sight", |room| state(room, "Phone") != Some(ClientState::Away));
    train(&mut ada);
    phone.plan();
}

#[test]
fn ping_is_answered() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    ada.socket.send(&ClientMessage::Ping, &[]);
    assert_eq!(ada.answer(), RelayMessage::Pong);
}
