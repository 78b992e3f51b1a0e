//! The pages without a mouse, with larger letters, in other colours, and with less motion.

use serde_json::json;

use crate::{
    DESKTOP, NARROW, ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    replay,
    stage::{PROJECTOR, arrive, assert_fits, beats},
    support::{Browser, Line, Relay, Tab, assert_accessible, skipped, wait_for},
    volunteers::{ask, beat, fits, has_picture, poll, scene},
};

const ENTER: char = '\u{e007}';
const SPACE: char = ' ';
const LEFT: char = '\u{e012}';
const RIGHT: char = '\u{e014}';
const HOME: char = '\u{e011}';

/// Steps of five seconds from one scene of a recorded lesson to the next, at most.
const MOST_STEPS: usize = 400;

/// Finds text that is cut off, except text only for screen readers.
const CUT: &str = r"(() => {
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const style = getComputedStyle(element);
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || style.clipPath !== 'none' || style.overflowX === 'visible') continue;
    if (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 2)
      found.push(`${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
  }
  return found.join('\n') || 'nothing';
})()";

/// Finds elements beyond the window or beyond the element around them. Those in an SVG drawing are not boxes.
const OVERHANGS: &str = r"(() => {
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const style = getComputedStyle(element);
    const isShown = element.checkVisibility({ visibilityProperty: true }) && style.clipPath === 'none';
    const isOutOfFlow = ['absolute', 'fixed'].includes(style.position);
    if (!isShown || isOutOfFlow || element.closest('.hidden, option, svg *')) continue;
    const box = element.getBoundingClientRect(), around = element.parentElement.getBoundingClientRect();
    const out = Math.max(around.left - box.left, box.right - around.right, box.right - innerWidth);
    if (box.width && out > 1) found.push(`${out} px of ${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
  }
  return found.join('\n') || 'nothing';
})()";

/// Twice the default size of letters.
pub const LARGE: u32 = 32;

/// Asserts that everything is complete and in its place.
pub async fn assert_reads(tab: &Tab, place: &str) {
    fits(tab, place).await;
    assert_eq!(tab.wait_for(CUT).await, "nothing", "{place}");
    assert_eq!(tab.wait_for(OVERHANGS).await, "nothing", "{place}");
}

/// Moves the focus by Tab to the element with this test id, and presses a key on it.
async fn press_on(tab: &Tab, id: &str, key: char) {
    tab.tab_to(id).await;
    tab.press(key).await;
}

