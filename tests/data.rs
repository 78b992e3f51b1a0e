//! Rounds on shared pictures: what the model learns, how this is measured, and what a student can ask the model.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    ssim,
    support::{Browser, Relay, robot, wait_for},
};

/// Waits until the room's rounds train on `pictures`.
async fn training_on(relay: &Relay, pictures: &str) {
    wait_for(&format!("a round on {pictures} pictures"), || async {
        (relay.room().await["data"]["train_on"] == pictures).then_some(())
    })
    .await;
}

/// The newest evaluation of a trained model.
async fn evaluation(relay: &Relay) -> Value {
    wait_for("an evaluation", || async {
        let evaluation = relay.room().await["evaluation"].clone();
        (evaluation["pictures"].as_u64() > Some(0) && evaluation["round"].as_u64() > Some(0)).then_some(evaluation)
    })
    .await
}

/// A tab and a headless client learn from shared pictures. The projector shows the accuracy and the confusions, and a
/// student asks the model about a picture. Back on private pictures, everything is as before.
#[tokio::test]
async fn a_room_that_learns_from_shared_pictures() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[
        "--data",
        "generated",
        "--shard",
        "40",
        "--seats",
        "2",
        "--test-pictures",
        "100",
        "--batch",
        "8",
        "--seed",
        "7",
    ])
    .await;
    let browser = Browser::start().await;
    let join = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let ada = browser.open(&join, PHONE).await;
    let target = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": target })).await;
    let _robot = robot(&relay, "Robot");
    relay.client("Robot").await;
    // A question asked before there is a model is answered with the first round.
    ada.click("try-private").await;
    assert!(ada.text("try-waiting").await.contains("first round"));

    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.click("fold-data").await;
    teacher.click("train-on-shared").await;
    teacher.click("start").await;
    training_on(&relay, "shared").await;
    relay.rounds_with(2).await;
    ada.attribute_is("trains-on", "data-shared", "8").await;
    let pictures = ada.attribute("shard", "data-pictures").await;
    assert_eq!(pictures, "40");
    let counts = "[...document.querySelectorAll('[data-testid=\"shard-class\"]')].map(row => Number(row.dataset.text))";
    let sum = ada.wait_for(&format!("{counts}.reduce((sum, count) => sum + count, 0)")).await;
    assert_eq!(sum.to_string(), pictures);

    let evaluation = evaluation(&relay).await;
    let confusion: Vec<u64> =
        evaluation["confusion"].as_array().expect("counts").iter().filter_map(Value::as_u64).collect();
    let right: u64 = confusion.iter().step_by(11).sum();
    assert_eq!((confusion.len(), confusion.iter().sum::<u64>()), (100, 100), "{evaluation}");
    assert!((evaluation["accuracy"].as_f64().expect("a share") * 100.0 - right as f64).abs() < 1e-6, "{evaluation}");
    teacher.attribute("accuracy", "data-accuracy").await;
    assert!(!teacher.text("confusion-sentence").await.is_empty());
    teacher.screenshot("projector-learning").await;

    // The earlier question is answered again, with the class names of the shared pictures.
    ada.attribute_is("try-answer", "data-shared", "true").await;
    let first = |what: &str| format!("document.querySelector('[data-testid=\"try-class\"]')?.dataset.{what}");
    let classes = evaluation["classes"].as_array().expect("names").clone();
    let named = ada.wait_for(&first("name")).await;
    assert!(classes.contains(&named), "{named} is not one of {classes:?}");
    let probability: f64 =
        ada.wait_for(&first("share")).await.as_str().and_then(|text| text.parse().ok()).expect("a number");
    assert!((0.1..=1.0).contains(&probability), "{probability}");
    ada.choose_file("try-file", &photograph("LICENCE.md")).await;
    assert!(ada.text("try-problem").await.contains("LICENCE.md"));
    ada.choose_file("try-file", &photograph("cat.png")).await;
    ada.attribute("try-answer", "data-after").await;
    // The answer may still be the previous one.
    ada.wait_for("document.querySelector('[data-testid=\"try-problem\"]')?.checkVisibility() ? null : true").await;
    ada.screenshot("student-learning").await;

    // The tab takes its own update of two pictures apart, for this student alone.
    relay.control(json!({ "do": "batch", "samples": 2 })).await;
    ada.wait_for("document.querySelectorAll('[data-testid=\"own-pair\"]').length === 2 || null").await;
    ada.run("document.querySelector('[data-testid=\"own-batch\"]').scrollIntoView()").await;
    ada.screenshot("student-own-batch").await;

    // After a new division the same picture is used, because the set is the same.
    let is_asked = async || {
        let room = relay.room().await;
        [&room["data"]["partition"], &room["next"]["partition"]].contains(&&json!("dirichlet:0.3"))
    };
    // A card that grows at the moment of a click moves the button away from it.
    for _ in 0..3 {
        teacher.click("partition-dirichlet").await;
        let mut looks = 0;
        while !is_asked().await && looks < 50 {
            looks += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if is_asked().await {
            break;
        }
    }
    wait_for("the new division", || async {
        (relay.room().await["data"]["partition"] == "dirichlet:0.3").then_some(())
    })
    .await;
    relay.rounds_with(2).await;
    teacher.screenshot("projector-dirichlet").await;

    teacher.click("train-on-private").await;
    training_on(&relay, "private").await;
    relay.rounds_with(2).await;
    let plain = wait_for("the private picture", || async {
        Some(relay.attack("embedding", "none").await).filter(|attack| attack["ssim"].as_f64() >= Some(0.95))
    })
    .await;
    assert!(ssim(&plain) >= 0.95, "{plain}");
    ada.attribute_is("attacked", "data-private", "true").await;
    ada.attribute_is("trains-on", "data-shared", "0").await;
}
