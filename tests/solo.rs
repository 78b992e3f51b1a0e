//! The lesson without a relay: one folder, from a plain web server and below another page.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    ONE_AT_A_TIME,
    site::{self, Site},
    stage::{ALL_OF_THE_SUM, FOUND, PROJECTOR, SEARCH, assert_fits, beats, counted, sees_secret_sum},
    support::{Browser, Tab},
};

/// Whether the search is on its way to a picture.
const FINDING: &str = "Number(document.querySelector('[data-testid=\"patience\"]')?.dataset.ssim) >= 0.3 || null";

/// Where the folder lies.
const PREFIX: &str = "/lessons/unmask/";

/// The stage's reconstruction, once it is a picture.
const LEAKED: &str = "[...document.querySelectorAll('[data-testid=\"attacked\"] img')]
    .find(image => image.src.startsWith('data:image/png') && image.complete && image.naturalWidth > 0) && 'leaked'";

/// `cargo xtask check-all --only page` builds the folder.
pub fn serve() -> Site {
    serve_as(site::kind)
}

fn serve_as(kind: fn(&Path) -> &'static str) -> Site {
    Site::serve(&folder(), PREFIX, 0, kind).expect("a port")
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/solo");
    assert!(folder.join("index.html").exists(), "there is no {}", folder.display());
    folder
}

async fn arrives(page: &Tab, scene: u64, beat: u64) {
    let look = format!(
        "(stage => stage?.dataset.scene === '{scene}' && stage.dataset.beat === '{beat}' || null)\
         (document.querySelector('[data-testid=\"stage\"]'))"
    );
    page.wait_for(&look).await;
}

/// Presses Space from the lobby to the question whose picture leaked.
pub async fn goes_to_the_first_leak(page: &Tab) {
    page.attribute_is("clients-here", "data-count", "4").await;
    space_to(page, &[(1, 0), (1, 1), (1, 2), (2, 0)]).await;
    page.wait_for(LEAKED).await;
}

async fn space_to(page: &Tab, places: &[(u64, u64)]) {
    for &(scene, beat) in places {
        page.press(' ').await;
        arrives(page, scene, beat).await;
    }
}

#[tokio::test]
async fn a_picture_leaks_without_a_relay() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser.open_view(&format!("{}?seed=7", site.link()), PROJECTOR).await;
    goes_to_the_first_leak(&page).await;
    assert_fits(&page, "the first leak").await;
    page.screenshot("solo-leak").await;
    // APRIL solves the update exactly, and a mask hides the picture from it.
    page.press('\u{e014}').await;
    arrives(&page, 3, 0).await;
    page.attribute_is("attacked", "data-level", "recognisable").await;
    page.press('m').await;
    page.attribute_is("attacked", "data-level", "hidden").await;
    page.press('e').await;
    page.attribute("card", "data-ssim").await;
    for id in ["pin", "qr", "take-home", "take-recording"] {
        assert!(!page.shows(id).await, "{id} is shown");
    }
    assert_eq!(page.console_errors().await, Vec::<Value>::new());
}

/// A link with a setting that does not exist says which.
#[tokio::test]
async fn a_wrong_link_is_explained() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser.open_view(&format!("{}?colour=red", site.link()), PROJECTOR).await;
    page.wait_for("document.body.innerText.includes('\"colour\", which is no setting') || null").await;
}

