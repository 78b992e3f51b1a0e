//! The pages for those who have no mouse, larger letters, other colours, or no wish to see things move.

use serde_json::json;

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    replay,
    stage::{BEATS, PROJECTOR, arrive, assert_fits},
    support::{Browser, Line, Relay, Tab, assert_accessible, skipped, wait_for},
    volunteers::{fits, has_picture, poll, scene},
};

const ENTER: char = '\u{e007}';
const SPACE: char = ' ';
const LEFT: char = '\u{e012}';
const RIGHT: char = '\u{e014}';
const HOME: char = '\u{e011}';

/// Of five seconds, from one scene of a recorded lesson to the next.
const MOST_STEPS: usize = 400;

/// Text that is cut off where it stands, unless it is for screen readers alone.
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

/// Twice the size in which browsers write.
const LARGE: u32 = 32;

async fn assert_reads(tab: &Tab, place: &str) {
    fits(tab, place).await;
    assert_eq!(tab.wait_for(CUT).await, "nothing", "{place}");
}

/// Goes to what has this test id by Tab, and presses a key on it.
async fn press_on(tab: &Tab, id: &str, key: char) {
    tab.tab_to(id).await;
    tab.press(key).await;
}

/// A student without a mouse comes in, answers, shows a picture, takes it back and leaves; and nothing on the way is in the way
/// of a screen reader.
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
    assert_accessible(&tab, "the form with a picture of one’s own").await;
    if !tab.has_devtools() {
        // `document.hasFocus()` stays false there, and with it `:focus-visible`.
        return skipped(
            "the phone's room by keyboard: headless Firefox does not come back into a page that Tab has left",
        );
    }
    press_on(&tab, "join", ENTER).await;
    relay.client("Ada").await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert_accessible(&tab, "the room").await;

    scene(&relay, "guess").await;
    let question = json!({ "question": "Who is this?", "answers": { "choice": ["Bob", "Ada"] }, "correct": 1 });
    relay.control(json!({ "do": "ask_poll", "poll": question })).await;
    press_on(&tab, "answer", SPACE).await;
    assert!(tab.text("voted").await.contains("Bob"));
    assert_accessible(&tab, "a choice").await;
    relay.control(json!({ "do": "close_poll" })).await;
    assert!(tab.text("judged").await.contains("Ada"));
    assert_accessible(&tab, "a result").await;

    let number = json!({ "number": { "least": 0, "most": 60, "unit": "seconds" } });
    let question = json!({ "question": "How long will it take?", "answers": number, "correct": null });
    relay.control(json!({ "do": "ask_poll", "poll": question })).await;
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

/// The camera shows what it sees until a picture is taken of it, which then is one's own: the class is not shown it unasked.
#[tokio::test]
async fn a_camera_takes_the_picture() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&device=cpu"), PHONE).await;
    press_on(&tab, "camera-button", ENTER).await;
    tab.wait_for("document.querySelector('.camera video')?.videoWidth > 0 || null").await;
    // The button is below the picture and in sight, and the key that opened the camera takes the picture.
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

/// A phone of which two rounds have heard nothing sits out, says so to everybody, and is back when its student asks for it.
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
    // An answer that was late brings a phone back as well: it must not come before the student has asked.
    line.hold(false);
    relay.rounds_with(2).await;
    assert!(!tab.shows("sitting-out").await);
}

/// Letters of twice the size: everything is still there, whole and within the width.
#[tokio::test]
async fn letters_grow_to_twice_their_size() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--start", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    if !tab.has_devtools() {
        return skipped("Chromium alone can be told the size of its letters");
    }
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
    let question = json!({ "question": "Who is this?", "answers": { "choice": ["B · lucky otter", "A · magnificent hippopotamus"] }, "correct": 1 });
    relay.control(json!({ "do": "ask_poll", "poll": question })).await;
    tab.text("question").await;
    assert_reads(&tab, "a question").await;
    relay.control(json!({ "do": "close_poll" })).await;
    tab.text("judged").await;
    assert_reads(&tab, "a result").await;

    let teacher = browser.open(&relay.teacher_link(), DESKTOP).await;
    teacher.set_letters(LARGE).await;
    teacher.attribute("card", "data-ssim").await;
    assert_reads(&teacher, "the expert view").await;
    teacher.screenshot("expert-large").await;
}

/// Whoever asks for less motion sees none, and the same in the end.
#[tokio::test]
async fn nothing_moves_for_those_who_ask_for_that() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    if !teacher.has_devtools() {
        return skipped("Chromium alone can be told what its user likes");
    }
    relay.client("robot 1").await;
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

/// A recorded lesson has no relay to ask, and no other rules.
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
    for scene in 1..BEATS.len() {
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
