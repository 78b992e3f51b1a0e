//! A student's consent. Withdrawing it removes the pictures made from their updates.

use crate::support::{
    Class, Client, Socket, card, find_card,
    private::{picture, revealing_gradient},
    state, view,
};
use unmask_lesson::Scene;
use unmask_wire::{
    ClientMessage, ORIGINAL_SIDE, ORIGINAL_VALUES, RelayMessage,
    view::{ClientState, Control},
};

/// Runs a round in which this client, the target, reveals its picture. Returns the picture's path.
fn attacked(class: &Class, client: &mut Client) -> String {
    class.control(Control::OneRound);
    let plan = client.plan();
    client.update(&plan, revealing_gradient(&picture(1), 3));
    let is_shown = |room: &unmask_wire::view::RoomView| {
        find_card(room, "embedding").is_some_and(|card| card.client == client.id && card.picture.is_some())
    };
    let room = class.room_when("a reconstruction", is_shown);
    let path = find_card(&room, "embedding").and_then(|card| card.picture.clone()).unwrap();
    assert!(class.picture(&path).is_some());
    path.into()
}

/// Asserts that no picture, card or label remains.
fn nothing_left(class: &Class, path: &str, why: &str) {
    class.room_when(why, |room| room.attacks.is_empty() && room.label.is_none());
    assert_eq!(class.picture(path), None, "{why}");
}

#[test]
fn nobody_is_attacked_who_did_not_agree() {
    let class = Class::start();
    let mut eve = Client::join_unseen(&class, "Eve");
    let room = class.room();
    assert_eq!((room.target, view(&room, "Eve").may_show), (None, false));
    let sentence = class.refusal_of(&Control::Target { client: eve.id });
    assert!(sentence.contains("Eve") && sentence.contains("has not agreed"), "{sentence}");
    // Eve still trains like the others.
    class.control(Control::OneRound);
    let plan = eve.plan();
    eve.update(&plan, revealing_gradient(&picture(1), 3));
    let room = class.room_when("the round", |room| room.losses.len() == 1);
    assert!(room.attacks.is_empty() && room.label.is_none(), "{:?}", room.attacks);

    let ada = class.client("Ada");
    let room = class.room();
    assert_eq!((room.target, view(&room, "Ada").may_show), (Some(ada.id), true));
    // With Ada gone there is no target, since Eve has not consented.
    drop(ada);
    class.room_when("no target", |room| room.target.is_none());
    eve.socket.send(&ClientMessage::Consent { may_show: true, may_lend: false }, &[]);
    let room = class.room_when("Eve agrees", |room| room.target == Some(eve.id));
    assert!(view(&room, "Eve").may_show);
}

/// Neither a picture nor what leaks from it is shown before the teacher's tap.
#[test]
fn under_approval_a_picture_waits_for_the_teacher() {
    let class = Class::start();
    class.control(Control::ApproveFirst { on: true });
    let mut socket = Socket::open(&class);
    socket.hello("Ada", None);
    assert_eq!(socket.message().unwrap().0, RelayMessage::Waiting);
    class.control(Control::Approve { client: None });
    let mut ada = Client::welcomed(socket);
    let waits = |why: &str| {
        let room = class.room();
        let ada = view(&room, "Ada");
        assert_eq!((ada.may_show, ada.picture_waits, &ada.original, room.target), (false, true, &None, None), "{why}");
        assert!(room.attacks.is_empty() && room.leaks.is_empty(), "{why}");
    };
    waits("at first");
    let sentence = class.refusal_of(&Control::Target { client: ada.id });
    assert!(sentence.contains("waits until you let the class see it"), "{sentence}");
    let show = |ada: &mut Client| {
        ada.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &[0.5; ORIGINAL_VALUES]);
    };
    // She may hear the same more than once.
    let hears = |ada: &mut Client, word: &RelayMessage| while ada.answer() != *word {};
    let shown = RelayMessage::Original { is_shown: true, waits: false };
    let withdraw = |ada: &mut Client| {
        for may_show in [false, true] {
            ada.socket.send(&ClientMessage::Consent { may_show, may_lend: false }, &[]);
        }
    };
    let held = RelayMessage::Original { is_shown: false, waits: true };
    // Ada hears it at once, before she shows anything.
    hears(&mut ada, &held);
    show(&mut ada);
    hears(&mut ada, &held);
    // It goes on waiting when she lends her updates or does not.
    for may_lend in [true, false] {
        ada.socket.send(&ClientMessage::Consent { may_show: true, may_lend }, &[]);
    }
    class.control(Control::ShowPicture { client: Some(ada.id) });
    hears(&mut ada, &shown);
    withdraw(&mut ada);
    hears(&mut ada, &held);
    waits("withdrawn");
    show(&mut ada);
    hears(&mut ada, &held);
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing_gradient(&picture(1), 3));
    class.room_when("the round", |room| room.losses.len() == 1);
    waits("after an update");
    assert!((0..10).all(|number| class.picture(&format!("/api/original/{number}.png")).is_none()));

    // Its owner may think again while it waits.
    ada.socket.send(&ClientMessage::HideOriginal, &[]);
    class.control(Control::ShowPicture { client: Some(ada.id) });
    let room = class.room();
    assert_eq!((view(&room, "Ada").may_show, &view(&room, "Ada").original, room.target), (true, &None, Some(ada.id)));
    show(&mut ada);
    hears(&mut ada, &shown);
    let path = attacked(&class, &mut ada);

    // The same page comes back as it was, even if an update with its next commitment got lost. One that was loaded again
    // may have another picture.
    let (ticket, page) = (ada.ticket, ada.socket.page);
    let come_back = |ticket, page: Option<[u8; 32]>| {
        let mut socket = Socket::open(&class);
        socket.page = page.unwrap_or(socket.page);
        socket.hello("Ada", Some(ticket));
        Client::welcomed(socket)
    };
    let ada = come_back(ticket, Some(page));
    assert!(view(&class.room(), "Ada").may_show);
    let mut ada = come_back(ada.ticket, None);
    nothing_left(&class, &path, "loaded again");
    waits("loaded again");
    hears(&mut ada, &held);
    show(&mut ada);
    hears(&mut ada, &held);
    class.control(Control::ShowPicture { client: None });
    hears(&mut ada, &shown);
    assert!(view(&class.room(), "Ada").original.as_ref().is_some_and(|path| class.picture(path).is_some()));
    // So may somebody who withdraws.
    withdraw(&mut ada);
    waits("withdrawn again");
    class.control(Control::ApproveFirst { on: false });
    assert!(view(&class.room(), "Ada").may_show);
    let unknown = class.refusal_of(&Control::ShowPicture { client: Some(unmask_core::ClientId(77)) });
    assert!(unknown.contains("no client 77"), "{unknown}");
}

