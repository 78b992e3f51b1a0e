//! Browsers that do something else with the pages than show them: translate them, keep things from them, or open them
//! twice.

use serde_json::json;

use crate::{
    ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    languages::{choose, says},
    stage::{PROJECTOR, arrive},
    support::{Browser, Line, Relay, Shield, Tab, assert_accessible, robot, skipped},
    volunteers::{ask, beat, fits, has_picture, poll},
};

/// Does what Chrome's translator does: puts an element with a translation in the place of each text, also of those that
/// come later. On the event `untranslate` it puts the texts back.
const TRANSLATOR: &str = r"
  const texts = new Map();
  const translate = text => {
    const isMine = text.parentElement?.closest('font, script, style, [translate=no]');
    if (!text.isConnected || isMine || !text.data.trim()) return;
    const [outer, inner] = [0, 1].map(() => document.createElement('font'));
    inner.textContent = text.data.replace(/\S(.*\S)?/s, said => `«${said}»`);
    outer.append(inner);
    texts.set(outer, text);
    text.replaceWith(outer);
  };
  const below = node => {
    if (node.nodeType === Node.TEXT_NODE) return translate(node);
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    found.forEach(translate);
  };
  document.documentElement.classList.add('translated-ltr');
  document.documentElement.lang = 'fr';
  below(document.body);
  const watcher = new MutationObserver(records => records.forEach(record => record.addedNodes.forEach(below)));
  watcher.observe(document.body, { childList: true, subtree: true });
  document.addEventListener('untranslate', () => {
    watcher.disconnect();
    texts.forEach((text, outer) => outer.isConnected && outer.replaceWith(text));
  });";

/// Waits until the element that matches this selector has this text.
async fn reads(tab: &Tab, selector: &str, text: &str) {
    let look = format!("document.querySelector({selector:?})?.innerText.trim() === {text:?} || null");
    tab.wait_for(&look).await;
}

/// Asserts that, once the translator has put its texts back, the page is what it builds afresh in another language and
/// back: nothing is frozen, missing or there twice.
async fn assert_untranslated(tab: &Tab, part: &str) {
    let text = format!("document.querySelector({part:?}).innerText");
    let translated = tab.wait_for(&text).await;
    assert!(translated.as_str().is_some_and(|text| text.contains('«')), "{translated}");
    tab.run("document.dispatchEvent(new Event('untranslate'))").await;
    tab.wait_for(&format!("!{text}.includes('«') || null")).await;
    let before = tab.wait_for(&text).await;
    for language in ["de", "en"] {
        choose(tab, language).await;
        tab.wait_for(&format!("document.documentElement.lang === '{language}' || null")).await;
    }
    assert_eq!(before, tab.wait_for(&text).await);
}

/// The page goes on under a translator: each new text appears, translated, and no old one stays.
#[tokio::test]
async fn a_translated_phone_goes_on() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    has_picture(&tab, "cat").await;
    tab.run(TRANSLATOR).await;
    const STATUS: &str = "[data-testid=connection] p";
    reads(&tab, STATUS, "«○ Ready to join»").await;
    tab.click("join").await;
    relay.client("Ada").await;
    reads(&tab, STATUS, "«● Online. Waiting for a round»").await;
    // A name stays a name.
    reads(&tab, "[data-testid=room-nickname]", "Ada").await;
    tab.screenshot("translated-phone").await;

    beat(&relay, "mask", 2).await;
    ask(&relay, "safe", &[], Some(1)).await;
    reads(&tab, "[data-testid=question]", "«Is the picture safe now?»").await;
    reads(&tab, "[data-testid=answer]", "«Yes»").await;
    tab.click("answer").await;
    poll(&relay, "a vote", |poll| poll["voters"] == 1).await;
    const VOTED: &str = "«Your answer: Yes. You can change it until the teacher shows the result.»";
    reads(&tab, "[data-testid=voted]", VOTED).await;
    relay.control(json!({ "do": "close_poll" })).await;
    for round in 1..=2 {
        relay.control(json!({ "do": "one_round" })).await;
        reads(&tab, STATUS, &format!("«● Round {round}: numbers sent»")).await;
    }
    tab.text("device-reason").await;
    // All results of the last round have arrived, so that nothing changes by itself.
    tab.wait_for("!document.querySelector('.student').innerText.includes('round 1') || null").await;
    assert_untranslated(&tab, ".student").await;
}

