//! A student's consent. Withdrawing it removes the pictures made from their updates.

use crate::support::{
    Client, Relay, card, find_card,
    private::{picture, revealing_gradient},
    state, view,
};
use unmask_lesson::Scene;
use unmask_wire::{
    ClientMessage,
    view::{ClientState, Control},
};

/// Runs a round in which this client, the target, reveals its picture. Returns the picture's path.
async fn attacked(relay: &Relay, client: &mut Client, seed: u8) -> String {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(1), 3), [seed; 32]).await;
    let is_shown = |room: &unmask_wire::view::RoomView| {
        find_card(room, "embedding").is_some_and(|card| card.client == client.id && card.picture.is_some())
    };
    let room = relay.room_when("a reconstruction", is_shown).await;
    let path = find_card(&room, "embedding").and_then(|card| card.picture.clone()).unwrap();
    assert_eq!(relay.get(&path).await.0, 200);
    path
}

/// Asserts that no picture, card or label remains.
async fn nothing_left(relay: &Relay, path: &str, why: &str) {
    relay.room_when(why, |room| room.attacks.is_empty() && room.label.is_none()).await;
    assert_eq!(relay.get(path).await.0, 404, "{why}");
}

#[tokio::test]
async fn nobody_is_attacked_who_did_not_agree() {
    let relay = Relay::start().await;
    let mut eve = Client::join_unseen(&relay.running, "Eve").await;
    let room = relay.room().await;
    assert_eq!((room.target, view(&room, "Eve").may_show), (None, false));
    let (status, sentence) = relay.try_control(&Control::Target { client: eve.id }).await;
    assert!(status == 400 && sentence.contains("Eve") && sentence.contains("has not agreed"), "{sentence}");
    // Eve still trains like the others.
    relay.control(Control::OneRound).await;
    let plan = eve.plan().await;
    eve.update(&plan, revealing_gradient(&picture(1), 3), [0; 32]).await;
    let room = relay.room_when("the round", |room| room.losses.len() == 1).await;
    assert!(room.attacks.is_empty() && room.label.is_none(), "{:?}", room.attacks);

    let ada = relay.client("Ada").await;
    let room = relay.room().await;
    assert_eq!((room.target, view(&room, "Ada").may_show), (Some(ada.id), true));
    // With Ada gone there is no target, since Eve has not consented.
    drop(ada);
    relay.room_when("no target", |room| room.target.is_none()).await;
    eve.socket.send(&ClientMessage::Consent { may_show: true, may_lend: false }, &[]).await;
    let room = relay.room_when("Eve agrees", |room| room.target == Some(eve.id)).await;
    assert!(view(&room, "Eve").may_show);
}

/// The wall shows a reconstruction of each client that agreed, until it withdraws or the lesson goes on.
#[tokio::test]
async fn the_wall_shows_everybody_who_agreed() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    let mut eve = Client::join_unseen(&relay.running, "Eve").await;
    relay.control(Control::Lesson { scene: Scene::Guess, beat: 3 }).await;
    relay.control(Control::OneRound).await;
    for (client, seed) in [(&mut ada, 1), (&mut bob, 2), (&mut eve, 3)] {
        let plan = client.plan().await;
        client.update(&plan, revealing_gradient(&picture(seed), 3), [seed as u8; 32]).await;
    }
    let room = relay.room_when("two leaks", |room| room.leaks.len() == 2).await;
    assert_eq!(room.leaks.iter().map(|leak| leak.client).collect::<Vec<_>>(), [ada.id, bob.id]);
    let paths: Vec<String> = room.leaks.iter().map(|leak| leak.picture.clone().expect("a picture")).collect();
    assert_ne!(relay.get(&paths[0]).await, relay.get(&paths[1]).await);

    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]).await;
    relay.room_when("a consent withdrawn", |room| room.leaks.len() == 1).await;
    assert_eq!((relay.get(&paths[0]).await.0, relay.get(&paths[1]).await.0), (404, 200));
    relay.control(Control::Lesson { scene: Scene::April, beat: 0 }).await;
    relay.room_when("the next scene", |room| room.leaks.is_empty()).await;
    assert_eq!(relay.get(&paths[1]).await.0, 404);
}

/// A recording has no room for the numbers of every round.
#[tokio::test]
async fn numbers_are_drawn_only_for_the_steps_that_show_them() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    attacked(&relay, &mut ada, 1).await;
    assert_eq!(card(&relay.room().await, "embedding").tables, None);
}

/// A client that withdraws consent is no longer shown, and another becomes the target.
#[tokio::test]
async fn consent_can_be_withdrawn() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Lesson { scene: Scene::April, beat: 3 }).await;
    let path = attacked(&relay, &mut ada, 1).await;
    let tables = find_card(&relay.room().await, "embedding").and_then(|card| card.tables.clone()).expect("tables");
    let table = tables.positions.expect("G_pos");
    let (status, _, png) = relay.get(&table).await;
    let drawn = unmask_data::decode(&png).expect("a PNG");
    let side = usize::from(tables.per_side);
    assert_eq!((status, drawn.width(), drawn.height()), (200, tables.dim as usize, side * side));
    let bob = relay.client("Bob").await;
    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]).await;
    let room = relay.room_when("another target", |room| room.target == Some(bob.id)).await;
    assert!(!view(&room, "Ada").may_show);
    nothing_left(&relay, &path, "a consent withdrawn").await;
    assert_eq!(relay.get(&table).await.0, 404);
    assert_eq!(relay.try_control(&Control::Target { client: ada.id }).await.0, 400);
}

#[tokio::test]
async fn pictures_vanish_with_their_client_and_with_the_model() {
    let relay = Relay::start().await;
    for (seed, way) in [(1, "leave"), (2, "remove"), (3, "ban"), (4, "reset")] {
        let mut ada = relay.client("Ada").await;
        relay.control(Control::Target { client: ada.id }).await;
        let path = attacked(&relay, &mut ada, seed).await;
        match way {
            "remove" => relay.control(Control::Remove { client: ada.id }).await,
            "ban" => relay.control(Control::Ban { client: ada.id }).await,
            "reset" => relay.control(Control::Reset).await,
            _ => {
                drop(ada);
                relay.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone)).await;
            }
        }
        nothing_left(&relay, &path, way).await;
    }
}
