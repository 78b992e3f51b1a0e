//! The background search through the model: nothing waits for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Plan, Relay, card,
    descent::{Descent, Source},
    find_card,
    private::{picture, revealing_gradient},
};
use unmask_wire::view::Control;

const LABEL: usize = 7;

async fn searching(defence: &str, descent: &Arc<Descent>) -> Relay {
    let relay = Relay::with(|config| {
        config.room.defence = defence.parse().unwrap();
        config.searches = Some(Arc::new(Source(Arc::clone(descent))));
    })
    .await;
    relay.control(Control::Search { on: true }).await;
    relay
}

async fn round(relay: &Relay, client: &mut Client) -> Plan {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(1), LABEL)).await;
    plan
}

/// Twenty rounds run while each step of the search takes two seconds.
#[tokio::test]
async fn slow_search_delays_no_round() {
    let descent = Descent::new(1000, Duration::from_secs(2));
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada).await;
    relay.room_when("a picture", |room| find_card(room, "matching-aware").is_some()).await;
    let started = Instant::now();
    for _ in 0..20 {
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        ada.update(&plan, revealing_gradient(&picture(1), LABEL)).await;
    }
    let room = relay.room_when("all rounds", |room| room.losses.len() == 21).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(descent.steps() < 8, "{}", descent.steps());
    assert_eq!(card(&room, "matching-aware").round, 1, "it stays on one update until it is over");
}
