//! Tabs on devices that leave and return, and their students' decisions.

use serde_json::json;

use crate::{
    ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    support::{Browser, Relay, assert_accessible, robot, skipped, wait_for},
};

/// A cheap projector.
const PROJECTOR: (u32, u32) = (1280, 720);

/// A ticket works once, so the page must keep the newest one each time.
#[tokio::test]
async fn a_tab_that_is_reloaded_again_and_again_stays_one_client() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === 'cat' || null").await;
    tab.click("join").await;
    tab.attribute_is("connection", "data-state", "online").await;
    let first = relay.client("Ada").await["id"].clone();
    for _ in 0..3 {
        tab.reload().await;
        tab.click("rejoin").await;
        tab.attribute_is("connection", "data-state", "online").await;
        assert_eq!(relay.client("Ada").await["id"], first);
    }
    let clients = relay.room().await["clients"].clone();
    assert_eq!(clients.as_array().map(Vec::len), Some(1), "{clients}");
}

/// A student who typed the address has no key and joins with the PIN on the projector; the rest of the address is kept
/// until then.
#[tokio::test]
async fn a_student_comes_in_by_the_pin() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let typed = link.split('#').next().expect("an address");
    let tab = browser.open(typed, PHONE).await;
    tab.fill("pin", "12 34").await;
    tab.click("pin-enter").await;
    assert!(tab.text("pin-problem").await.contains("six digits"));
    tab.screenshot("student-pin").await;
    assert!(!tab.shows("join").await);

    let pin = relay.room().await["pin"].as_str().expect("a PIN").to_owned();
    let digits: u32 = pin.parse().expect("digits");
    let wrong = format!("{:06}", (digits + 1) % 1_000_000);
    tab.fill("pin", &wrong).await;
    tab.click("pin-enter").await;
    tab.wait_for("document.querySelector('[data-testid=\"pin-problem\"]')?.innerText.includes('not the PIN') || null")
        .await;
    tab.fill("pin", &format!("{} {}", &pin[..3], &pin[3..])).await;
    tab.click("pin-enter").await;
    relay.client("Ada").await;
    assert!(!tab.shows("pin").await);
}

/// A student's own picture is not shown without consent, and the student can change the answer at any time.
#[tokio::test]
async fn a_student_says_whether_the_class_may_see_what_leaks() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let sample = browser.open(&relay.student_link("localhost", "nickname=Sam&image=cat&join=1"), PHONE).await;
    assert_eq!(relay.client("Sam").await["may_show"], true);
    assert_eq!(relay.client("Sam").await["lends_update"], true);
    assert!(!sample.shows("may-show").await);

    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada"), PHONE).await;
    tab.choose_file("file", &photograph("cat.png")).await;
    tab.wait_for("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === 'cat.png' || null").await;
    tab.screenshot("student-consent").await;
    tab.click("join").await;
    assert_eq!(relay.client("Ada").await["may_show"], false);
    for agrees in [true, false] {
        tab.click("may-show").await;
        wait_for("the student's answer", || async { (relay.client("Ada").await["may_show"] == agrees).then_some(()) })
            .await;
    }
    // A reload asks nothing again and changes nothing.
    tab.click("may-show").await;
    wait_for("the student's consent", || async { (relay.client("Ada").await["may_show"] == true).then_some(()) }).await;
    assert_eq!(relay.client("Ada").await["lends_update"], false);
    tab.click("may-lend").await;
    wait_for("the loan", || async { (relay.client("Ada").await["lends_update"] == true).then_some(()) }).await;
    tab.reload().await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert_eq!(relay.client("Ada").await["may_show"], true);
    assert_eq!(relay.client("Ada").await["lends_update"], true);
}

/// A tab in the background is marked as away on the roster and releases its wake lock; in the foreground both are
/// undone.
#[tokio::test]
async fn a_tab_out_of_sight_is_away_and_lets_the_screen_go() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === 'cat' || null").await;
    // A headless browser has no screen, so the test counts the locks.
    tab.wait_for(
        "(window.locks = 0, Object.defineProperty(navigator, 'wakeLock', { value: { request: async () => \
         (window.locks += 1, { release: async () => { window.locks -= 1 } }) } }), true)",
    )
    .await;
    tab.click("join").await;
    tab.wait_for("window.locks === 1 || null").await;
    for (is_hidden, state, locks) in [(true, "away", 0), (false, "joined", 1)] {
        tab.hide(is_hidden).await;
        wait_for(state, || async { (relay.client("Ada").await["state"] == state).then_some(()) }).await;
        // In Firefox the page cannot call functions that a test has defined.
        if tab.has_devtools() {
            tab.wait_for(&format!("window.locks === {locks} || null")).await;
        }
    }
}

