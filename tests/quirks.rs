//! Browsers that do something else with the pages than show them: translate them, keep things from them, or open them
//! twice.

use serde_json::json;

use crate::{
    ONE_AT_A_TIME, PHONE,
    support::{Browser, Line, Relay, assert_accessible},
    volunteers::{fits, has_picture},
};

/// Two tabs with one ticket: the later one goes on, the earlier one says so, and they leave each other in peace.
#[tokio::test]
async fn a_duplicated_tab_goes_on_in_place_of_the_first() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    has_picture(&tab, "cat").await;
    tab.click("join").await;
    let id = relay.client("Ada").await["id"].clone();
    tab.attribute_is("connection", "data-state", "online").await;
    let first = tab.duplicate().await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;
    tab.turn_to(first).await;
    tab.attribute_is("connection", "data-state", "closed").await;
    assert!(tab.text("closed").await.contains("another tab"));
    tab.screenshot("phone-taken-over").await;
    // Neither comes back by itself when it is looked at, or when its network returns.
    for event in ["new Event('online')", "new Event('pageshow')"] {
        tab.run(&format!("dispatchEvent({event})")).await;
    }
    relay.control(json!({ "do": "start" })).await;
    relay.rounds_with(1).await;
    relay.rounds(2).await;
    tab.attribute_is("connection", "data-state", "closed").await;
    let room = relay.room().await;
    assert_eq!(room["clients"].as_array().map(Vec::len), Some(1), "{room:#}");
    assert_eq!(relay.client("Ada").await["id"], id);
}

/// A page that loads and gets no socket says what to do, until it gets one.
#[tokio::test]
async fn a_refused_socket_is_told_from_a_lost_connection() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let line = Line::to(relay.http_port()).await;
    line.refuse_sockets(true);
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = browser.open(&line.through(&link), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"no-socket\"]')?.checkVisibility() || null").await;
    assert!(tab.text("no-socket").await.contains("WebSockets"));
    assert_accessible(&tab, "a refused socket").await;
    fits(&tab, "a refused socket").await;
    tab.screenshot("phone-no-socket").await;
    line.refuse_sockets(false);
    relay.client("Ada").await;
    tab.wait_for("!document.querySelector('[data-testid=\"no-socket\"]')?.checkVisibility() || null").await;
}
