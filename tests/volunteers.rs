//! The student's page in a lesson: two taps to the first update, votes, volunteers and their pictures, and leaving.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use unmask_wire::{ClientMessage, ORIGINAL_VALUES};

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE,
    access::assert_reads,
    attackers::photograph,
    stage::{PROJECTOR, assert_fits},
    support::{Browser, Line, Relay, Tab, assert_accessible, robot, wait_for},
};

/// Longest time that a student may see "online" after the relay fell silent, plus time for a slow machine.
const NOTICED: Duration = Duration::from_secs(25 + 2);

/// Asserts that nothing extends beyond the page's right edge.
pub async fn fits(tab: &Tab, what: &str) {
    let widths = tab.wait_for("[document.documentElement.scrollWidth, innerWidth]").await;
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{what}: [width, window] is {widths}");
}

/// Waits until the sample or file with this name is the picture.
pub async fn has_picture(tab: &Tab, name: &str) {
    tab.wait_for(&format!("document.querySelector('[data-testid=\"picture-name\"]')?.innerText === '{name}' || null"))
        .await;
}

/// Waits until the error with this test id is gone.
async fn no_problem(tab: &Tab, id: &str) {
    tab.wait_for(&format!("document.querySelector('[data-testid=\"{id}\"]').innerText === '' || null")).await;
}

pub async fn scene(relay: &Relay, scene: &str) {
    beat(relay, scene, 0).await;
}

pub async fn beat(relay: &Relay, scene: &str, beat: u8) {
    relay.control(json!({ "do": "lesson", "scene": scene, "beat": beat })).await;
}

/// Asks the class a question. The answers to a question about a picture are the clients with these nicknames.
pub async fn ask(relay: &Relay, question: &str, suspects: &[&str], correct: Option<u16>) {
    let mut clients = Vec::new();
    for nickname in suspects {
        clients.push(json!({ "client": relay.client(nickname).await["id"], "nickname": "" }));
    }
    let poll = json!({ "question": question, "suspects": clients, "correct": correct });
    relay.control(json!({ "do": "ask_poll", "poll": poll })).await;
}

/// Waits until `is` holds for the current poll, and returns the poll.
pub async fn poll(relay: &Relay, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, || async {
        let poll = relay.room().await["lesson"]["poll"].clone();
        is(&poll).then_some(poll)
    })
    .await
}

/// Name and picture are proposed, so that a student needs only one more tap after opening the link; the page is then
/// scrolled to the top.
#[tokio::test]
async fn two_taps_lead_to_the_first_update() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "device=cpu"), PHONE).await;
    tab.wait_for("document.querySelector('.thumb[aria-pressed=\"true\"]')").await;
    if browser.is_narrow_enough() {
        assert_eq!(tab.wait_for("[innerWidth, innerHeight]").await, json!([PHONE.0, PHONE.1]));
    }
    fits(&tab, "the form").await;
    // Without scrolling, and with room for a phone browser's own controls. Firefox's windows cannot be as narrow as a
    // phone, and its pictures are larger.
    if browser.is_narrow_enough() {
        let bottom = "document.querySelector('[data-testid=\"join\"]').getBoundingClientRect().bottom";
        assert!(tab.wait_for(bottom).await.as_f64() <= Some(700.0), "{}", tab.wait_for(bottom).await);
    }
    tab.screenshot("phone-join").await;
    tab.click("join").await;
    relay.rounds_with(1).await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert!(!tab.text("room-nickname").await.is_empty());
    tab.wait_for("scrollY === 0 || null").await;
    tab.screenshot("phone-lobby").await;
    fits(&tab, "the room").await;
    assert!(!tab.shows("device").await);

    // The content of Details exists, and Details stay open after a reload.
    tab.text("device-reason").await;
    fits(&tab, "the room with its details").await;
    tab.reload().await;
    tab.click("rejoin").await;
    tab.attribute_is("connection", "data-state", "online").await;
    assert!(tab.shows("device").await);
    tab.wait_for("(document.documentElement.style.fontSize = '200%', true)").await;
    fits(&tab, "the room in letters of twice the size").await;
    tab.screenshot("phone-large").await;
}

