//! Bans. The room shows each within a second.

use std::time::{Duration, Instant};

use crate::support::{Client, Relay, Socket, state, upgrade, upgrade_to, view};
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
    relay.log_line("approve newcomers first to keep it out").await;
    let again = relay.client("Eve").await;
    assert_ne!(again.id, eve.id);
}

/// A program on this machine, or one behind a proxy on it, has no address either, and can say that it is a robot.
#[tokio::test]
async fn only_robots_of_the_relay_itself_need_not_wait() {
    let relay = Relay::with(|config| {
        config.room.approve_first = true;
        config.room.limits.expected = Some(2);
    })
    .await;
    let link = relay.running.own_robot_link();
    let (_, own) = link.split_once("#room=").unwrap();
    let robot = async |nickname: &str, secret: &str| {
        let request = upgrade_to(&format!("ws://{}/ws", relay.running.http()), secret);
        let mut socket = Socket::on(connect_async(request).await.unwrap().0);
        socket.hello_as(nickname, None, true).await;
        socket
    };
    let mut claimed = robot("Eve", &relay.running.room_key()).await;
    assert_eq!(claimed.message().await.unwrap().0, RelayMessage::Waiting);
    let _ours =
        [Client::welcomed(robot("robot 1", own).await).await, Client::welcomed(robot("robot 2", own).await).await];
    let room = relay.room_when("three robots", |room| room.clients.len() == 3).await;
    assert!(["robot 1", "robot 2", "Eve"].iter().all(|nickname| view(&room, nickname).is_robot));
    // Who claims to be a robot takes one of the expected places, and the relay's own take none.
    relay.control(Control::ApproveFirst { on: false }).await;
    let _eve = Client::welcomed(claimed).await;
    let _ada = relay.client("Ada").await;
    let mut bob = Socket::open(&relay.running).await;
    bob.hello("Bob", None).await;
    assert_eq!(bob.message().await.unwrap().0, RelayMessage::Waiting);
}
