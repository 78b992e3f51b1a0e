//! Defences and update rules in tabs, in the relay and natively.

use serde_json::{Value, json};

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, ssim,
    support::{Browser, Relay, assert_accessible, robot, robot_with_passphrase},
};

const PASSPHRASE: &str = "correct horse battery staple";

/// Three tabs add up their updates, and the relay steps on a sum of which it saw no part.
#[tokio::test]
async fn a_secure_sum_of_tabs() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--optimiser", "sgd:0.1", "--deadline", "120"]).await;
    let browser = Browser::start().await;
    let fragment = PASSPHRASE.replace(' ', "%20");
    let join = |name: &str, passphrase: &str| {
        let link = relay.student_link("localhost", &format!("nickname={name}&image=cat&device=cpu&join=1"));
        format!("{link}&passphrase={passphrase}")
    };
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.click("aggregation-secure-sum").await;
    teacher.screenshot("expert-secure-sum").await;
    let ada = browser.open(&join("Ada", &fragment), PHONE).await;
    let bob = browser.open(&join("Bob", &fragment), DESKTOP).await;
    let eve = browser.open(&join("Eve", "guessed"), DESKTOP).await;
    let _robots = ["Carl", "Dora"].map(|name| robot_with_passphrase(&relay, name, PASSPHRASE));
    relay.client("Dora").await;
    relay.control(json!({ "do": "start" })).await;
    relay.rounds_with(4).await;
    teacher.attribute_is("aggregation", "data-aggregation", "secure-sum:threshold=0.67,clip=1").await;
    assert!(ada.shows("summed").await);
    ada.screenshot("student-secure-sum").await;
    // Another passphrase does not spoil the sum of the others, and its owner is asked.
    eve.attribute_is("passphrase-prompt", "data-wrong", "true").await;
    bob.close().await;
    relay.rounds_with(3).await;
    assert_eq!(relay.room().await["attacks"], json!([]), "no update came in plain");
}

fn group<'a>(room: &'a Value, key: &str) -> &'a Value {
    let groups = room["update_counts"]["groups"].as_array().unwrap_or_else(|| panic!("no update counts in {room}"));
    groups.iter().find(|group| group["key"] == key).unwrap_or_else(|| panic!("no group {key}"))
}

/// Clients with the passphrase train. A client without it, or with a wrong one, is asked before it does harm. The relay
/// averages what it cannot read.
#[tokio::test]
async fn an_encrypted_room() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--defence", "encrypted", "--optimiser", "sgd:0.1", "--deadline", "120"]).await;
    let browser = Browser::start().await;
    let join = |query: &str| relay.student_link("localhost", &format!("{query}&device=cpu&join=1"));
    let fragment = PASSPHRASE.replace(' ', "%20");
    let ada = browser.open(&format!("{}&passphrase={fragment}", join("nickname=Ada&image=astronaut")), DESKTOP).await;
    let target = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": target })).await;
    relay.control(json!({ "do": "start" })).await;
    relay.rounds(2).await;
    assert_eq!(relay.room().await["encryption"], json!({ "start": "plain", "sealed_by": "Ada" }));
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.attribute_is("aggregation", "data-aggregation", "clipped").await;
    assert!(teacher.text("aggregation").await.contains("Encrypted updates cannot be judged"));
    teacher.screenshot("expert-encrypted").await;
    teacher.close().await;

    let bob = browser.open(&join("nickname=Bob&image=cat"), PHONE).await;
    bob.attribute_is("passphrase-prompt", "data-wrong", "false").await;
    bob.screenshot("student-asked-for-passphrase").await;
    assert_accessible(&bob, "the question for the passphrase").await;
    bob.fill("passphrase-answer", "correct horse battery stable").await;
    bob.click("passphrase-send").await;
    bob.attribute_is("passphrase-prompt", "data-wrong", "true").await;
    assert_accessible(&bob, "a wrong passphrase").await;
    let points = relay.rounds(1).await;
    assert_eq!(points[0]["updates"], 1, "the wrong key took part: {points:?}");
    bob.fill("passphrase-answer", PASSPHRASE).await;
    bob.click("passphrase-send").await;
    let _robot = robot_with_passphrase(&relay, "Robot", PASSPHRASE);
    relay.client("Robot").await;
    relay.rounds_with(3).await;
    assert!(!bob.shows("passphrase-prompt").await);

    let seen = relay.attack("embedding", "encrypted").await;
    assert!(ssim(&seen) <= 0.3, "{seen}");
    let cipher =
        "[...document.querySelectorAll('[data-testid=\"group\"]')].filter(g => g.dataset.ciphertext == 'true').length";
    assert_eq!(ada.wait_for(cipher).await, 2);
    ada.screenshot("student-encrypted").await;

    // Adam's step on encrypted gradients is not the encryption of its plain step.
    let adam = json!({ "do": "optimiser", "optimiser": "adam:0.001" });
    let refusal = relay.control_refused(adam).await;
    assert!(refusal.contains("not linear") && refusal.contains("sgd:RATE"), "{refusal}");

    // A keyed start begins with a model that the relay has never seen.
    relay.control(json!({ "do": "defence", "defence": "encrypted:keyed" })).await;
    relay.rounds_with(3).await;
    assert_eq!(relay.room().await["encryption"]["start"], "keyed");
    let seen = relay.attack("embedding", "encrypted:keyed").await;
    assert!(ssim(&seen) <= 0.3, "{seen}");
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.attribute_is("defence", "data-defence", "encrypted:keyed").await;
    teacher.screenshot("projector-encrypted").await;

    // Nobody can decrypt for the relay, so it starts with a new model when the encryption ends.
    relay.control(json!({ "do": "defence", "defence": "none" })).await;
    let seen = relay.attack("embedding", "none").await;
    assert!(ssim(&seen) >= 0.95, "{seen}");
}

