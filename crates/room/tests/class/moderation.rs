//! Moderation: lock, rename, remove. The room shows each within a second.

use std::time::Duration;

use crate::support::{Class, Client, Socket, gradient, state, view};
use unmask_wire::{
    RelayMessage,
    view::{ClientState, Control, RoomView},
};

/// Returns the room once it satisfies `is_wanted`, which must happen within a second of the control's answer.
fn seen(class: &Class, what: &str, is_wanted: impl Fn(&RoomView) -> bool) -> RoomView {
    let answered = class.passed();
    let room = class.room_when(what, is_wanted);
    assert!(class.passed() - answered <= Duration::from_secs(1), "not within a second: {what}");
    room
}

#[test]
fn locked_room_lets_nobody_new_in() {
    let class = Class::start();
    let ada = class.client("Ada");
    class.control(Control::Lock { on: true });
    seen(&class, "the lock", |room| room.is_locked);
    let mut socket = Socket::open(&class);
    socket.hello("Bob", None);
    let reason = socket.goodbye();
    assert!(reason.contains("locked") && reason.contains("ask the teacher"), "{reason}");
    class.log_line("Somebody was turned away: the room is locked");
    // A known client can return to a locked room.
    let (id, ticket) = (ada.id, ada.ticket);
    drop(ada);
    class.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone));
    assert_eq!(Client::join(&class, "Ada", Some(ticket)).id, id);
    class.control(Control::Lock { on: false });
    assert_eq!(class.client("Bob").nickname, "Bob");
    assert!(!class.room().is_locked);
}

/// The new name is cleaned and made unique, and is sent to the client and shown on its card.
#[test]
fn renamed_client_is_shown_and_told() {
    let class = Class::start();
    let (mut ada, _bob) = (class.client("Ada"), class.client("Bob"));
    let id = ada.id;
    for (wanted, shown) in [("\u{202e}Grace\n", "Grace"), ("B\u{43e}b", "B\u{43e}b 2")] {
        class.control(Control::Rename { client: id, nickname: wanted.to_owned() });
        seen(&class, shown, |room| room.clients.iter().any(|client| client.id == id && client.nickname == shown));
        assert_eq!(ada.answer(), RelayMessage::Renamed { nickname: shown.to_owned() });
    }
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, gradient(1));
    class.room_when("a card", |room| !room.attacks.is_empty());
    class.control(Control::Rename { client: id, nickname: "Ada".to_owned() });
    seen(&class, "the name on the cards", |room| room.attacks.iter().all(|card| card.nickname == "Ada"));
    for (client, nickname, part) in
        [(id, "\u{200b} ", "shows nothing"), (unmask_core::ClientId(77), "Eve", "no client 77")]
    {
        let sentence = class.refusal_of(&Control::Rename { client, nickname: nickname.to_owned() });
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(view(&class.room(), "Ada").id, id);
}

/// The running round continues without a removed client, whose ticket becomes invalid.
#[test]
fn removed_client_comes_back_as_somebody_new() {
    let class = Class::start();
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::OneRound);
    let plan = bob.plan();
    ada.plan();
    class.control(Control::Remove { client: ada.id });
    let room = seen(&class, "Ada removed", |room| state(room, "Ada").is_none());
    assert_eq!(room.target, Some(bob.id));
    assert!(ada.socket.goodbye().contains("removed"));
    bob.update(&plan, gradient(1));
    let room = class.room_when("the end of the round", |room| room.losses.len() == 1);
    assert_eq!(room.losses[0].updates, 1);
    let back = Client::join(&class, "Ada", Some(ada.ticket));
    assert_ne!(back.id, ada.id);
    class.refusal_of(&Control::Remove { client: ada.id });
    // A client that has already left can be removed too.
    let gone = back.id;
    drop(back);
    class.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone));
    class.control(Control::Remove { client: gone });
    seen(&class, "Ada removed", |room| state(room, "Ada").is_none());
}