/// A student without a mouse joins, answers, shows a picture, takes it back and leaves, and every page on the way works
/// with a screen reader.
#[tokio::test]
async fn a_phone_needs_no_pointer() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let address = relay.student_link("localhost", "nickname=Ada&device=cpu");
    let (address, _) = address.split_once('#').expect("a link with the room’s key");
    let tab = browser.open(address, PHONE).await;
    tab.attribute("pin", "data-testid").await;
    assert_accessible(&tab, "the question for the PIN").await;
    tab.tab_to("pin").await;
    for digit in relay.room().await["pin"].as_str().expect("a PIN").chars() {
        tab.press(digit).await;
    }
    tab.press(ENTER).await;

    press_on(&tab, "sample-coffee", ENTER).await;
    has_picture(&tab, "coffee").await;
    press_on(&tab, "more", ENTER).await;
    tab.attribute("label", "data-testid").await;
    assert_accessible(&tab, "the form").await;
    tab.choose_file("file", &photograph("astronaut.png")).await;
    has_picture(&tab, "astronaut.png").await;
    assert_accessible(&tab, "the form with the student’s own picture").await;
    if !tab.has_devtools() {
        // In that case `document.hasFocus()` stays false, and so does `:focus-visible`.
        return skipped(
            "the phone's room by keyboard: only headless Chromium returns to a page that the Tab key has left",
        );
    }
    press_on(&tab, "join", ENTER).await;
    relay.client("Ada").await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert_accessible(&tab, "the room").await;

    beat(&relay, "mask", 2).await;
    ask(&relay, "safe", &[], Some(1)).await;
    press_on(&tab, "answer", SPACE).await;
    assert!(tab.text("voted").await.contains("Yes"));
    assert_accessible(&tab, "a choice").await;
    relay.control(json!({ "do": "close_poll" })).await;
    assert!(tab.text("judged").await.contains("Yes"));
    beat(&relay, "mask", 3).await;
    tab.wait_for("document.querySelector('[data-testid=\"judged\"]')?.innerText.includes('answer is No') || null")
        .await;
    assert_accessible(&tab, "a result").await;

    scene(&relay, "patience").await;
    ask(&relay, "seconds", &[], None).await;
    press_on(&tab, "guess-slider", RIGHT).await;
    press_on(&tab, "guess-more", ENTER).await;
    assert!(tab.text("guess").await.contains("32"));
    assert_accessible(&tab, "a number").await;
    press_on(&tab, "guess-send", ENTER).await;
    poll(&relay, "a guess", |poll| poll["voters"] == 1).await;

    scene(&relay, "april").await;
    tab.attribute("leak", "data-ssim").await;
    press_on(&tab, "may-show", SPACE).await;
    wait_for("the consent", || async { (relay.client("Ada").await["may_show"] == true).then_some(()) }).await;
    let id = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "target", "client": id })).await;
    press_on(&tab, "show-original", ENTER).await;
    wait_for("the picture", || async { relay.client("Ada").await["original"].is_string().then_some(()) }).await;
    press_on(&tab, "details", ENTER).await;
    tab.attribute("attacked", "data-ssim").await;
    assert_accessible(&tab, "the details, and what leaks").await;
    press_on(&tab, "hide-original", ENTER).await;
    wait_for("no picture", || async { relay.client("Ada").await["original"].is_null().then_some(()) }).await;
    press_on(&tab, "forget", ENTER).await;
    tab.wait_for("document.querySelector('[data-testid=\"forgotten\"]')?.offsetParent && true").await;
    assert_accessible(&tab, "the way out").await;
}

/// The camera shows a live view until the student takes a picture. The class does not see the picture without consent.
#[tokio::test]
async fn a_camera_takes_the_picture() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&device=cpu"), PHONE).await;
    press_on(&tab, "camera-button", ENTER).await;
    tab.wait_for("document.querySelector('.camera video')?.videoWidth > 0 || null").await;
    // The button is visible below the picture, and the key that opened the camera also takes the picture.
    let shoot = "document.querySelector('[data-testid=\"camera-shoot\"]')";
    tab.wait_for(&format!("document.activeElement === {shoot} || null")).await;
    tab.wait_for(&format!("{shoot}.getBoundingClientRect().bottom <= innerHeight || null")).await;
    assert_accessible(&tab, "the camera").await;
    assert_reads(&tab, "the camera").await;
    tab.screenshot("phone-camera").await;
    tab.press(ENTER).await;
    has_picture(&tab, "camera picture").await;
    assert!(!tab.shows("camera-shoot").await);
    tab.screenshot("phone-camera-picture").await;
    press_on(&tab, "join", ENTER).await;
    assert_eq!(relay.client("Ada").await["may_show"], false);
    relay.rounds_with(1).await;
}

/// A phone that missed two rounds sits out, everybody sees this, and it comes back when its student asks for it.
#[tokio::test]
async fn a_phone_that_sits_out_asks_to_come_back() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start", "--headless", "1", "--deadline", "3"]).await;
    let line = Line::to(relay.http_port()).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = browser.open(&line.through(&link), PHONE).await;
    relay.rounds_with(2).await;
    line.hold(true);
    tab.attribute("sitting-out", "data-testid").await;
    assert_accessible(&tab, "a phone that sits out").await;
    assert_reads(&tab, "a phone that sits out").await;
    tab.screenshot("phone-sitting-out").await;
    press_on(&tab, "come-back", ENTER).await;
    // A late answer would bring the phone back too; it must not arrive before the student asks.
    line.hold(false);
    relay.rounds_with(2).await;
    assert!(!tab.shows("sitting-out").await);
}