/// Runs a round in which each client reveals its own picture.
fn everybody_sends(class: &Class, clients: [&mut Client; 3]) {
    class.control(Control::OneRound);
    for (client, number) in clients.into_iter().zip(1..) {
        let plan = client.plan();
        client.update(&plan, revealing_gradient(&picture(number), 3));
    }
}

/// The wall shows a reconstruction of each client that agreed, until it withdraws or the lesson goes on.
#[test]
fn the_wall_shows_everybody_who_agreed() {
    let class = Class::start();
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    let mut eve = Client::join_unseen(&class, "Eve");
    class.control(Control::Lesson { scene: Scene::Guess, beat: 3 });
    everybody_sends(&class, [&mut ada, &mut bob, &mut eve]);
    let room = class.room_when("two leaks", |room| room.leaks.len() == 2);
    assert_eq!(room.leaks.iter().map(|leak| leak.client).collect::<Vec<_>>(), [ada.id, bob.id]);
    let paths: Vec<_> = room.leaks.iter().map(|leak| leak.picture.clone().expect("a picture")).collect();
    let shown = [0, 1].map(|client: usize| class.picture(&paths[client]).expect("a picture"));
    assert_ne!(shown[0], shown[1]);
    // One update of each is attacked, and of Eve's none has been.
    eve.socket.send(&ClientMessage::Consent { may_show: true, may_lend: false }, &[]);
    everybody_sends(&class, [&mut ada, &mut bob, &mut eve]);
    class.room_when("a third leak", |room| room.leaks.len() == 3);

    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    class.room_when("a consent withdrawn", |room| room.leaks.len() == 2);
    assert_eq!((class.picture(&paths[0]).as_ref(), class.picture(&paths[1]).as_ref()), (None, Some(&shown[1])));
    class.control(Control::Lesson { scene: Scene::April, beat: 0 });
    class.room_when("the next scene", |room| room.leaks.is_empty());
    assert_eq!(class.picture(&paths[1]), None);
}

/// A recording has no room for the numbers of every round.
#[test]
fn numbers_are_drawn_only_for_the_steps_that_show_them() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    attacked(&class, &mut ada);
    assert_eq!(card(&class.room(), "embedding").tables, None);
}

/// A client that withdraws consent is no longer shown, and another becomes the target.
#[test]
fn consent_can_be_withdrawn() {
    let class = Class::start();
    let mut ada = class.client("Ada");
    class.control(Control::Lesson { scene: Scene::April, beat: 3 });
    let path = attacked(&class, &mut ada);
    let tables = find_card(&class.room(), "embedding").and_then(|card| card.tables.clone()).expect("tables");
    let table = tables.positions.expect("G_pos");
    let png = class.picture(&table).expect("a table");
    let drawn = unmask_data::decode(&png).expect("a PNG");
    let side = usize::from(tables.per_side);
    assert_eq!((drawn.width(), drawn.height()), (tables.dim as usize, side * side));
    let bob = class.client("Bob");
    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    let room = class.room_when("another target", |room| room.target == Some(bob.id));
    assert!(!view(&room, "Ada").may_show);
    nothing_left(&class, &path, "a consent withdrawn");
    assert_eq!(class.picture(&table), None);
    class.refusal_of(&Control::Target { client: ada.id });
}

#[test]
fn pictures_vanish_with_their_client_and_with_the_model() {
    let class = Class::start();
    for way in ["leave", "remove", "ban", "reset"] {
        let mut ada = class.client("Ada");
        class.control(Control::Target { client: ada.id });
        let path = attacked(&class, &mut ada);
        match way {
            "remove" => class.control(Control::Remove { client: ada.id }),
            "ban" => class.control(Control::Ban { client: ada.id }),
            "reset" => class.control(Control::Reset),
            _ => {
                drop(ada);
                class.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone));
            }
        }
        nothing_left(&class, &path, way);
    }
}
