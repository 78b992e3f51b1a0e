//! What a room in a federation shows, to the class on the projector and to students who join.

use serde_json::json;
use unmask_core::VitPreset;

use crate::{
    ONE_AT_A_TIME, PHONE,
    support::{
        Browser, Relay, Tab, assert_accessible, skipped,
        superlink::{SuperLink, quoted, tail},
    },
};

/// A projector without scrolling.
const BEAMER: (u32, u32) = (1280, 720);

async fn says(tab: &Tab, id: &str, words: &str) {
    let look = format!(
        "document.querySelector('[data-testid=\"{id}\"]')?.innerText.includes({}) || null",
        serde_json::to_string(words).expect("JSON")
    );
    tab.wait_for(&look).await;
}

/// A real SuperLink, one round of its own FedAvg, and its end.
#[tokio::test]
async fn the_class_sees_its_federation() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let url = link.url();
    let host = url.trim_start_matches("http://");
    let relay = Relay::start(&["--flower", &url, "--flower-rounds", "2", "--attack-seconds", "0"]).await;
    let browser = Browser::start().await;
    let beamer = browser.open(&relay.beamer_link(), BEAMER).await;
    says(&beamer, "federation", &format!("Federation {host}: no work yet")).await;
    beamer.screenshot("federation-lobby").await;

    let student = browser.open(&relay.student_link("localhost", "device=cpu"), PHONE).await;
    says(&student, "also-goes-to", host).await;
    assert_accessible(&student, "the form of a room in a federation").await;
    student.click("join").await;
    student.attribute_is("connection", "data-state", "online").await;

    relay.control(json!({ "do": "lesson", "scene": "promise", "beat": 0 })).await;
    let out = link.folder().join("out.safetensors");
    let start = link.start_weights(VitPreset::Pico.into());
    let settings =
        format!("strategy=\"fedavg\" num-server-rounds=1 min-nodes=1 initial={} out={}", quoted(&start), quoted(&out));
    let run = link.run("one", &settings);
    says(&beamer, "stage-federation", &format!("Federation {host}, round 1: 2 of 2 rounds here")).await;
    assert_accessible(&beamer, "the stage of a room in a federation").await;
    beamer.screenshot("federation-worked").await;
    let said = run.wait(&link);
    assert!(out.exists(), "{}", tail(&said));

    drop(link);
    says(&beamer, "stage-federation", "no answer; the room goes on by itself").await;
    beamer.screenshot("federation-lost").await;
    // It does.
    relay.control(json!({ "do": "start" })).await;
    relay.rounds(1).await;
}