/// A browser that cannot compute in WebAssembly, or fails to start the page, would show the loading line for ever.
#[tokio::test]
async fn a_browser_without_webassembly_hears_what_is_missing() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let elsewhere = format!("http://localhost:{}/healthz", relay.http_port());
    let tab = browser.open(&elsewhere, PHONE).await;
    if !tab.has_devtools() {
        return skipped("only Chromium can be told to do without WebAssembly");
    }
    let said = async || {
        let said =
            "(unable => unable?.checkVisibility() && unable.innerText || null)(document.getElementById('unable'))";
        let said = tab.wait_for(said).await;
        assert_eq!(tab.run("return document.querySelector('.opening').checkVisibility()").await, false);
        said.as_str().expect("text").to_owned()
    };
    // Something newer than SIMD, which the test for SIMD does not find.
    tab.on_every_page(
        "WebAssembly.instantiate = WebAssembly.instantiateStreaming = async () => { throw new WebAssembly.CompileError('externref') }",
    )
    .await;
    tab.run(&format!("location.href = {:?}", relay.student_link("localhost", ""))).await;
    let stopped = said().await;
    assert!(stopped.contains("did not start") && stopped.contains("externref"), "{stopped}");
    for lack in [
        "WebAssembly.validate = () => false",
        "delete window.WebAssembly",
        "delete HTMLScriptElement.prototype.noModule",
    ] {
        tab.on_every_page(lack).await;
        tab.reload().await;
        let lacks = said().await;
        assert!(lacks.contains("This browser (Chrome 1") && lacks.contains("no WebAssembly"), "{lack}: {lacks}");
        assert!(lacks.contains("iPadOS 16.4") && lacks.contains("Safari"), "{lack}: {lacks}");
        assert!(!lacks.contains("did not start"), "{lack}: {lacks}");
    }
    assert_accessible(&tab, "a browser without WebAssembly").await;
    tab.screenshot("student-unable").await;
}

/// The teacher renames a client, and removes it from the room.
#[tokio::test]
async fn a_tab_hears_what_the_teacher_does_with_it() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat"), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === 'cat' || null").await;
    tab.click("join").await;
    let id = relay.client("Ada").await["id"].clone();
    relay.control(json!({ "do": "rename", "client": id, "nickname": "Grace" })).await;
    tab.wait_for("document.querySelector('[data-testid=\"room-nickname\"]')?.innerText === 'Grace' || null").await;
    tab.reload().await;
    tab.click("rejoin").await;
    assert_eq!(relay.client("Grace").await["id"], id);
    tab.attribute_is("connection", "data-state", "online").await;
    relay.control(json!({ "do": "remove", "client": id })).await;
    tab.attribute_is("connection", "data-state", "closed").await;
    assert!(tab.shows("closed").await);
}

/// On 720 lines, minus the browser's own and with the controls: what leaks is visible without scrolling.
#[tokio::test]
async fn a_cheap_projector_shows_what_leaks() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let _robot = robot(&relay, "Robot");
    relay.client("Robot").await;
    let teacher = browser.open(&relay.teacher_link(), PROJECTOR).await;
    let picture = "document.querySelector('[data-testid=\"reconstruction\"]')";
    teacher.wait_for(&format!("{picture}?.complete || null")).await;
    teacher.screenshot("projector-720").await;
    let place = format!("(box => [box.top, box.bottom, box.width, innerHeight])({picture}.getBoundingClientRect())");
    let place = teacher.wait_for(&place).await;
    let number = |at: usize| place[at].as_f64().expect("a number");
    assert!(number(0) >= 0.0 && number(1) <= number(3), "top, bottom, width, lines: {place}");
    // It must be large enough to be recognised from the back row.
    assert!(number(2) >= 0.4 * number(3), "top, bottom, width, lines: {place}");
    let pin = relay.room().await["pin"].clone();
    assert_eq!(pin, teacher.attribute("pin", "data-pin").await);
}

/// Each phone finds its update in the round's list, and shows the same four words as the wall. A switch of the teacher's, or
/// one's own, makes a device careful, also after a reload.
#[tokio::test]
async fn phones_and_wall_show_the_same_four_words() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--deadline", "120"]).await;
    let browser = Browser::start().await;
    let ada = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1"), PHONE).await;
    let wall = browser.open(&relay.beamer_link(), PROJECTOR).await;
    let _robot = robot(&relay, "Robot");
    for nickname in ["Ada", "Robot"] {
        relay.client(nickname).await;
    }
    ada.click("be-careful").await;
    assert!(ada.shows("refuse").await);
    ada.reload().await;
    ada.wait_for("document.querySelector('[data-testid=\"be-careful\"]')?.checked || null").await;
    ada.attribute_is("connection", "data-state", "online").await;
    relay.client("Ada").await;
    assert!(!wall.shows("stage-listed").await);
    relay.control(json!({ "do": "careful", "on": true })).await;
    relay.control(json!({ "do": "one_round" })).await;
    ada.attribute_is("own-listed", "data-listed", "true").await;
    let words = ada.text("four-words").await;
    assert_eq!(words.split(' ').count(), 4, "{words}");
    wall.wait_for(&format!(
        "document.querySelector('[data-testid=\"stage-listed\"]')?.innerText.includes('{words}') || null"
    ))
    .await;
    assert_eq!(relay.room().await["listed"]["words"], words);
    assert!(!ada.shows("doubts").await);
    assert_accessible(&ada, "a careful student").await;
    ada.screenshot("student-careful").await;
}