/// The class is asked. Answers can be changed until the question is closed; then everybody sees the result and their
/// own answer.
#[tokio::test]
async fn a_student_votes_and_sees_the_result() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = browser.open(&link, PHONE).await;
    relay.client("Ada").await;
    scene(&relay, "promise").await;
    assert!(!tab.text("watch").await.is_empty());
    beat(&relay, "mask", 2).await;
    let names = ["Yes", "No"];
    ask(&relay, "safe", &[], Some(1)).await;
    assert_eq!(tab.text("question").await, "Is the picture safe now?");
    tab.screenshot("phone-question").await;
    fits(&tab, "a choice").await;
    let choose = async |place: usize| {
        let button = format!("document.querySelector('[data-testid=\"answer\"][data-answer=\"{place}\"]')");
        // One tap: a second tap is a second vote, which may arrive after the question is closed.
        tab.wait_for(&format!("({button} && !{button}.disabled) || null")).await;
        tab.run(&format!("{button}.click()")).await;
        tab.wait_for(&format!("{button}?.getAttribute('aria-pressed') === 'true' || null")).await;
        assert!(tab.text("voted").await.contains(names[place]));
    };
    choose(0).await;
    poll(&relay, "a vote", |poll| poll["voters"] == 1).await;
    choose(1).await;
    // Messages of a tab arrive in order: when the room knows that it is hidden, it has the vote.
    for (is_hidden, state) in [(true, "away"), (false, "joined")] {
        tab.hide(is_hidden).await;
        wait_for(state, || async { (relay.client("Ada").await["state"] == state).then_some(()) }).await;
    }
    relay.control(json!({ "do": "close_poll" })).await;
    let closed = poll(&relay, "the votes", |poll| poll["is_open"] == false).await;
    assert_eq!(closed["votes"], json!([1]));
    assert_eq!(tab.text("judged").await, "You said No.");
    beat(&relay, "mask", 3).await;
    tab.wait_for("document.querySelector('[data-testid=\"judged\"]')?.innerText.includes('right: No') || null").await;
    let own =
        "[...document.querySelectorAll('[data-testid=\"tally\"]')].map(row => [row.dataset.votes, row.dataset.own])";
    assert_eq!(tab.wait_for(own).await, json!([["0", "false"], ["1", "true"]]));
    assert!(!tab.shows("news").await, "{}", tab.text("news").await);
    tab.screenshot("phone-result").await;
    fits(&tab, "a result").await;

    scene(&relay, "patience").await;
    ask(&relay, "seconds", &[], None).await;
    tab.click("guess-more").await;
    assert_eq!(tab.text("guess").await, "31 seconds");
    tab.screenshot("phone-guess").await;
    fits(&tab, "a number").await;
    tab.click("guess-send").await;
    tab.text("voted").await;
    poll(&relay, "a guess", |poll| poll["voters"] == 1).await;
    relay.control(json!({ "do": "close_poll" })).await;
    let closed = poll(&relay, "the guesses", |poll| poll["is_open"] == false).await;
    assert_eq!(closed["votes"], json!([31]));
    assert!(tab.text("judged").await.contains("31 seconds"));
}

/// How many values each message from this line has that is no update, without those that have none.
fn values_beside_updates(line: &Line) -> Vec<usize> {
    let (updates, others): (Vec<_>, Vec<_>) =
        line.messages().into_iter().partition(|(message, _)| matches!(message, ClientMessage::Update { .. }));
    assert!(!updates.is_empty(), "no update among {} messages", others.len());
    others.into_iter().map(|(_, values)| values.len()).filter(|count| *count > 0).collect()
}