#[tokio::test]
async fn a_translated_stage_goes_on() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    relay.client("robot 2").await;
    let stage = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &stage, 0, 0).await;
    stage.run(TRANSLATOR).await;
    reads(&stage, "[data-testid=headline]", "«Join with your phone»").await;
    for (scene, beat) in [(1, 0), (1, 1), (1, 2)] {
        stage.press(' ').await;
        arrive(&relay, &stage, scene, beat).await;
    }
    reads(&stage, "[data-testid=headline]", "«Your picture stays. Numbers leave.»").await;
    stage.press('\u{e012}').await;
    arrive(&relay, &stage, 1, 0).await;
    stage.press('\u{e012}').await;
    arrive(&relay, &stage, 0, 0).await;
    reads(&stage, "[data-testid=headline]", "«Join with your phone»").await;
    stage.screenshot("translated-stage").await;
}

/// A translator that makes German: the page has better German itself.
#[tokio::test]
async fn a_translator_into_a_language_of_the_pages_is_not_needed() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    has_picture(&tab, "cat").await;
    tab.run(&TRANSLATOR.replace("'fr'", "'de'")).await;
    says(&tab, "de", "join", "Mitmachen").await;
    assert_eq!(tab.run("return document.documentElement.translate").await, false);
    tab.reload().await;
    says(&tab, "de", "join", "Mitmachen").await;
}

/// Without cookies no PIN helps, and the page does not ask for one.
#[tokio::test]
async fn a_browser_without_cookies_hears_of_it_and_is_asked_for_no_pin() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    for browser in [Some(Browser::start().await), Browser::firefox().await].into_iter().flatten() {
        let Some(tab) = browser.open_behind(&link, PHONE, Shield::Cookies).await else { continue };
        assert!(tab.text("no-relay").await.contains("keeps no cookies"), "{}", browser.name());
        assert!(!tab.shows("pin").await && !tab.shows("join").await);
        assert_accessible(&tab, "a browser without cookies").await;
        tab.screenshot("student-no-cookies").await;
        drop(tab);

        // Who types the address is asked for the PIN, once.
        let (address, _) = link.split_once('#').expect("a link with the room’s key");
        let Some(tab) = browser.open_behind(address, PHONE, Shield::Cookies).await else { continue };
        tab.fill("pin", relay.room().await["pin"].as_str().expect("a PIN")).await;
        tab.click("pin-enter").await;
        tab.wait_for("document.querySelector('[data-testid=\"no-relay\"]')?.innerText.includes('no cookies') || null")
            .await;
        assert!(!tab.shows("pin").await);
        drop(tab);

        let Some(stage) = browser.open_behind(&relay.stage_link(), PROJECTOR, Shield::Cookies).await else { continue };
        stage
            .wait_for(
                "document.querySelector('[data-testid=\"session-problem\"]')?.innerText.includes('no cookies') || null",
            )
            .await;
    }
}

/// Without storage a student can take part, and hears what a reload costs.
#[tokio::test]
async fn a_browser_without_storage_joins_and_hears_what_a_reload_costs() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let Some(browser) = Browser::firefox().await else { return };
    let relay = Relay::start(&["--start"]).await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu");
    let Some(tab) = browser.open_behind(&link, PHONE, Shield::Storage).await else { return };
    has_picture(&tab, "cat").await;
    assert!(tab.shows("no-storage").await);
    fits(&tab, "a form without storage").await;
    tab.click("join").await;
    relay.client("Ada").await;
    relay.rounds_with(1).await;
}

