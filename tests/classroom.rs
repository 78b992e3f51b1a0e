//! The lesson itself: join, train, attack, defend.

use serde_json::json;

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, ssim,
    support::{Browser, Relay, robot, skipped, wait_for},
};

/// Three tabs, one of them on WebGPU, and a headless client train together; what the attacks see depends on the
/// defence.
#[tokio::test]
async fn a_lesson() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--deadline", "120", "--seed", "7"]).await;
    let browser = Browser::start().await;
    if browser.is_webkit() {
        return skipped("WebKitGTK has no WebGPU");
    }
    let join = |query: &str| relay.student_link("localhost", &format!("{query}&join=1"));
    let ada = browser.open(&join("nickname=Ada&image=astronaut&device=cpu"), DESKTOP).await;
    let bob = browser.open(&join("nickname=Bob&image=cat&device=cpu"), PHONE).await;
    let gpu = browser.open(&join("nickname=Gpu&image=coffee&device=webgpu"), DESKTOP).await;
    let _robot = robot(&relay, "Robot");
    for nickname in ["Ada", "Bob", "Gpu", "Robot"] {
        relay.client(nickname).await;
    }
    let target = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": target })).await;

    relay.control(json!({ "do": "start" })).await;
    let points = relay.rounds(3).await;
    assert!(points.iter().all(|point| point["updates"] == 4), "{points:?}");
    assert!(ada.attribute("device", "data-device").await.contains("CPU"));
    let device = gpu.attribute("device", "data-device").await;
    assert!(device.contains("WebGPU"), "{device}: {}", gpu.text("device-reason").await);
    assert!(ada.attribute("bytes", "data-bytes").await.parse::<u64>().expect("a number") > 0);

    // Without a defence, anybody can see the picture.
    let plain = relay.attack("embedding", "none").await;
    assert!(ssim(&plain) >= 0.95, "{plain}");
    let own_view: f64 = ada.attribute("attacked", "data-ssim").await.parse().expect("a number");
    assert!(own_view >= 0.95);
    ada.screenshot("student-plain").await;
    bob.screenshot("student-phone").await;

    relay.control(json!({ "do": "defence", "defence": "random-binary:0.5" })).await;
    let masked = relay.attack("embedding", "random-binary:0.5").await;
    assert!(ssim(&masked) <= 0.3, "{masked}");
    let zeros: f64 = ada
        .wait_for(
            "[...document.querySelectorAll('[data-testid=\"group\"]')].map(g => g.dataset.zeros).find(z => z > 0)",
        )
        .await
        .as_str()
        .and_then(|zeros| zeros.parse().ok())
        .expect("a share of zeros");
    assert!((zeros - 0.5).abs() < 0.1, "{zeros}");
    ada.screenshot("student-masked").await;

    relay.control(json!({ "do": "defence", "defence": "fixed-position" })).await;
    let fixed = relay.attack("embedding", "fixed-position").await;
    assert!(
        fixed["picture"].is_null() && fixed["remark"].as_str().is_some_and(|why| why.contains("position")),
        "{fixed}"
    );

    // A tab that is closed during a round does not stall the room.
    gpu.close().await;
    let points = relay.rounds(2).await;
    assert_eq!(points[1]["updates"], 3, "{points:?}");

    relay.control(json!({ "do": "defence", "defence": "none" })).await;
    relay.control(json!({ "do": "april_block", "on": true })).await;
    wait_for("the April block", || async { relay.room().await["april_block"].as_bool().filter(|on| *on) }).await;
    let april = relay.attack("april", "none").await;
    let april = if ssim(&april) >= 0.9 {
        april
    } else {
        // The result may still be the last one of the standard block.
        wait_for("APRIL on the new block", || async {
            Some(relay.attack("april", "none").await).filter(|result| ssim(result) >= 0.9)
        })
        .await
    };
    assert!(ssim(&april) >= 0.9, "{april}");
    relay.control(json!({ "do": "defence", "defence": "random-binary:0.5" })).await;
    let masked = relay.attack("april", "random-binary:0.5").await;
    assert!(ssim(&masked) <= 0.3, "{masked}");
}