/// Every student sees what leaks of their own picture. The class sees it, and the picture itself, only from volunteers,
/// and only as long as they allow it. Until then neither leaves the tab.
#[tokio::test]
async fn a_volunteer_shows_a_picture_and_takes_it_back() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start", "--seed", "7"]).await;
    let line = Line::to(relay.http_port()).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&device=cpu");
    let tab = browser.open(&line.through(&link), PHONE).await;
    tab.choose_file("file", &photograph("astronaut.png")).await;
    has_picture(&tab, "astronaut.png").await;
    tab.click("join").await;
    let id = relay.client("Ada").await["id"].clone();
    scene(&relay, "april").await;
    // Privately, without anybody's permission.
    tab.attribute("leak", "data-ssim").await;
    assert_eq!(tab.attribute("leak", "data-by").await, "tab");
    assert!(tab.text("who-sees").await.starts_with("Only you"));
    assert!(!tab.shows("show-original").await);
    tab.screenshot("phone-leak").await;
    fits(&tab, "what leaks").await;
    assert_eq!(values_beside_updates(&line), [0; 0]);

    tab.click("may-show").await;
    wait_for("the consent", || async { (relay.client("Ada").await["may_show"] == true).then_some(()) }).await;
    relay.control(json!({ "do": "target", "client": id })).await;
    assert!(relay.client("Ada").await["original"].is_null());
    tab.click("show-original").await;
    let original =
        wait_for("the picture", || async { relay.client("Ada").await["original"].as_str().map(str::to_owned) }).await;
    let sees = "document.querySelector('[data-testid=\"who-sees\"]').innerText.startsWith('The class sees') || null";
    tab.wait_for(sees).await;
    tab.screenshot("phone-shown").await;
    assert_eq!(values_beside_updates(&line), [ORIGINAL_VALUES]);
    let projector = browser.open(&relay.beamer_link(), DESKTOP).await;
    let is_there = format!("[...document.images].some(image => image.src.endsWith('{original}'))");
    projector.wait_for(&format!("{is_there} || null")).await;

    tab.click("hide-original").await;
    let begun = Instant::now();
    projector.wait_for(&format!("!{is_there} || null")).await;
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(1), "the picture was on the projector for {took:?} more");
    // Hiding and withdrawing are two messages.
    wait_for("the withdrawal", || async {
        let ada = relay.client("Ada").await;
        (ada["original"].is_null() && ada["may_show"] == false).then_some(())
    })
    .await;
    assert!(tab.text("who-sees").await.starts_with("Only you"));
    assert!(!tab.shows("hide-original").await);
    assert!(relay.room().await["attacks"].as_array().is_none_or(|cards| cards.iter().all(|card| card["client"] != id)));
}

/// Under approval the newcomer, and then the picture, waits for one tap of the teacher. The class reads that it waits.
#[tokio::test]
async fn under_approval_the_teacher_taps_for_the_newcomer_and_for_the_picture() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--approve-first", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.teacher_link(), PROJECTOR).await;
    let class = browser.open_view(&relay.beamer_link(), PROJECTOR).await;
    let link = relay.student_link("localhost", "nickname=Ada&image=astronaut&device=cpu&join=1");
    let ada = browser.open(&link, PHONE).await;
    let sees = async |words: &str| {
        let line = "document.querySelector('[data-testid=\"who-sees\"]')?.innerText";
        ada.wait_for(&format!("{line}?.includes('{words}') || null")).await;
    };
    let is = async |name: &str, field: &str, value: Value| {
        let what = format!("{field} of {name}: {value}");
        wait_for(&what, || async { (relay.client(name).await[field] == value).then_some(()) }).await;
    };
    is("Ada", "state", json!("waiting")).await;
    teacher.click("approve").await;
    is("Ada", "picture_waits", json!(true)).await;
    sees("What leaks from your picture waits").await;
    ada.click("show-original").await;
    ada.wait_for("!document.querySelector('[data-testid=\"show-original\"]')?.checkVisibility() || null").await;
    sees("Your picture waits").await;
    assert!(ada.shows("hide-original").await);
    let reads =
        "[...document.querySelectorAll('[data-testid=\"pictures-wait\"]')].find(line => line.checkVisibility())";
    let text = class.wait_for(&format!("{reads}?.innerText")).await;
    assert_eq!(text, "1 picture waits for the teacher");
    assert_fits(&class, "a picture that waits").await;
    class.screenshot("stage-picture-waits").await;

    let _bob = robot(&relay, "Bob");
    is("Bob", "state", json!("waiting")).await;
    let rows = "document.querySelectorAll('.roster [data-testid=\"client\"]').length";
    teacher.wait_for(&format!("{rows} === 2 || null")).await;
    for size in [PROJECTOR, PHONE] {
        teacher.resize(size).await;
        let wide =
            "[...document.querySelectorAll('.client span')].filter(part => part.scrollWidth > part.clientWidth + 1)";
        let wide = teacher.wait_for(&format!("{wide}.map(part => part.textContent).join() || 'nothing'")).await;
        assert_eq!(wide, "nothing", "beyond its row at {size:?}");
        assert_reads(&teacher, "a newcomer and a picture that wait").await;
        teacher.screenshot(&format!("expert-waiting-{}", size.0)).await;
    }
    teacher.click("approve").await;
    is("Bob", "picture_waits", json!(true)).await;
    teacher.click("show-picture").await;
    is("Ada", "may_show", json!(true)).await;
    sees("The class sees your picture").await;
    assert_eq!(relay.client("Bob").await["may_show"], false);
    teacher.click("show-all-pictures").await;
    is("Bob", "may_show", json!(true)).await;
    class.wait_for(&format!("!{reads} || null")).await;
}