/// FedAvg in tabs and natively: clients send weights, masks and noise protect them, and the counts match theory.
#[tokio::test]
async fn a_room_under_fedavg() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--rule", "fedavg:epochs=1,rate=0.05", "--deadline", "120", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let join = |query: &str| relay.student_link("localhost", &format!("{query}&device=cpu&join=1"));
    let ada = browser.open(&join("nickname=Ada&image=astronaut"), DESKTOP).await;
    let _bob = browser.open(&join("nickname=Bob&image=cat"), PHONE).await;
    let _robot = robot(&relay, "Robot");
    for nickname in ["Ada", "Bob", "Robot"] {
        relay.client(nickname).await;
    }
    let target = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": target })).await;
    relay.control(json!({ "do": "start" })).await;
    let points = relay.rounds_with(3).await;
    let plain = relay.attack("embedding", "none").await;
    assert!(ssim(&plain) >= 0.9, "{plain}");
    assert!(plain["remark"].as_str().is_some_and(|remark| remark.contains("weight")), "{plain}");
    ada.screenshot("student-fedavg").await;

    relay.control(json!({ "do": "rule", "rule": "fedavg:epochs=3,rate=0.05" })).await;
    let later = relay.rounds(8).await;
    let loss = |point: &Value| point["loss"].as_f64().expect("a loss");
    assert!(loss(&later[7]) < loss(&points[0]), "no learning: {} then {}", points[0], later[7]);

    relay.control(json!({ "do": "defence", "defence": "random-binary:patch=0.95,pos=0.95,0.2" })).await;
    let masked = relay.attack("embedding", "random-binary:patch=0.95,pos=0.95,0.2").await;
    assert!(ssim(&masked) <= 0.3, "{masked}");
    relay.rounds(3).await;
    let room = relay.room().await;
    for (key, rate) in [("pos", 0.95), ("mlp", 0.2)] {
        let group = group(&room, key);
        assert!((group["rate"].as_f64().expect("a rate") - rate).abs() < 1e-4, "{group}");
        let bins = group["bins"].as_array().expect("bins");
        assert!(bins.len() > 1, "{group}");
        for bin in bins {
            let (share, expected) = (bin["share"].as_f64(), bin["expected"].as_f64());
            let (share, expected) = share.zip(expected).expect("shares");
            let parameters = group["parameters"].as_f64().expect("a number");
            let error = (expected * (1.0 - expected) / parameters).sqrt().max(1.0 / parameters);
            assert!((share - expected).abs() <= 7.0 * error, "{key}: {bin}");
        }
    }
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.attribute("update-counts-group", "data-mean").await;
    teacher.screenshot("projector-counts").await;

    relay.control(json!({ "do": "defence", "defence": "gaussian:eps=4,delta=0.5,clip=0.5" })).await;
    let noisy = relay.attack("embedding", "gaussian:eps=4,delta=0.5,clip=0.5").await;
    assert!(ssim(&noisy) <= 0.3, "{noisy}");
    let sentence = teacher.text("guarantee").await;
    assert!(sentence.contains("no meaningful guarantee"), "{sentence}");
    teacher.screenshot("projector-gaussian").await;

    // Values dropped by frozen masks are never trained.
    relay.control(json!({ "do": "defence", "defence": "frozen-binary:0.5" })).await;
    relay.attack("embedding", "frozen-binary:0.5").await;
    relay.rounds(2).await;
    let room = relay.room().await;
    let never = group(&room, "mlp")["never"].as_f64().expect("a share");
    assert!((never - 0.5).abs() < 0.02, "{never}");
}
