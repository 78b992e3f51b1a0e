//! Sockets that sleep, and those of a relay that stops.

use std::time::Duration;

use crate::support::{Relay, gradient, state};
use unmask_wire::view::{ClientState, Control};

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
            awake.update(&plan, gradient(1)).await;
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
