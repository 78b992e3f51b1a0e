//! Clients that do not answer: sitting out, away, and back.

use std::time::{Duration, Instant};

use crate::support::{Client, Relay, gradient, state};
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{ClientState, Control, RoomView},
};

async fn train(client: &mut Client) -> u32 {
    let plan = client.plan().await;
    client.update(&plan, gradient(1), [0; 32]).await;
    plan.round
}

fn says(room: &RoomView, part: &str) -> usize {
    room.log.iter().filter(|line| line.text.contains(part)).count()
}

/// Runs two rounds with Ada and Mute, who sits out after them.
async fn with_mute_sitting_out(deadline: Duration) -> (Relay, Client, Client) {
    let relay = Relay::with(|config| config.room.deadline = deadline).await;
    let (mut ada, mut mute) = (relay.client("Ada").await, relay.client("Mute").await);
    relay.control(Control::Start).await;
    assert_eq!(mute.plan().await.round, 1);
    assert_eq!((train(&mut ada).await, train(&mut ada).await), (1, 2));
    assert_eq!(mute.answer().await, RelayMessage::SittingOut);
    let room = relay.room_when("Mute out", |room| state(room, "Mute") == Some(ClientState::SittingOut)).await;
    assert_eq!(says(&room, "Mute has not answered in two rounds and sits out"), 1);
    (relay, ada, mute)
}

#[tokio::test]
async fn silent_client_sits_out_until_it_asks_to_come_back() {
    let (relay, mut ada, mut mute) = with_mute_sitting_out(Duration::from_secs(1)).await;
    train(&mut ada).await;
    mute.socket.send(&ClientMessage::Return, &[]).await;
    relay.log_line("Mute is in the rounds again").await;
    train(&mut ada).await;
    let next = train(&mut ada).await;
    let plan = mute.plan().await;
    assert!(plan.round > 2 && plan.round <= next, "round {}", plan.round);
}

/// A silent client delays a round until the deadline only once, no matter how often it asks for a round, returns with
/// its ticket, or becomes visible. Until it answers, rounds last only as long as the others need.
#[tokio::test]
async fn client_that_never_answers_is_waited_for_once() {
    let (began, deadline) = (Instant::now(), Duration::from_secs(6));
    let (relay, mut ada, mut mute) = with_mute_sitting_out(deadline).await;
    for _ in 0..2 {
        mute.socket.send(&ClientMessage::Return, &[]).await;
        relay.room_when("Mute in", |room| state(room, "Mute") != Some(ClientState::SittingOut)).await;
        // A round may have begun before the request.
        train(&mut ada).await;
        train(&mut ada).await;
        assert_eq!(mute.answer().await, RelayMessage::SittingOut);
    }
    for _ in 0..2 {
        mute = Client::join(&relay.running, "Mute", Some(mute.ticket)).await;
        train(&mut ada).await;
        train(&mut ada).await;
        assert_eq!(mute.answer().await, RelayMessage::SittingOut);
    }
    assert!(began.elapsed() < 2 * deadline, "{:?} for rounds of some milliseconds", began.elapsed());
}

/// A background tab gets its plan, but the round closes without it long before the deadline of a minute.
#[tokio::test]
async fn hidden_client_is_away_and_not_waited_for() {
    let relay = Relay::start().await;
    let (mut ada, mut phone) = (relay.client("Ada").await, relay.client("Phone").await);
    phone.socket.send(&ClientMessage::Visibility { is_hidden: true }, &[]).await;
    relay.room_when("Phone away", |room| state(room, "Phone") == Some(ClientState::Away)).await;
    relay.control(Control::Start).await;
    let plan = phone.plan().await;
    for round in 1..=4 {
        assert_eq!(train(&mut ada).await, round);
    }
    let room = relay.room().await;
    assert_eq!(state(&room, "Phone"), Some(ClientState::Away));
    assert_eq!((says(&room, "without Phone"), says(&room, "sits out")), (0, 0));
    // It may still answer in the background, and is then asked again.
    phone.update(&plan, gradient(2), [0; 32]).await;
    relay.log_line("the update is for round 1").await;
    train(&mut ada).await;
    let round = train(&mut ada).await;
    assert!(phone.plan().await.round > 4);
    // Once visible again, it need not answer first.
    relay.room_when("the next round", |room| room.round > round).await;
    phone.socket.send(&ClientMessage::Visibility { is_hidden: false }, &[]).await;
    relay.room_when("Phone in sight", |room| state(room, "Phone") != Some(ClientState::Away)).await;
    train(&mut ada).await;
    phone.plan().await;
}

#[tokio::test]
async fn ping_is_answered() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    ada.socket.send(&ClientMessage::Ping, &[]).await;
    assert_eq!(ada.answer().await, RelayMessage::Pong);
}