/// Firefox that resists fingerprinting gives pages noise in place of pictures.
#[tokio::test]
async fn noise_from_a_canvas_is_noticed_and_never_trained_on() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let Some(browser) = Browser::firefox().await else { return };
    let relay = Relay::start(&["--start"]).await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu");
    let Some(tab) = browser.open_behind(&link, PHONE, Shield::Pixels).await else { return };
    refuses(&relay, &tab).await;
}

/// Brave changes the lowest bits of a few pixels. The page then reads them from a video frame, where there is one.
#[tokio::test]
async fn a_few_false_bits_from_a_canvas_are_noticed_and_passed_by() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let browser = Browser::start().await;
    let relay = Relay::start(&["--start"]).await;
    let tab = browser.open(&format!("http://localhost:{}/healthz", relay.http_port()), PHONE).await;
    if !tab.has_devtools() {
        return skipped("only Chromium can be told to change what a page reads");
    }
    tab.on_every_page(
        "const read = CanvasRenderingContext2D.prototype.getImageData;
         CanvasRenderingContext2D.prototype.getImageData = function (...place) {
           const pixels = read.apply(this, place);
           for (let at = 0; at < pixels.data.length; at += 4001) pixels.data[at] ^= 64;
           return pixels;
         };
         window.readTruly = (canvas, ...place) => read.apply(canvas.getContext('2d'), place).data;",
    )
    .await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu");
    tab.run(&format!("location.href = {link:?}")).await;
    has_picture(&tab, "cat").await;
    // The largest difference between the picture on the page and the file.
    let difference = tab
        .run_async(
            "const done = arguments[arguments.length - 1];
             (async () => {
               const bitmap = await createImageBitmap(await (await fetch('/samples/cat.png')).blob());
               const canvas = Object.assign(document.createElement('canvas'), { width: 256, height: 256 });
               const context = canvas.getContext('2d');
               context.imageSmoothingQuality = 'high';
               const side = Math.min(bitmap.width, bitmap.height);
               const [left, top] = [bitmap.width, bitmap.height].map(length => (length - side) / 2);
               context.drawImage(bitmap, left, top, side, side, 0, 0, 256, 256);
               const [file, page] = [canvas, document.querySelector('.preview canvas')]
                 .map(canvas => window.readTruly(canvas, 0, 0, 256, 256));
               done(file.reduce((most, value, at) => Math.max(most, Math.abs(value - page[at])), 0));
             })()",
        )
        .await;
    assert!(difference.as_u64().is_some_and(|most| most < 16), "{difference}");
    tab.click("join").await;
    relay.rounds_with(1).await;
    tab.reload().await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;

    tab.click("leave").await;
    tab.on_every_page("delete window.VideoFrame").await;
    tab.run(&format!("location.href = {link:?}; location.reload()")).await;
    refuses(&relay, &tab).await;
}

/// Neither a sample nor a file of one's own is taken, and nobody joins with it.
async fn refuses(relay: &Relay, tab: &Tab) {
    assert!(tab.text("picture-problem").await.contains("other pixels"));
    tab.choose_file("file", &photograph("astronaut.png")).await;
    let said = "document.querySelector('[data-testid=\"picture-problem\"]')?.innerText";
    tab.wait_for(&format!("{said}.includes('“astronaut.png”') && {said}.includes('other pixels') || null")).await;
    tab.click("join").await;
    // Who joins later is there first.
    let _robot = robot(relay, "Robot");
    relay.client("Robot").await;
    relay.rounds_with(1).await;
    let present = |client: &&serde_json::Value| client["state"] != "gone";
    let room = relay.room().await;
    let names: Vec<_> = room["clients"].as_array().expect("clients").iter().filter(present).collect();
    assert_eq!(names.iter().map(|client| &client["nickname"]).collect::<Vec<_>>(), ["Robot"], "{room:#}");
    tab.screenshot("student-false-pixels").await;
}