/// The teacher's page controls the room; the same page without the token, and a request without it, do not.
#[tokio::test]
async fn only_the_teacher_controls() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    for (token, status) in [(None, 401), (Some("guess"), 401)] {
        assert_eq!(relay.control_with(token, json!({ "do": "start" })).await, status);
    }
    assert_eq!(relay.control_with(Some(&relay.token), json!({ "do": "dance" })).await, 400);
    // The page sends any typed number; only the relay knows the limits.
    for seconds in [-1.0, 601.0] {
        let reason = relay.control_refused(json!({ "do": "attack_budget", "seconds": seconds })).await;
        assert!(reason.contains(&seconds.to_string()) && reason.contains("600"), "{reason}");
    }
    assert_eq!(relay.room().await["phase"], "paused");

    let browser = Browser::start().await;
    let student = browser.open(&relay.projector_link(), DESKTOP).await;
    student.wait_for("document.querySelector('[data-testid=\"view-only\"]')?.innerText").await;
    assert!(!student.shows("start").await);

    let _robot = robot(&relay, "Robot");
    relay.client("Robot").await;
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.click("start").await;
    relay.rounds(2).await;
    teacher.attribute("card", "data-ssim").await;
    teacher.screenshot("projector-plain").await;
    teacher.click("defence-random-binary").await;
    teacher.attribute_is("defence", "data-defence", "random-binary:0.5").await;
    relay.attack("embedding", "random-binary:0.5").await;
    teacher.attribute_is("card", "data-defence", "random-binary:0.5").await;
    teacher.screenshot("projector-masked").await;
    teacher.click("pause").await;
    wait_for("the pause", || async { (relay.room().await["phase"] == "paused").then_some(()) }).await;

    // A single click deletes nothing.
    teacher.click("reset").await;
    teacher.screenshot("projector-reset").await;
    assert!(relay.room().await["round"].as_u64() > Some(0));
    teacher.click("reset-yes").await;
    wait_for("the reset", || async { (relay.room().await["round"] == 0).then_some(()) }).await;

    teacher
        .wait_for("document.querySelector('[data-testid=\"reset-yes\"]')?.checkVisibility() ? null : 'closed'")
        .await;
    teacher.click("network").await;
    let findings = "[...document.querySelectorAll('[data-testid=\"network-finding\"]')]";
    let subjects = teacher.wait_for(&format!("{findings}.map(finding => finding.dataset.subject).join(' ')")).await;
    assert_eq!(subjects, "address isolation firewall ports certificate");
    let ports = teacher.wait_for(&format!("{findings}[3].innerText")).await.to_string();
    assert!(ports.contains(&relay.http_port().to_string()), "{ports}");
    teacher.screenshot("projector-network").await;

    // The lesson ends only when that is confirmed. The teacher reads what went.
    teacher.click("erase").await;
    teacher.click("erase-no").await;
    teacher.click("erase").await;
    assert_eq!(relay.room().await["clients"].as_array().map(Vec::len), Some(1));
    teacher.click("erase-yes").await;
    let receipt = "document.querySelector('[data-testid=\"erase-receipt\"]:not([hidden]) ul')?.innerText";
    let receipt = teacher.wait_for(receipt).await.to_string();
    assert!(receipt.contains("room.key") && receipt.contains("journal-a.redb"), "{receipt}");
    assert_eq!(relay.room().await["clients"].as_array().map(Vec::len), Some(0));
}

/// The browser takes the graphics adapter away during a lesson: the tab reports it and continues on the CPU.
#[tokio::test]
async fn a_lost_graphics_adapter() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--deadline", "120", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=coffee&device=webgpu&join=1");
    let ada = browser.open(&link, DESKTOP).await;
    if !ada.has_devtools() {
        return skipped("only Chromium can end its graphics process on command");
    }
    let _robot = robot(&relay, "Robot");
    for nickname in ["Ada", "Robot"] {
        relay.client(nickname).await;
    }
    relay.control(json!({ "do": "start" })).await;
    let before = relay.rounds_with(2).await.last().expect("a round")["round"].as_u64();
    let device = ada.attribute("device", "data-device").await;
    assert!(device.contains("WebGPU"), "{device}: {}", ada.text("device-reason").await);

    ada.lose_graphics().await;
    ada.attribute_is("device", "data-device", "CPU").await;
    let reason = ada.text("device-reason").await;
    assert!(reason.contains("the graphics adapter failed"), "{reason}");
    relay.rounds(3).await;
    let room = relay.room().await;
    let points = room["losses"].as_array().expect("a curve");
    let since = points.iter().filter(|point| point["round"].as_u64() >= before);
    assert!(since.clone().count() > 3 && since.clone().all(|point| point["updates"] == 2), "{points:?}");
}

