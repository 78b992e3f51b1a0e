//! Moderation: lock, rename, remove, ban. The room shows each within a second.

use std::time::{Duration, Instant};

use crate::support::{Client, Relay, Socket, gradient, state, upgrade, view};
use tokio_tungstenite::connect_async;
use unmask_wire::{
    RelayMessage,
    view::{ClientState, Control, RoomView},
};

/// Returns the room once it satisfies `is_wanted`, which must happen within a second of the control's answer. The first
/// request that begins later decides, even if it is slow.
async fn seen(relay: &Relay, what: &str, is_wanted: impl Fn(&RoomView) -> bool) -> RoomView {
    let answered = Instant::now();
    loop {
        let is_last = answered.elapsed() >= Duration::from_secs(1);
        let room = relay.room().await;
        if is_wanted(&room) {
            return room;
        }
        assert!(!is_last, "not within a second: {what}: {room:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Opens a socket with this device cookie and sends a hello.
async fn browser(relay: &Relay, nickname: &str, device: &str) -> Socket {
    let mut request = upgrade(&relay.running);
    let cookie = format!("unmask-{}-device={device}", relay.running.http().port());
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    let mut socket = Socket::on(connect_async(request).await.unwrap().0);
    socket.hello(nickname, None).await;
    socket
}

#[tokio::test]
async fn locked_room_lets_nobody_new_in() {
    let relay = Relay::start().await;
    let ada = relay.client("Ada").await;
    relay.control(Control::Lock { on: true }).await;
    seen(&relay, "the lock", |room| room.is_locked).await;
    let mut socket = Socket::open(&relay.running).await;
    socket.hello("Bob", None).await;
    let reason = socket.goodbye().await;
    assert!(reason.contains("locked") && reason.contains("ask the teacher"), "{reason}");
    relay.log_line("Somebody was turned away: the room is locked").await;
    // A known client can return to a locked room.
    let (id, ticket) = (ada.id, ada.ticket);
    drop(ada);
    relay.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone)).await;
    assert_eq!(Client::join(&relay.running, "Ada", Some(ticket)).await.id, id);
    relay.control(Control::Lock { on: false }).await;
    assert_eq!(relay.client("Bob").await.nickname, "Bob");
    assert!(!relay.room().await.is_locked);
}

/// The new name is cleaned and made unique, and is sent to the client and shown on its card.
#[tokio::test]
async fn renamed_client_is_shown_and_told() {
    let relay = Relay::start().await;
    let (mut ada, _bob) = (relay.client("Ada").await, relay.client("Bob").await);
    let id = ada.id;
    for (wanted, shown) in [("\u{202e}Grace\n", "Grace"), ("B\u{43e}b", "B\u{43e}b 2")] {
        relay.control(Control::Rename { client: id, nickname: wanted.to_owned() }).await;
        seen(&relay, shown, |room| room.clients.iter().any(|client| client.id == id && client.nickname == shown)).await;
        assert_eq!(ada.answer().await, RelayMessage::Renamed { nickname: shown.to_owned() });
    }
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, gradient(1), [0; 32]).await;
    relay.room_when("a card", |room| !room.attacks.is_empty()).await;
    relay.control(Control::Rename { client: id, nickname: "Ada".to_owned() }).await;
    seen(&relay, "the name on the cards", |room| room.attacks.iter().all(|card| card.nickname == "Ada")).await;
    for (client, nickname, part) in
        [(id, "\u{200b} ", "shows nothing"), (unmask_core::ClientId(77), "Eve", "no client 77")]
    {
        let (status, sentence) = relay.try_control(&Control::Rename { client, nickname: nickname.to_owned() }).await;
        assert!(status == 400 && sentence.contains(part), "{sentence}");
    }
    assert_eq!(view(&relay.room().await, "Ada").id, id);
}

/// The running round continues without a removed client, whose ticket becomes invalid.
#[tokio::test]
async fn removed_client_comes_back_as_somebody_new() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::OneRound).await;
    let plan = bob.plan().await;
    ada.plan().await;
    relay.control(Control::Remove { client: ada.id }).await;
    let room = seen(&relay, "Ada removed", |room| state(room, "Ada").is_none()).await;
    assert_eq!(room.target, Some(bob.id));
    assert!(ada.socket.goodbye().await.contains("removed"));
    bob.update(&plan, gradient(1), [0; 32]).await;
    let room = relay.room_when("the end of the round", |room| room.losses.len() == 1).await;
    assert_eq!(room.losses[0].updates, 1);
    let back = Client::join(&relay.running, "Ada", Some(ada.ticket)).await;
    assert_ne!(back.id, ada.id);
    assert_eq!(relay.try_control(&Control::Remove { client: ada.id }).await.0, 400);
    // A client that has already left can be removed too.
    let gone = back.id;
    drop(back);
    relay.room_when("Ada gone", |room| state(room, "Ada") == Some(ClientState::Gone)).await;
    relay.control(Control::Remove { client: gone }).await;
    seen(&relay, "Ada removed", |room| state(room, "Ada").is_none()).await;
}

/// A browser is banned by its cookie. This machine's address is never banned, since all tests' clients share it.
#[tokio::test]
async fn banned_browser_stays_out_until_bans_are_lifted() {
    let relay = Relay::start().await;
    let mut eve = Client::welcomed(browser(&relay, "Eve", "e5e").await).await;
    let mut other_tab = Client::welcomed(browser(&relay, "Eva", "e5e").await).await;
    let ada = Client::welcomed(browser(&relay, "Ada", "ada").await).await;
    relay.control(Control::Ban { client: eve.id }).await;
    let room = seen(&relay, "Eve banned", |room| state(room, "Eve").is_none()).await;
    assert_eq!((room.banned, room.clients.len()), (1, 1));
    for socket in [&mut eve.socket, &mut other_tab.socket] {
        assert!(socket.goodbye().await.contains("banned"));
    }
    for nickname in ["Eve", "Mallory"] {
        let reason = browser(&relay, nickname, "e5e").await.goodbye().await;
        assert!(reason.contains("banned"), "{reason}");
    }
    let mut with_ticket = Socket::on({
        let mut request = upgrade(&relay.running);
        let cookie = format!("unmask-{}-device=e5e", relay.running.http().port());
        request.headers_mut().insert("cookie", cookie.parse().unwrap());
        connect_async(request).await.unwrap().0
    });
    with_ticket.hello("Eve", Some(eve.ticket)).await;
    assert!(with_ticket.goodbye().await.contains("banned"));
    Client::welcomed(browser(&relay, "Bob", "b0b").await).await;
    assert_eq!(state(&relay.room().await, "Ada"), Some(ClientState::Joined));
    relay.control(Control::LiftBans).await;
    Client::welcomed(browser(&relay, "Eve", "e5e").await).await;
    assert_eq!(relay.room().await.banned, 0);
    drop(ada);
}

/// A program on this machine has neither a cookie nor a distinct address, so the room says that the ban has no effect.
#[tokio::test]
async fn ban_that_holds_nothing_is_said() {
    let relay = Relay::start().await;
    let mut eve = relay.client("Eve").await;
    relay.control(Control::Ban { client: eve.id }).await;
    assert!(eve.socket.goodbye().await.contains("banned"));
    relay.log_line("lock the room to keep it out").await;
    let again = relay.client("Eve").await;
    assert_ne!(again.id, eve.id);
}