/// Two tabs with one ticket: the later one goes on, the earlier one says so, and they leave each other in peace.
#[tokio::test]
async fn a_duplicated_tab_goes_on_in_place_of_the_first() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu"), PHONE).await;
    has_picture(&tab, "cat").await;
    tab.click("join").await;
    let id = relay.client("Ada").await["id"].clone();
    tab.attribute_is("connection", "data-state", "online").await;
    let first = tab.duplicate().await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;
    tab.turn_to(first).await;
    tab.attribute_is("connection", "data-state", "closed").await;
    assert!(tab.text("closed").await.contains("You can close it"));
    tab.screenshot("phone-taken-over").await;
    // Neither comes back by itself when it is looked at, or when its network returns.
    for event in ["new Event('online')", "new Event('pageshow')"] {
        tab.run(&format!("dispatchEvent({event})")).await;
    }
    relay.control(json!({ "do": "start" })).await;
    relay.rounds_with(1).await;
    relay.rounds(2).await;
    tab.attribute_is("connection", "data-state", "closed").await;
    let room = relay.room().await;
    assert_eq!(room["clients"].as_array().map(Vec::len), Some(1), "{room:#}");
    assert_eq!(relay.client("Ada").await["id"], id);
}

/// A page that loads and gets no socket says what to do, until it gets one.
#[tokio::test]
async fn a_refused_socket_is_told_from_a_lost_connection() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let line = Line::to(relay.http_port()).await;
    line.refuse_sockets(true);
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = browser.open(&line.through(&link), PHONE).await;
    tab.wait_for("document.querySelector('[data-testid=\"no-socket\"]')?.checkVisibility() || null").await;
    assert!(tab.text("no-socket").await.contains("WebSockets"));
    assert_accessible(&tab, "a refused socket").await;
    fits(&tab, "a refused socket").await;
    tab.screenshot("phone-no-socket").await;
    line.refuse_sockets(false);
    relay.client("Ada").await;
    tab.wait_for("!document.querySelector('[data-testid=\"no-socket\"]')?.checkVisibility() || null").await;
}

/// Names with joiners arrive as they were typed, and numbers stay on their side of a name from right to left.
#[tokio::test]
async fn names_of_every_script_are_shown_as_they_are_written() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "1"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let names = ["علی\u{200c}رضا", "👨\u{200d}👩\u{200d}👧 ශ්\u{200d}රී"];
    let mut tabs = Vec::new();
    for name in names {
        // Chromium's driver types no emoji.
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let link = relay.student_link("localhost", &format!("nickname={encoded}&image=cat&device=cpu&join=1"));
        let tab = browser.open(&link, PHONE).await;
        relay.client(name).await;
        reads(&tab, "[data-testid=room-nickname]", name).await;
        tabs.push(tab);
    }
    arrive(&relay, &teacher, 0, 0).await;
    for name in names {
        let shown = format!(
            "[...document.querySelectorAll('[data-testid=\"name\"] span')].some(it => it.innerText.includes({name:?}))"
        );
        teacher.wait_for(&format!("{shown} || null")).await;
    }
    teacher.screenshot("names").await;

    ask(&relay, "whose", &[names[0], "robot 1"], Some(0)).await;
    tabs[1].click("answer").await;
    poll(&relay, "a vote", |poll| poll["voters"] == 1).await;
    // `A · name`: the letter stands before the name, and a number after it stays there.
    let order = "(answer => {
        const range = document.createRange(), text = answer.firstChild;
        const left = at => (range.setStart(text, at), range.setEnd(text, at + 1), range.getBoundingClientRect().left);
        text.data += ' 12';
        return left(0) < left(5) && left(5) < left(text.data.length - 1);
    })(document.querySelector('[data-testid=answer]'))";
    assert_eq!(tabs[1].wait_for(order).await, true);
}