/// Many a web server has not heard of WebAssembly.
#[tokio::test]
async fn a_server_that_mistakes_programs_for_something_else_will_do() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve_as(|file| match site::kind(file) {
        "application/wasm" => "text/plain; charset=utf-8",
        kind => kind,
    });
    for browser in [Some(Browser::start().await), Browser::firefox().await, Browser::webkit().await] {
        let Some(browser) = browser else { continue };
        let page = browser.open_view(&format!("{}?seed=7", site.link()), PROJECTOR).await;
        goes_to_the_first_leak(&page).await;
        assert_eq!(page.console_errors().await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn the_whole_lesson_plays_without_a_relay() {
    let _turn = ONE_AT_A_TIME.lock().await;
    plays_whole(Browser::start().await).await;
}

#[tokio::test]
async fn the_whole_lesson_plays_in_firefox() {
    let _turn = ONE_AT_A_TIME.lock().await;
    if let Some(browser) = Browser::firefox().await {
        plays_whole(browser).await;
    }
}

#[tokio::test]
async fn the_whole_lesson_plays_in_webkit() {
    let _turn = ONE_AT_A_TIME.lock().await;
    if let Some(browser) = Browser::webkit().await {
        plays_whole(browser).await;
    }
}

/// Space leads from the lobby to the last step, without a class, with the three robots that a secure sum needs. The sum
/// comes apart. Only Chromium waits until the search has found its picture; the others see it begin.
async fn plays_whole(browser: Browser) {
    let site = serve();
    let name = browser.name();
    let found = if name == "Chromium" { FOUND } else { FINDING };
    let page = browser.open_view(&format!("{}?seed=7&robots=3", site.link()), PROJECTOR).await;
    page.attribute_is("clients-here", "data-count", "3").await;
    let all = (0..).zip(beats()).flat_map(|(scene, beats)| (0..beats).map(move |beat| (scene, beat)));
    for (scene, beat) in all.skip(1) {
        space_to(&page, &[(scene, beat)]).await;
        match (scene, beat) {
            (2, 0) => drop(page.wait_for(LEAKED).await),
            // Each robot has a class of its own, so one compares the picture.
            (11, 1) => page.attribute_is("mixture", "data-level", "recognisable").await,
            SEARCH => drop(page.wait_for(found).await),
            (7, 0) => drop(page.wait_for(&counted("trade-column", 4)).await),
            (10, 1) => drop(page.wait_for(ALL_OF_THE_SUM).await),
            _ => {}
        }
        sees_secret_sum(&page, (scene, beat)).await;
        assert_fits(&page, &format!("scene {scene}, step {beat} in {name}")).await;
        page.screenshot(&format!("{name}-solo-{scene}-{beat}")).await;
    }
    assert_eq!(page.console_errors().await, Vec::<Value>::new());
}

/// Once loaded, the lesson needs no server, and its link still holds the settings.
#[tokio::test]
async fn the_lesson_plays_without_a_network() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser.open_in(&format!("{}?seed=7&pictures=rocket,cat", site.link()), PROJECTOR, "de").await;
    page.run_async("const done = arguments[0]; navigator.serviceWorker.ready.then(() => done(true))").await;
    drop(site);
    page.reload().await;
    is_in(&page, "de").await;
    page.attribute_is("clients-here", "data-count", "2").await;
    space_to(&page, &[(1, 0), (1, 1), (1, 2), (2, 0)]).await;
    page.wait_for(LEAKED).await;
}

/// A page whose texts cannot be fetched says so in English, and still offers the other languages.
#[tokio::test]
async fn a_missing_translation_is_told() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let place = tempfile::tempdir().expect("a temporary folder");
    copy(&folder(), place.path());
    fs::remove_file(place.path().join("translations/de.ftl")).expect("a translation");
    let site = Site::serve(place.path(), PREFIX, 0, site::kind).expect("a port");
    let browser = Browser::start().await;
    let page = browser.open_in(&site.link(), PROJECTOR, "de").await;
    let problem = "document.querySelector('[data-testid=\"language-problem\"]')";
    page.wait_for(&format!("{problem}?.innerText.startsWith('Deutsch: translations/de.ftl') || null")).await;
    is_in(&page, "en").await;
    page.attribute_is("clients-here", "data-count", "4").await;
    page.press('l').await;
    is_in(&page, "ja").await;
    page.wait_for(&format!("{problem}.hidden || null")).await;
}

/// Waits until the page speaks this language.
async fn is_in(page: &Tab, language: &str) {
    page.wait_for(&format!("document.documentElement.lang === '{language}' || null")).await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).expect("a copy");
        }
    }
}

/// Two pages in one browser have a room each.
#[tokio::test]
async fn two_lessons_do_not_disturb_each_other() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser.open_view(&format!("{}?seed=7", site.link()), PROJECTOR).await;
    page.run(
        "const other = document.createElement('iframe'); other.id = 'other'; other.src = '?robots=2'; \
         other.style.display = 'none'; document.body.append(other)",
    )
    .await;
    let other = |id: &str, part: &str| {
        format!(
            "document.getElementById('other').contentDocument?.querySelector('[data-testid=\"{id}\"]')?.dataset.{part}"
        )
    };
    page.wait_for(&format!("{} === '2' || null", other("clients-here", "count"))).await;
    goes_to_the_first_leak(&page).await;
    assert_eq!(page.wait_for(&other("stage", "scene")).await, "0");
}

/// An element of the phone beside the stage.
fn on_the_phone(id: &str) -> String {
    format!(
        "document.querySelector('[data-testid=\"own-phone\"] iframe')?.contentDocument\
         ?.querySelector('[data-testid=\"{id}\"]')"
    )
}

/// The visitor joins the robots, and sees privately what leaks.
#[tokio::test]
async fn the_visitor_may_be_a_student() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser.open_view(&format!("{}?seed=7&robots=1", site.link()), PROJECTOR).await;
    page.attribute_is("clients-here", "data-count", "1").await;
    page.click("be-student").await;
    // Until the page has its picture, Join does nothing.
    page.wait_for(&format!(
        "document.querySelector('[data-testid=\"clients-here\"]')?.dataset.count === '2' || ({}?.click(), null)",
        on_the_phone("join")
    ))
    .await;
    assert_fits(&page, "the stage beside the phone").await;
    page.screenshot("solo-phone").await;
    space_to(&page, &[(1, 0), (1, 1), (1, 2), (2, 0)]).await;
    page.press('\u{e014}').await;
    arrives(&page, 3, 0).await;
    page.wait_for(&format!("Number({}?.dataset.ssim) >= 0.9 || null", on_the_phone("leak"))).await;
    page.screenshot("solo-phone-leak").await;
}

/// A link may ask for a device. Robots on a graphics adapter leak as those on the CPU do.
#[tokio::test]
async fn robots_train_on_a_graphics_adapter() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = serve();
    let browser = Browser::start().await;
    let page = browser
        .open_view(&format!("{}?seed=7&robots=2&model=vit_pico_patch4_16&device=webgpu", site.link()), PROJECTOR)
        .await;
    page.attribute_is("clients-here", "data-count", "2").await;
    space_to(&page, &[(1, 0), (1, 1), (1, 2), (2, 0)]).await;
    page.wait_for(LEAKED).await;
    page.press('e').await;
    let devices = "[...document.querySelectorAll('[data-testid=\"client\"]')].map(client => client.textContent)";
    page.wait_for(&format!(
        "(all => all.length === 2 && all.every(text => text.includes('WebGPU')) || null)({devices})"
    ))
    .await;
    assert_eq!(page.console_errors().await, Vec::<Value>::new());
}