/// With letters of twice the size, everything is still there, complete and within the width.
#[tokio::test]
async fn letters_grow_to_twice_their_size() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--start", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let width = if browser.is_narrow_enough() { NARROW } else { PHONE };
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), width).await;
    has_picture(&tab, "cat").await;
    tab.set_letters(LARGE).await;
    assert_reads(&tab, "the form").await;
    tab.click("join").await;
    relay.client("Ada").await;
    scene(&relay, "april").await;
    tab.attribute("leak", "data-ssim").await;
    assert_reads(&tab, "what leaks").await;
    tab.text("device-reason").await;
    assert_reads(&tab, "the details").await;
    // The longest nickname.
    let robot = relay.client("robot 2").await["id"].clone();
    let longest = "magnificent hippopotamus";
    relay.control(json!({ "do": "rename", "client": robot, "nickname": longest })).await;
    scene(&relay, "guess").await;
    ask(&relay, "whose", &["robot 1", longest], Some(1)).await;
    tab.text("question").await;
    assert_reads(&tab, "a question").await;
    relay.control(json!({ "do": "close_poll" })).await;
    tab.text("judged").await;
    assert_reads(&tab, "a result").await;
    ask(&relay, "seconds", &[], None).await;
    tab.text("guess").await;
    assert_reads(&tab, "a slider").await;

    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    if !teacher.has_devtools() {
        return skipped(
            "the expert view: its layout depends on the browser's letters, which only Chromium can be told",
        );
    }
    teacher.set_letters(LARGE).await;
    teacher.attribute("card", "data-ssim").await;
    assert_reads(&teacher, "the expert view").await;
    teacher.screenshot("expert-large").await;
}

/// A user who asks for less motion sees no motion, and the same result.
#[tokio::test]
async fn nothing_moves_for_those_who_ask_for_that() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    if !teacher.has_devtools() {
        return skipped("only Chromium's user preferences can be set");
    }
    relay.client("robot 1").await;
    arrive(&relay, &teacher, 0, 0).await;
    for (key, beat) in [(RIGHT, 0), (SPACE, 1), (SPACE, 2)] {
        teacher.press(key).await;
        arrive(&relay, &teacher, 1, beat).await;
    }
    let moving = "document.getAnimations().length || null";
    teacher.wait_for(moving).await;
    teacher.prefer_less_motion().await;
    for (key, beat) in [(LEFT, 0), (SPACE, 1), (SPACE, 2)] {
        teacher.press(key).await;
        arrive(&relay, &teacher, 1, beat).await;
        for _ in 0..5 {
            assert_eq!(teacher.run(&format!("return {moving}")).await, json!(null), "step {beat}");
        }
    }
}

/// A recorded lesson works without a relay, and under the same rules.
#[tokio::test]
async fn a_recorded_lesson_is_for_everybody() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let lesson = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/lesson.unmask");
    let (_program, address) = replay::replay(&lesson);
    let browser = Browser::start().await;
    let page = browser.open_view(&address, PROJECTOR).await;
    page.attribute("play", "data-playing").await;
    page.press(SPACE).await;
    page.attribute_is("play", "data-playing", "false").await;
    page.press(HOME).await;
    page.attribute_is("stage", "data-scene", "0").await;
    assert_fits(&page, "the recorded lobby").await;
    assert_accessible(&page, "the recorded lobby").await;
    page.screenshot("replay-lobby").await;
    press_on(&page, "faster", ENTER).await;
    page.attribute_is("speed", "data-speed", "2").await;
    for scene in 1..beats().len() {
        let there = format!("return document.querySelector('[data-testid=\"stage\"]').dataset.scene === '{scene}'");
        for _ in 0..MOST_STEPS {
            if page.run(&there).await == true {
                break;
            }
            page.press(RIGHT).await;
        }
        page.attribute_is("stage", "data-scene", &scene.to_string()).await;
        assert_accessible(&page, &format!("the recorded scene {scene}")).await;
    }
    page.press('e').await;
    page.attribute_is("link", "data-state", "recorded").await;
    assert_accessible(&page, "the recorded expert view").await;
}
