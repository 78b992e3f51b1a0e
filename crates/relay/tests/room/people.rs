//! Clients that join, leave and return.

use std::time::Duration;

use crate::support::{Client, Relay, Socket, gradient, state, view};
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{ClientState, Control, Phase},
};

#[tokio::test]
async fn two_tabs_with_one_nickname() {
    let relay = Relay::start().await;
    let (first, second) = (relay.client("Ada").await, relay.client(" Ada\n").await);
    assert_eq!((first.nickname.as_str(), second.nickname.as_str()), ("Ada", "Ada 2"));
    assert_ne!(first.id, second.id);
    assert_ne!(first.ticket, second.ticket);
    assert_eq!(relay.client("").await.nickname, "guest");
    let room = relay.room().await;
    assert_eq!(room.clients.iter().map(|c| c.nickname.as_str()).collect::<Vec<_>>(), ["Ada", "Ada 2", "guest"]);
}

#[tokio::test]
async fn device_is_told_later() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    assert_eq!(view(&relay.room().await, "Ada").device, "test");
    ada.socket.send(&ClientMessage::Device { device: "WebGPU \u{1b}[31m(an adapter)".into() }, &[]).await;
    relay.room_when("the device", |room| view(room, "Ada").device == "WebGPU [31m(an adapter)").await;
}

/// The round does not wait for a client whose socket is closed. Its ticket restores id, nickname and counters.
#[tokio::test]
async fn ticket_brings_a_client_back() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, gradient(1), [0; 32]).await;
    relay.room_when("the end of round 1", |room| room.losses.len() == 1).await;
    let (id, ticket) = (ada.id, ada.ticket);
    drop(ada);
    relay.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone)).await;
    let mut back = Client::join(&relay.running, "somebody", Some(ticket)).await;
    assert_eq!((back.id, back.nickname.as_str()), (id, "Ada"));
    let room = relay.room().await;
    assert_eq!(room.clients.len(), 1);
    assert_eq!((view(&room, "Ada").updates, view(&room, "Ada").state), (1, ClientState::Joined));
    relay.control(Control::OneRound).await;
    assert_eq!(back.plan().await.round, 2);
    // An unknown or expired ticket is not an error.
    let stranger = Client::join(&relay.running, "Bob", Some([9; 16])).await;
    assert_eq!(stranger.nickname, "Bob");
    assert_ne!(stranger.ticket, [9; 16]);
}

/// A used ticket makes a new client and does not take over the old one.
#[tokio::test]
async fn a_ticket_works_once() {
    let relay = Relay::start().await;
    let ada = relay.client("Ada").await;
    let mut back = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert_eq!(back.id, ada.id);
    assert_ne!(back.ticket, ada.ticket);
    // A client that has sent a message has received its new ticket.
    back.socket.send(&ClientMessage::Ping, &[]).await;
    assert_eq!(back.answer().await, RelayMessage::Pong);
    let eve = Client::join(&relay.running, "Eve", Some(ada.ticket)).await;
    assert_eq!(eve.nickname, "Eve");
    assert_ne!(eve.id, ada.id);
    back.socket.send(&ClientMessage::Ping, &[]).await;
    assert_eq!(back.answer().await, RelayMessage::Pong, "Ada is still there");
    assert_eq!(Client::join(&relay.running, "Ada", Some(back.ticket)).await.id, ada.id);
    assert_eq!(relay.room().await.clients.len(), 2);
}

/// A new socket takes over during a round, plan included, even if the old one still seems alive.
#[tokio::test]
async fn ticket_takes_over_a_living_socket() {
    let relay = Relay::start().await;
    let mut old = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    old.plan().await;
    let mut new = Client::join(&relay.running, "Ada", Some(old.ticket)).await;
    assert_eq!((new.id, new.nickname.as_str()), (old.id, "Ada"));
    assert!(old.socket.goodbye().await.contains("taken over"));
    let plan = new.plan().await;
    new.update(&plan, gradient(1), [0; 32]).await;
    assert_eq!(new.answer().await, RelayMessage::Accepted { round: 1 });
    let room = relay.room_when("the end", |room| room.phase == Phase::Paused).await;
    assert_eq!((room.losses[0].updates, room.clients.len()), (1, 1));
}

#[tokio::test]
async fn full_room_turns_away() {
    let relay = Relay::with(|config| config.room.limits.clients = 1).await;
    let ada = relay.client("Ada").await;
    let mut socket = Socket::open(&relay.running).await;
    socket.hello("Bob", None).await;
    assert!(socket.goodbye().await.contains("full with 1 clients"));
    relay.log_line("Somebody was turned away: the room is full").await;
    // A present client keeps its place in a full room.
    assert_eq!(Client::join(&relay.running, "Ada", Some(ada.ticket)).await.id, ada.id);
}

/// A sleeping phone keeps its socket open but answers no pings.
#[tokio::test]
async fn sleeping_phone_is_gone_after_a_while() {
    let relay = Relay::with(|config| {
        config.limits.ping = Duration::from_millis(50);
        config.limits.silence = Duration::from_millis(1500);
        config.room.limits.gone = Duration::from_millis(300);
    })
    .await;
    let mut awake = relay.client("Awake").await;
    // Reading the socket answers pings.
    let reader = tokio::spawn(async move {
        for _ in 0..3 {
            let plan = awake.plan().await;
            awake.update(&plan, gradient(1), [0; 32]).await;
        }
        while awake.socket.message().await.is_some() {}
    });
    // This socket is never read, so its pings are not answered.
    let _asleep = relay.client("Asleep").await;
    relay.control(Control::Start).await;
    relay.log_line("Asleep is gone: no sign of life for 1.5 s").await;
    relay.room_when("nothing of Asleep", |room| state(room, "Asleep").is_none()).await;
    let room = relay.room_when("three rounds", |room| room.losses.len() == 3).await;
    assert_ne!(state(&room, "Awake"), Some(ClientState::Gone));
    reader.abort();
}

/// At shutdown, sockets are closed without a goodbye, so that tabs try to reconnect.
#[tokio::test]
async fn stopped_relay_closes_its_sockets() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.running.shutdown().await;
    assert!(ada.socket.message().await.is_none());
}
