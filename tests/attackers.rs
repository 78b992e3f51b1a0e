//! Attackers stronger than the papers', on updates of real tabs.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, ssim,
    support::{Browser, Relay, robot, wait_for},
};

pub fn photograph(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display())).display().to_string()
}

/// The results of `naive` and `aware` for the same round.
async fn pair(relay: &Relay, naive: &str, aware: &str, defence: &str) -> (Value, Value) {
    wait_for(&format!("{naive} and {aware} of one round"), || async {
        let (naive, aware) = (relay.attack(naive, defence).await, relay.attack(aware, defence).await);
        (naive["round"] == aware["round"]).then_some((naive, aware))
    })
    .await
}

/// APRIL reconstructs every sample photograph in a room, dark ones too, round after round. Behind a mask the naive
/// attacker reconstructs none.
#[tokio::test]
async fn april_reads_dark_photographs_in_a_room() {
    let _turn = ONE_AT_A_TIME.lock().await;
    // Attacks that know the mask would take seconds of each round.
    let relay = Relay::start(&["--april-block", "--seed", "5", "--start", "--attack-seconds", "0.2"]).await;
    // It trains on one sample photograph after the other.
    let _robot = robot(&relay, "Robot");
    relay.client("Robot").await;
    let seen = async |defence: &str| {
        let mut results: Vec<Value> = Vec::new();
        while results.len() < 8 {
            let result = relay.attack("april", defence).await;
            if results.iter().all(|known| known["round"] != result["round"]) {
                results.push(result);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        results
    };
    for result in seen("none").await {
        assert!(result["psnr"].as_f64().is_some_and(|psnr| psnr >= 25.0), "{result}");
    }
    relay.control(json!({ "do": "defence", "defence": "random-binary:0.5" })).await;
    for result in seen("random-binary:0.5").await {
        assert!(ssim(&result) <= 0.3, "{result}");
    }
}

/// Masked updates that a search may try: sometimes it ends in another local minimum (`docs/measurements.md`).
const TRIES: u64 = 3;

/// On a masked update of a real tab, the papers' attacker sees nothing, and one who knows the mask sees the picture.
#[tokio::test]
async fn a_mask_stops_the_attacker_who_does_not_know_it() {
    const MASKED: &str = "random-binary:0.3";
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--defence", MASKED, "--seed", "7"]).await;
    let browser = Browser::start().await;
    let join = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let ada = browser.open(&join, PHONE).await;
    relay.client("Ada").await;
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    // A search starts with the next update, and there must be only one.
    teacher.click("search").await;
    wait_for("the search to be asked for", || async { relay.room().await["search"].as_bool().filter(|on| *on) }).await;
    teacher.click("one-round").await;

    let (naive, _) = pair(&relay, "embedding", "embedding-aware", MASKED).await;
    assert!(ssim(&naive) <= 0.4, "{naive}");
    let halves = "document.querySelectorAll('[data-family=\"embedding\"] [data-testid=\"card\"][data-ssim]').length == 2 || null";
    teacher.wait_for(halves).await;

    for round in 1..=TRIES {
        let (naive, aware) = wait_for("the search to see the picture, or to end", || async {
            let (naive, aware) = pair(&relay, "matching", "matching-aware", MASKED).await;
            let is_over = aware["round"] == round && aware["search"]["state"] == "done";
            (ssim(&aware) >= 0.5 || is_over).then_some((naive, aware))
        })
        .await;
        if ssim(&aware) >= 0.5 {
            assert!(ssim(&naive) <= 0.3, "{naive}");
            assert_eq!((&aware["round"], &aware["nickname"]), (&json!(round), &json!("Ada")));
            break;
        }
        assert!(round < TRIES, "no picture under {TRIES} masks: {aware}");
        teacher.click("one-round").await;
    }
    let drawn = "Number(document.querySelector('[data-attack=\"matching-aware\"]')?.dataset.ssim) >= 0.4 || null";
    teacher.wait_for(drawn).await;
    teacher.screenshot("projector-pairs").await;
    teacher.click("search").await;
    wait_for("the search to stop", || async {
        (relay.attack("matching-aware", MASKED).await["search"]["state"] != "running").then_some(())
    })
    .await;
    ada.screenshot("student-attacked").await;

    // Rates that spare the position embedding leave linear equations, which are solved without a search.
    let spared = "random-binary:pos=0,0.3";
    relay.control(json!({ "do": "defence", "defence": spared })).await;
    relay.control(json!({ "do": "one_round" })).await;
    let (naive, aware) = pair(&relay, "embedding", "embedding-aware", spared).await;
    assert!(ssim(&naive) <= 0.5 && ssim(&aware) >= 0.95, "{naive}\n{aware}");
}

/// A picture dropped on the projector is distinguished from others by means of a fixed-position update.
#[tokio::test]
async fn a_dropped_picture_is_recognised() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--defence", "fixed-position", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let join = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let _ada = browser.open(&join, PHONE).await;
    relay.client("Ada").await;
    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.click("one-round").await;
    let blind = relay.attack("embedding", "fixed-position").await;
    assert!(blind["picture"].is_null(), "{blind}");

    teacher.choose_file("candidate-file", &photograph("cat.png")).await;
    teacher.attribute_is("membership", "data-verdict", "stranger").await;
    teacher.choose_file("candidate-file", &photograph("astronaut.png")).await;
    teacher.attribute_is("membership", "data-verdict", "member").await;
    teacher.screenshot("projector-membership").await;

    let label = wait_for("the label", || async {
        let label = relay.room().await["label"].clone();
        label["counts"].as_array().filter(|counts| !counts.is_empty()).is_some().then_some(label)
    })
    .await;
    assert_eq!(label["counts"].as_array().map(|counts| counts.iter().filter(|count| **count == 1).count()), Some(1));
}
