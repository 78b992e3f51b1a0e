//! Clients that join, leave and return.

use crate::support::{Class, Client, Socket, gradient, state, view};
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{ClientState, Control, Phase},
};

#[test]
fn two_tabs_with_one_nickname() {
    let class = Class::start();
    let (first, second) = (class.client("Ada"), class.client(" Ada\n"));
    assert_eq!((first.nickname.as_str(), second.nickname.as_str()), ("Ada", "Ada 2"));
    assert_ne!(first.id, second.id);
    assert_ne!(first.ticket, second.ticket);
    assert_eq!(class.client("").nickname, "guest");
    let room = class.room();
    assert_eq!(room.clients.iter().map(|c| c.nickname.as_str()).collect::<Vec<_>>(), ["Ada", "Ada 2", "guest"]);
}

#[test]
fn device_is_told_later() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    assert_eq!(view(&class.room(), "Ada").device, "test");
    ada.socket.send(&ClientMessage::Device { device: "WebGPU \u{1b}[31m(an adapter)".into() }, &[]);
    class.room_when("the device", |room| view(room, "Ada").device == "WebGPU [31m(an adapter)");
}

/// The round does not wait for a client whose socket is closed. Its ticket restores id, nickname and counters.
#[test]
fn ticket_brings_a_client_back() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, gradient(1));
    class.room_when("the end of round 1", |room| room.losses.len() == 1);
    let (id, ticket) = (ada.id, ada.ticket);
    drop(ada);
    class.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone));
    let mut back = Client::join(&class, "somebody", Some(ticket));
    assert_eq!((back.id, back.nickname.as_str()), (id, "Ada"));
    let room = class.room();
    assert_eq!(room.clients.len(), 1);
    assert_eq!((view(&room, "Ada").updates, view(&room, "Ada").state), (1, ClientState::Joined));
    class.control(Control::OneRound);
    assert_eq!(back.plan().round, 2);
    // An unknown or expired ticket is not an error.
    let stranger = Client::join(&class, "Bob", Some([9; 16]));
    assert_eq!(stranger.nickname, "Bob");
    assert_ne!(stranger.ticket, [9; 16]);
}

/// A used ticket makes a new client and does not take over the old one.
#[test]
fn a_ticket_works_once() {
    let class = Class::start();
    let ada = class.client("Ada");
    let mut back = Client::join(&class, "Ada", Some(ada.ticket));
    assert_eq!(back.id, ada.id);
    assert_ne!(back.ticket, ada.ticket);
    // A client that has sent a message has received its new ticket.
    back.socket.send(&ClientMessage::Ping, &[]);
    assert_eq!(back.answer(), RelayMessage::Pong);
    let eve = Client::join(&class, "Eve", Some(ada.ticket));
    assert_eq!(eve.nickname, "Eve");
    assert_ne!(eve.id, ada.id);
    back.socket.send(&ClientMessage::Ping, &[]);
    assert_eq!(back.answer(), RelayMessage::Pong, "Ada is still there");
    assert_eq!(Client::join(&class, "Ada", Some(back.ticket)).id, ada.id);
    assert_eq!(class.room().clients.len(), 2);
}

/// A new socket takes over during a round, plan included, even if the old one still seems alive.
#[test]
fn ticket_takes_over_a_living_socket() {
    let class = Class::start();
    let mut old = class.client("Ada");
    class.control(Control::OneRound);
    old.plan();
    let mut new = Client::join(&class, "Ada", Some(old.ticket));
    assert_eq!((new.id, new.nickname.as_str()), (old.id, "Ada"));
    assert!(old.socket.goodbye().contains("taken over"));
    let plan = new.plan();
    new.update(&plan, gradient(1));
    assert_eq!(new.answer(), RelayMessage::Accepted { round: 1 });
    let room = class.room_when("the end", |room| room.phase == Phase::Paused);
    assert_eq!((room.losses[0].updates, room.clients.len()), (1, 1));
}

#[test]
fn full_room_turns_away() {
    let class = Class::with(|config| config.limits.clients = 1);
    let ada = class.client("Ada");
    let mut socket = Socket::open(&class);
    socket.hello("Bob", None);
    assert!(socket.goodbye().contains("full with 1 clients"));
    class.log_line("Somebody was turned away: the room is full");
    // A present client keeps its place in a full room.
    assert_eq!(Client::join(&class, "Ada", Some(ada.ticket)).id, ada.id);
}