/// A connection that is lost silently is noticed, and a student can reconnect without waiting.
#[tokio::test]
async fn a_silent_relay_is_noticed_and_tried_again_at_once() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = browser.open(&link, PHONE).await;
    tab.attribute_is("connection", "data-state", "online").await;
    let id = relay.client("Ada").await["id"].clone();
    assert!(!tab.shows("try-now").await);
    relay.freeze();
    let begun = Instant::now();
    let state = "document.querySelector('[data-testid=\"connection\"]')?.dataset.state";
    tab.wait_for(&format!("{state} !== 'online' || null")).await;
    let took = begun.elapsed();
    assert!(took <= NOTICED, "noticed after {took:?}");
    tab.wait_for(&format!("['retrying', 'connecting'].includes({state}) || null")).await;
    assert!(tab.shows("try-now").await);
    tab.screenshot("phone-lost").await;
    fits(&tab, "a lost connection").await;
    assert_accessible(&tab, "a lost connection").await;
    // Pressed while the relay is still silent: once it answers, the tab may be back before the press.
    tab.click("try-now").await;
    relay.thaw();
    tab.attribute_is("connection", "data-state", "online").await;
    assert_eq!(relay.client("Ada").await["id"], id);
    assert!(!tab.shows("try-now").await);
}

/// A student who leaves can delete all their data, on the device and in the room.
#[tokio::test]
async fn a_student_deletes_what_there_is_of_them() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let name = "Adelheid";
    let link = relay.student_link("localhost", &format!("nickname={name}&image=cat&device=cpu"));
    let tab = browser.open(&link, PHONE).await;
    has_picture(&tab, "cat").await;
    tab.click("join").await;
    relay.client(name).await;
    relay.attack("embedding", "none").await;
    scene(&relay, "debrief").await;
    tab.wait_for("document.querySelector('[data-testid=\"turn\"]')?.dataset.scene === 'debrief' || null").await;
    tab.screenshot("phone-debrief").await;
    assert!(relay.room().await.to_string().contains(name));
    tab.click("forget").await;
    tab.wait_for("document.querySelector('[data-testid=\"forgotten\"]')?.offsetParent && true").await;
    wait_for("the room to forget", || async {
        let room = relay.room().await;
        (!room.to_string().contains(name) && room["attacks"].as_array().is_none_or(Vec::is_empty)).then_some(())
    })
    .await;
    let kept = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }])";
    assert!(!tab.wait_for(kept).await.as_str().expect("text").contains(name));
    tab.wait_for(&format!("document.querySelector('[data-testid=\"nickname\"]')?.value !== '{name}' || null")).await;
}

/// Files from phones and messengers are read. A file that cannot be read shows an error beside the picture, until
/// another one works.
#[tokio::test]
async fn a_file_that_fails_says_so_at_the_picture_until_another_works() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let browser = Browser::start().await;
    let tab = browser.open(&relay.student_link("localhost", "nickname=Ada"), PHONE).await;
    tab.wait_for("document.querySelector('.thumb[aria-pressed=\"true\"]')").await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let heic = folder.path().join("IMG_1.HEIC");
    std::fs::write(&heic, b"\0\0\0\x18ftypheic\0\0\0\0mif1heic").expect("a file");
    let pictures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tab/tests/pictures").canonicalize().expect("pictures");
    for good in ["two_frames.gif", "red.avif"] {
        tab.choose_file("file", &heic.display().to_string()).await;
        assert!(tab.text("picture-problem").await.contains("screenshot"));
        let place = "document.querySelector('[data-testid=\"picture-problem\"]').closest('fieldset') \
                     .contains(document.querySelector('[data-testid=\"file\"]'))";
        assert_eq!(tab.wait_for(place).await, true);
        tab.screenshot("phone-heic").await;
        fits(&tab, "a file's error").await;
        tab.choose_file("file", &pictures.join(good).display().to_string()).await;
        has_picture(&tab, good).await;
        no_problem(&tab, "picture-problem").await;
    }
    tab.fill("nickname", " ").await;
    tab.click("join").await;
    tab.text("nickname-problem").await;
    tab.fill("nickname", "Ada").await;
    no_problem(&tab, "nickname-problem").await;
    tab.click("join").await;
    assert_eq!(relay.client("Ada").await["may_show"], false);
}
