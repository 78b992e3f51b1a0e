//! The lesson in short in other browsers. `cargo xtask firefox` and `cargo xtask webkit` run all other lesson tests there.

use serde_json::{Value, json};

use crate::{
    DESKTOP, NARROW, ONE_AT_A_TIME, PHONE,
    access::{LARGE, assert_reads},
    ssim,
    stage::{PROJECTOR, arrive, assert_fits},
    support::{Browser, Relay, Tab, are_gone, wait_for, with_descendants},
    volunteers::ask,
};

#[tokio::test]
async fn a_lesson_in_firefox() {
    let _turn = ONE_AT_A_TIME.lock().await;
    if let Some(browser) = Browser::firefox().await {
        lesson_in(browser).await;
    }
}

#[tokio::test]
async fn a_lesson_in_webkit() {
    let _turn = ONE_AT_A_TIME.lock().await;
    if let Some(browser) = Browser::webkit().await {
        lesson_in(browser).await;
    }
}

/// A tab joins, trains, is attacked and sees what leaks, the teacher leads the stage by keyboard, and the browser leaves
/// no process behind.
async fn lesson_in(browser: Browser) {
    let name = browser.name();
    let relay = Relay::start(&["--seed", "7", "--headless", "1"]).await;
    let join = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let ada = browser.open(&join, PHONE).await;
    let id = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": id })).await;

    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &teacher, 0, 0).await;
    assert_fits(&teacher, &format!("the lobby in {name}")).await;
    for (scene, beat) in [(1, 0), (1, 1), (1, 2), (2, 0)] {
        teacher.press(' ').await;
        arrive(&relay, &teacher, scene, beat).await;
        assert_fits(&teacher, &format!("scene {scene}, step {beat} in {name}")).await;
    }
    // The step asks for one round, which may already be over.
    wait_for("a round of both", || async {
        relay.room().await["losses"].as_array()?.iter().any(|point| point["updates"] == 2).then_some(())
    })
    .await;
    teacher.press('\u{e014}').await;
    arrive(&relay, &teacher, 3, 0).await;
    // The page may still be making the changes of this step: it attacks the robot, which shows its picture, and takes a
    // room whose one round is over for a running one.
    let seen = wait_for("APRIL's picture of Ada's", || async {
        let room = relay.room().await;
        if room["phase"] == "paused" {
            relay.control(json!({ "do": "start" })).await;
        }
        if room["target"] != id {
            relay.control(json!({ "do": "target", "client": id })).await;
        }
        let is_seen = |card: &&Value| {
            card["attack"] == "april" && card["defence"] == "none" && card["client"] == id && card["ssim"].is_number()
        };
        room["attacks"].as_array()?.iter().find(is_seen).cloned()
    });
    assert!(ssim(&seen.await) >= 0.9);
    assert!(ada.attribute("leak", "data-ssim").await.parse::<f64>().expect("a number") >= 0.9);
    assert!(ada.attribute("device", "data-device").await.contains("CPU"));
    teacher.attribute_is("attacked", "data-level", "recognisable").await;
    assert_fits(&teacher, &format!("APRIL in {name}")).await;
    teacher.screenshot(&format!("{name}-stage")).await;
    ada.screenshot(&format!("{name}-phone")).await;
    teacher.press('m').await;
    teacher.attribute_is("attacked", "data-level", "hidden").await;

    teacher.reload().await;
    arrive(&relay, &teacher, 3, 0).await;
    for scene in [4, 5] {
        teacher.press('\u{e014}').await;
        arrive(&relay, &teacher, scene, 0).await;
        teacher.attribute_is("attacked", "data-level", "hidden").await;
        assert_fits(&teacher, &format!("scene {scene} in {name}")).await;
    }
    teacher.press('e').await;
    teacher.attribute("card", "data-ssim").await;
    let expert = browser.open(&relay.projector_link(), DESKTOP).await;
    expert.attribute("card", "data-ssim").await;
    if browser.is_narrow_enough() {
        reads_in_large_letters(&relay, &ada, name).await;
    }

    let processes = with_descendants(&browser.processes().await);
    drop(browser);
    wait_for("the end of its processes", || async { are_gone(&processes).then_some(()) }).await;
}

/// A student with a narrow phone and letters of twice the size answers a question.
async fn reads_in_large_letters(relay: &Relay, ada: &Tab, name: &str) {
    ada.resize(NARROW).await;
    ada.set_letters(LARGE).await;
    assert_reads(ada, &format!("what leaks, in {name}")).await;
    ask(relay, "seconds", &[], None).await;
    ada.text("guess").await;
    assert_reads(ada, &format!("a slider in {name}")).await;
    ada.run("document.querySelector('[data-testid=\"guess\"]').scrollIntoView()").await;
    ada.screenshot(&format!("{name}-narrow")).await;
    ada.click("guess-send").await;
    wait_for("the answer", || async { (relay.room().await["lesson"]["poll"]["voters"] != 0).then_some(()) }).await;
}
