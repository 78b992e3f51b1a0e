//! The screenshots of docs/lesson.md, taken during a lesson.

use std::path::PathBuf;

use unmask_lesson::Scene;

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, replay,
    stage::{PROJECTOR, arrive, beats, counted, sees_secret_sum, type_passphrase},
    support::{Browser, Relay, Scheme, Tab, wait_for},
    volunteers::has_picture,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/lesson")
}

/// Largest size in bytes of a screenshot, because every clone contains it.
const MOST_BYTES: u64 = 170_000;

/// True when nothing on the stage is still loading.
const COMPLETE: &str = "(stage => !/Waiting|…/.test(stage.innerText) && [...stage.querySelectorAll('img')].every(image => image.complete && image.naturalWidth) \
                        || null)(document.querySelector('[data-testid=\"stage\"]'))";

/// Takes a screenshot in light and one in dark.
async fn take(tab: &Tab, name: &str, is_whole: bool) {
    for scheme in Scheme::ALL {
        tab.prefer(scheme).await;
        let path = folder().join(format!("{name}-{}.webp", scheme.name()));
        tab.picture(&path, is_whole).await;
        let bytes = std::fs::metadata(&path).expect("the picture").len();
        assert!(bytes <= MOST_BYTES, "{}: {bytes} bytes", path.display());
    }
    tab.prefer(Scheme::Light).await;
}

/// Plays the lesson and takes screenshots of every scene, of the phone, and of the other pages.
#[tokio::test]
#[ignore = "writes docs/images/lesson: cargo xtask screenshots"]
async fn of_the_whole_lesson() {
    let _turn = ONE_AT_A_TIME.lock().await;
    std::fs::create_dir_all(folder()).expect("the folder is made");
    let relay =
        Relay::start(&["--headless", "4", "--seed", "7", "--model", "vit_nano_patch4_32", "--shadow-room"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let beamer = browser.open_view(&relay.beamer_link(), PROJECTOR).await;
    let phone = browser.open(&relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu"), PHONE).await;
    has_picture(&phone, "astronaut").await;
    take(&phone, "phone-form", false).await;
    phone.click("join").await;
    relay.client("Ada").await;
    phone.attribute_is("connection", "data-state", "online").await;
    for robot in 1..=4 {
        relay.client(&format!("robot {robot}")).await;
    }
    take(&phone, "phone-lobby", false).await;
    let mut others = Vec::new();
    for (scene, beats) in (0..).zip(beats()) {
        for beat in 0..beats {
            if (scene, beat) == (9, 0) {
                // A secure sum needs three people.
                for (name, sample) in [("Bob", "hubble"), ("Cleo", "coffee")] {
                    let link = format!("nickname={name}&image={sample}&device=cpu&join=1");
                    others.push(browser.open(&relay.student_link("localhost", &link), PHONE).await);
                    wait_for("the consent", || async { (relay.client(name).await["may_show"] == true).then_some(()) })
                        .await;
                }
            }
            if (scene, beat) != (0, 0) {
                teacher.press(' ').await;
            }
            arrive(&relay, &teacher, scene, beat).await;
            beamer.attribute_is("stage", "data-beat", &beat.to_string()).await;
            let (is_seen, level) = match (scene, beat) {
                (2, 0) | (3, 0 | 2) => (true, "recognisable"),
                (3, 1) | (4, 0) => (true, "hidden"),
                _ => (false, ""),
            };
            if is_seen {
                beamer.attribute_is("attacked", "data-level", level).await;
            }
            match (scene, beat) {
                (2, 0) => {
                    phone.click("answer").await;
                    phone.text("voted").await;
                    take(&phone, "phone-question", false).await;
                }
                (2, 2) => take(&phone, "phone-result", false).await,
                // The robots and the student.
                (2, 3) => {
                    beamer.wait_for(&counted("everybody", 5)).await;
                    // Until the last one has turned over.
                    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
                }
                (3, 0) => {
                    phone.attribute("leak", "data-ssim").await;
                    take(&phone, "phone-leak", false).await;
                }
                (3, 5) => drop(beamer.attribute("solved", "data-patch").await),
                (4, 0) => {
                    for _ in 0..6 {
                        phone.click("guess-more").await;
                    }
                    phone.text("voted").await;
                    phone.attribute("leak", "data-ssim").await;
                    beamer.wait_for(&counted("swarm-dot", 5)).await;
                    take(&phone, "phone-mask", false).await;
                }
                (5, 2) => {
                    phone.click("answer").await;
                    phone.click("know-gaps").await;
                    take(&phone, "phone-attack", false).await;
                }
                (5, 1) => {
                    let both = "document.querySelectorAll('[data-testid=\"attacked\"] img').length == 2 || null";
                    beamer.wait_for(both).await;
                    beamer.wait_for("document.querySelector('[data-level=\"recognisable\"]')").await;
                }
                (6, 0) => take(&phone, "phone-guess", false).await,
                (6, 1) => {
                    let found =
                        "Number(document.querySelector('[data-testid=\"patience\"]')?.dataset.ssim) >= 0.6 || null";
                    beamer.wait_for(found).await;
                }
                (7, 0) => {
                    // All columns have run all rounds.
                    let setup = "document.querySelector('[data-testid=\"trade-setup\"]')";
                    beamer.wait_for(&format!("/ 80:/.test({setup}?.innerText) || null")).await;
                }
                (9, 0) => type_passphrase([&phone].into_iter().chain(&others)).await,
                (8, 1) => beamer.attribute_is("was-it", "data-verdict", "member").await,
                (10, 1) => {
                    let told = "document.querySelector('[data-testid=\"sum-told\"]').innerText";
                    beamer.wait_for(&format!("{told}.includes('4 of them certain') || null")).await;
                    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                }
                // The owner of the picture has compared it.
                (11, 1) => beamer.attribute_is("mixture", "data-level", "recognisable").await,
                (13, 3) => take(&phone, "phone-debrief", false).await,
                _ => {}
            }
            sees_secret_sum(&beamer, (scene, beat)).await;
            beamer.wait_for(COMPLETE).await;
            let name = format!("scene-{scene}-{beat}");
            if is_worth_a_picture(scene, beat) {
                take(&beamer, &name, false).await;
            }
        }
    }
    phone.text("device-reason").await;
    take(&phone, "phone-details", true).await;
    teacher.press('n').await;
    teacher.attribute("notes", "data-testid").await;
    take(&teacher, "presenter", false).await;

    let expert = browser.open_view(&relay.teacher_link(), DESKTOP).await;
    expert.attribute("card", "data-ssim").await;
    take(&expert, "expert", false).await;

    let lesson = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../assets/lesson.unmask");
    let (_program, address) = replay::replay(&lesson);
    let page = browser.open_view(&address, PROJECTOR).await;
    page.attribute("play", "data-playing").await;
    page.press(' ').await;
    page.attribute_is("play", "data-playing", "false").await;
    // What APRIL sees, the main point of a recorded lesson.
    replay::go_to(&page, replay::last_second_of(&lesson, Scene::April, 0)).await;
    page.attribute_is("stage", "data-scene", "3").await;
    page.attribute_is("stage", "data-beat", "0").await;
    page.wait_for(COMPLETE).await;
    take(&page, "replay", false).await;
}

/// The steps that show something of their own.
fn is_worth_a_picture(scene: u64, beat: u64) -> bool {
    matches!(
        (scene, beat),
        (0 | 7 | 12, 0) | (1 | 6 | 8..=11, 1) | (2, 2 | 3) | (3, 0 | 1 | 5) | (4, 0 | 1) | (5, 1 | 2) | (13, 3)
    )
}
