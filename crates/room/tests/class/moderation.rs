//! Moderation: lock, rename, remove. The room shows each within a second.

use std::time::Duration;

use crate::support::{Class, Client, Socket, gradient, state, view};
use unmask_wire::{
    ClientMessage, FORGOTTEN, RelayMessage,
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

/// Nobody learns the name of somebody who waits, and waiting clients have no part in rounds and questions.
#[test]
fn newcomers_wait_until_the_teacher_lets_them_in() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::ApproveFirst { on: true });
    let mut socket = Socket::open(&class);
    socket.hello("A rude name", None);
    assert_eq!(socket.message().unwrap().0, RelayMessage::Waiting);
    let room = seen(&class, "somebody who waits", |room| state(room, "A rude name") == Some(ClientState::Waiting));
    assert!(room.approves && room.log.iter().any(|line| line.text.contains("Somebody waits")));
    let client = view(&room, "A rude name").id;
    let refusal = class.refusal_of(&Control::Target { client });
    assert!(refusal.contains("waits to be let in"), "{refusal}");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, gradient(1));
    class.room_when("a round without it", |room| room.losses.len() == 1);
    socket.send(&ClientMessage::Vote { poll: 1, answer: 0 }, &[]);
    assert!(
        matches!(socket.message().unwrap().0, RelayMessage::Refused { reason } if reason.contains("let this client in"))
    );
    assert!(class.room().log.iter().all(|line| !line.text.contains("rude")), "{:?}", class.room().log);
    // Who was in the room need not wait.
    let (id, ticket) = (ada.id, ada.ticket);
    drop(ada);
    let ada = Client::join(&class, "Ada", Some(ticket));
    assert_eq!(ada.id, id);
    class.control(Control::Approve { client: None });
    let mut let_in = Client::welcomed(socket);
    class.control(Control::OneRound);
    assert_eq!(let_in.plan().round, 2);
    // Whom the teacher does not want hears it, and leaves no trace.
    let mut socket = Socket::open(&class);
    socket.hello("Mallory", None);
    let room = seen(&class, "Mallory", |room| state(room, "Mallory") == Some(ClientState::Waiting));
    class.control(Control::Remove { client: view(&room, "Mallory").id });
    assert_eq!(socket.message().unwrap().0, RelayMessage::Waiting);
    assert!(socket.goodbye().contains("removed"));
    assert!(!format!("{:?}", class.room()).contains("Mallory"));
    class.control(Control::ApproveFirst { on: false });
    assert_eq!(class.client("Bob").nickname, "Bob");
    let unknown = class.refusal_of(&Control::Approve { client: Some(unmask_core::ClientId(77)) });
    assert!(unknown.contains("no client 77"), "{unknown}");
}

/// Whatever somebody does who waits, and whatever the teacher does about it, nothing of it stays in the room.
#[test]
fn who_waits_leaves_nothing_behind() {
    let class = Class::start();
    let _ada = class.client("Ada");
    class.control(Control::ApproveFirst { on: true });
    for way in ["breaks off", "bad bytes", "forget", "ban", "rename"] {
        let mut socket = Socket::open(&class);
        socket.hello("Mallory", None);
        assert_eq!(socket.message().unwrap().0, RelayMessage::Waiting);
        let client = view(&class.room(), "Mallory").id;
        match way {
            "breaks off" => drop(socket),
            "bad bytes" => {
                socket.frame(b"no message at all");
                assert!(!socket.goodbye().is_empty());
            }
            "forget" => {
                socket.send(&ClientMessage::Forget, &[]);
                assert_eq!(socket.goodbye(), FORGOTTEN);
            }
            "ban" => {
                class.control(Control::Ban { client });
                assert!(socket.goodbye().contains("banned"));
                class.log_line("The teacher banned somebody who waited");
            }
            _ => {
                class.control(Control::Rename { client, nickname: "Grace".to_owned() });
                class.control(Control::Remove { client });
                assert!(socket.goodbye().contains("removed"));
            }
        }
        class.room_when(way, |room| room.clients.len() == 1);
        class.control(Control::Approve { client: None });
        let room = class.room();
        assert!(room.clients.len() == 1 && !format!("{room:?}").contains("Mallory"), "{way}: {room:?}");
        assert!(!format!("{room:?}").contains("deleted"), "{way}");
    }
}

#[test]
fn more_devices_than_expected_wait() {
    let class = Class::with(|config| config.limits.expected = Some(2));
    let (_ada, bob) = (class.client("Ada"), class.client("Bob"));
    let mut socket = Socket::open(&class);
    socket.hello("Carol", None);
    assert_eq!(socket.message().unwrap().0, RelayMessage::Waiting);
    class.log_line("One more than the 2 expected devices waits to be let in");
    drop(socket);
    class.room_when("Carol gone", |room| state(room, "Carol").is_none());
    drop(bob);
    class.room_when("Bob gone", |room| state(room, "Bob") == Some(ClientState::Gone));
    assert_eq!(class.client("Carol").nickname, "Carol");
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