/// Over plain HTTP from another device the browser hides WebGPU: the page says so, points to HTTPS and trains on the
/// CPU.
#[tokio::test]
async fn an_insecure_page_trains_on_the_cpu_and_points_to_https() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    if browser.is_webkit() {
        return skipped("WebKit cannot be told where classroom.test is");
    }
    let tab = browser.open(&relay.student_link("classroom.test", "nickname=Ada&image=cat&join=1"), PHONE).await;
    assert!(tab.attribute("secure-link", "href").await.starts_with("https://classroom.test:"));
    assert!(tab.attribute("device", "data-device").await.contains("CPU"));
    assert!(tab.text("device-reason").await.contains("secure context"));
    tab.attribute("loss", "data-loss").await;
    assert_eq!(relay.rounds(1).await[0]["updates"], 1);
    tab.screenshot("student-insecure").await;
}

/// When the relay is killed and restarted, the tab reconnects automatically as the same client with its picture, rounds
/// continue automatically, and the teacher's page controls the room as before.
#[tokio::test]
async fn a_tab_comes_back() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1"), DESKTOP).await;
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    relay.rounds(2).await;
    let before = relay.client("Ada").await["id"].clone();
    let relay = relay.restart().await;
    let points = relay.rounds_with(1).await;
    assert!(points.iter().all(|point| point["round"].as_u64() >= Some(2)), "{points:?}");
    assert_eq!(relay.client("Ada").await["id"], before);
    tab.attribute_is("connection", "data-state", "online").await;
    teacher.click("pause").await;
    wait_for("the pause", || async { (relay.room().await["phase"] == "paused").then_some(()) }).await;
}

/// A reloaded page brings its student back with one tap, as the same client with the same picture.
#[tokio::test]
async fn a_reloaded_tab_comes_back_with_one_tap() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab =
        browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&label=plant&device=cpu"), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === 'cat' || null").await;
    tab.click("join").await;
    relay.rounds(1).await;
    let before = relay.client("Ada").await["id"].clone();
    tab.reload().await;
    tab.wait_for("document.querySelector('[data-testid=\"rejoin\"]')").await;
    tab.screenshot("student-comeback").await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert_eq!(relay.client("Ada").await["id"], before);
    assert!(tab.text("trains-on").await.contains("plant"));
    tab.attribute("attacked", "data-ssim").await;

    // A student who leaves is not asked to come back.
    tab.click("leave").await;
    tab.reload().await;
    tab.wait_for("document.querySelector('[data-testid=\"join\"]')").await;
    assert!(!tab.shows("rejoin").await);
}

/// A tab and a headless client train a ResNet together, with and without a mask; attacks that need patch embeddings say
/// so.
#[tokio::test]
async fn a_room_trains_a_resnet() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--model", "resnet_nano", "--deadline", "120", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let ada =
        browser.open(&relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1"), DESKTOP).await;
    let _robot = robot(&relay, "Robot");
    for nickname in ["Ada", "Robot"] {
        relay.client(nickname).await;
    }
    let target = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": target })).await;
    relay.control(json!({ "do": "start" })).await;
    for defence in ["none", "random-binary:0.5"] {
        relay.control(json!({ "do": "defence", "defence": defence })).await;
        let card = relay.attack("embedding", defence).await;
        let why = card["remark"].as_str().unwrap_or_default();
        assert!(card["picture"].is_null() && why.contains("resnet_nano is no Vision Transformer"), "{card}");
        let points = relay.rounds(2).await;
        assert!(points.iter().all(|point| point["updates"] == 2), "{points:?}");
    }
    assert!(ada.attribute("loss", "data-loss").await.parse::<f64>().expect("a loss").is_finite());
    let reason = relay.control_refused(json!({ "do": "defence", "defence": "fixed-position" })).await;
    assert!(reason.contains("resnet_nano has none"), "{reason}");
}
