//! The lesson in short in another browser. `cargo xtask firefox` runs all other lesson tests there.

use serde_json::json;

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, ssim,
    stage::{PROJECTOR, arrive, assert_fits},
    support::{Browser, Relay, wait_for},
};

/// A tab joins, trains, is attacked and sees what leaks, and the teacher leads the stage by keyboard.
#[tokio::test]
async fn a_lesson_in_firefox() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let Some(browser) = Browser::firefox().await else { return };
    let relay = Relay::start(&["--seed", "7", "--headless", "1"]).await;
    let join = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let ada = browser.open(&join, PHONE).await;
    let id = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": id })).await;

    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &teacher, 0, 0).await;
    assert_fits(&teacher, "the lobby in Firefox").await;
    for (scene, beat) in [(1, 0), (1, 1), (1, 2), (2, 0)] {
        teacher.press(' ').await;
        arrive(&relay, &teacher, scene, beat).await;
        assert_fits(&teacher, &format!("scene {scene}, step {beat} in Firefox")).await;
    }
    // The step asks for one round, which may already be over.
    wait_for("a round of both", || async {
        relay.room().await["losses"].as_array()?.iter().any(|point| point["updates"] == 2).then_some(())
    })
    .await;
    teacher.press('\u{e014}').await;
    arrive(&relay, &teacher, 3, 0).await;
    relay.control(json!({ "do": "target", "client": id })).await;
    let seen = wait_for("APRIL's picture of Ada's", || async {
        Some(relay.attack("april", "none").await).filter(|card| card["client"] == id)
    });
    assert!(ssim(&seen.await) >= 0.9);
    assert!(ada.attribute("leak", "data-ssim").await.parse::<f64>().expect("a number") >= 0.9);
    assert!(ada.attribute("device", "data-device").await.contains("CPU"));
    teacher.attribute_is("attacked", "data-level", "recognisable").await;
    assert_fits(&teacher, "APRIL in Firefox").await;
    teacher.press('m').await;
    teacher.attribute_is("attacked", "data-level", "hidden").await;
    teacher.screenshot("firefox-stage").await;
    ada.screenshot("firefox-phone").await;

    teacher.reload().await;
    arrive(&relay, &teacher, 3, 0).await;
    teacher.press('e').await;
    teacher.attribute("card", "data-ssim").await;
    let expert = browser.open(&relay.projector_link(), DESKTOP).await;
    expert.attribute("card", "data-ssim").await;
}
