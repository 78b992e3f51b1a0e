//! The stage, end to end: a teacher plays the lesson by keyboard, with a class or with robots.

use serde_json::{Value, json};
use unmask_lesson::{Place, Scene};

use crate::{
    ONE_AT_A_TIME, PHONE,
    attackers::photograph,
    support::{Browser, Relay, Tab, assert_accessible, wait_for},
    volunteers::{fits, has_picture, poll},
};

/// The window of a cheap projector, which a browser without a frame fills.
pub const PROJECTOR: (u32, u32) = (1280, 720);

/// Steps of each scene.
pub fn beats() -> [u64; Scene::ALL.len()] {
    Scene::ALL.map(|scene| scene.beats().len() as u64)
}

/// The students of a class and their sample photographs; the first one has her own picture.
const STUDENTS: [(&str, Option<&str>); 3] = [("Ada", None), ("Bob", Some("hubble")), ("Cleo", Some("cameraman"))];

const ROBOTS: usize = 2;

/// Answers the question on a phone with the proposed value; true once the phone shows the recorded answer. A device
/// that was late twice sits out until its student asks to come back.
const VOTE: &str = r#"(() => {
  const at = id => [...document.querySelectorAll(`[data-testid="${id}"]`)].find(it => it.checkVisibility());
  if (at('voted')?.innerText) return true;
  (at('come-back') ?? at('answer') ?? at('guess-send') ?? at('guess-more'))?.click();
  return null;
})()"#;

/// True once there are this many elements.
pub fn counted(testid: &str, count: usize) -> String {
    format!("document.querySelectorAll('[data-testid=\"{testid}\"]').length == {count} || null")
}

/// Whether this step asks the class.
fn asks(scene: u64, beat: u64) -> bool {
    let place = Place { scene: Scene::ALL[scene as usize], beat: beat as u8 };
    place.question().is_some_and(|question| question.asked_at() == place.beat())
}

/// The question of a step in whose scene another one was asked before.
fn second_question(scene: u64, beat: u64) -> Option<&'static str> {
    match (scene, beat) {
        (4, 2) => Some("Is the picture safe now?"),
        (5, 2) => Some("Whose masked numbers does your phone have?"),
        _ => None,
    }
}

/// Scene and step at which the relay searches.
pub const SEARCH: (u64, u64) = (6, 1);

/// Whether the reconstruction can be recognised.
pub const FOUND: &str = "Number(document.querySelector('[data-testid=\"patience\"]')?.dataset.ssim) >= 0.6 || null";

/// Elements on the stage that do not fit or are too small for the last row: text and pictures smaller than 24 px or
/// beyond the slide's edges, messages that are missing, cut off or covered, and pictures beyond their figure or over its
/// words. Skips a screen reader's link that only shows with focus.
const MISFITS: &str = r#"(() => {
  const slide = document.querySelector('[data-testid="stage"]').getBoundingClientRect();
  const unit = slide.width / 1280;
  const found = [];
  for (const element of document.querySelectorAll('[data-testid="stage"] *')) {
    if (element.closest('.skip, title, option') || !element.checkVisibility({ visibilityProperty: true })) continue;
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own && !['IMG', 'INPUT', 'svg'].includes(element.tagName)) continue;
    const box = element.getBoundingClientRect();
    const name = `${element.tagName}.${element.className.baseVal ?? element.className}: ${element.textContent.slice(0, 40)}`;
    const drawn = element.closest('svg')?.getScreenCTM?.()?.a ?? 1;
    const size = parseFloat(getComputedStyle(element).fontSize) * drawn / unit;
    if (own && size < 23.9) found.push(`${size} px in ${name}`);
    const out = Math.max(slide.left - box.left, box.right - slide.right, slide.top - box.top, box.bottom - slide.bottom);
    if (out > 1) found.push(`${out} px outside: ${name}`);
  }
  for (const element of document.querySelectorAll('.scene, .scene *, .bar, .slide-head')) {
    const spare = element.scrollHeight - element.clientHeight;
    const isBlock = element.clientHeight > 0 && !['SPAN', 'svg', 'text', 'INPUT'].includes(element.tagName);
    if (isBlock && spare > 2 && getComputedStyle(element).overflowY !== 'visible') found.push(`${spare} px cut off in ${element.className}`);
  }
  for (const [id, least] of [['headline', 48], ['line', 24]]) {
    const text = document.querySelector(`[data-testid="${id}"]`);
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (!text.textContent.trim() || !box.width) found.push(`no ${id}`);
    if (parseFloat(getComputedStyle(text).fontSize) / unit < least - 0.1) found.push(`a small ${id}`);
    if (box.left < 0 || box.top < 0 || box.right > innerWidth || box.bottom > innerHeight) found.push(`${id} beyond the window`);
    const isAsked = document.querySelector('.veil');
    for (const part of isAsked ? [] : [0.02, 0.5, 0.98]) {
      const over = document.elementFromPoint(box.left + part * box.width, (box.top + box.bottom) / 2);
      if (over !== text) found.push(`${id} below ${over?.className}`);
    }
  }
  for (const figure of document.querySelectorAll('.scene figure')) {
    const outer = figure.getBoundingClientRect();
    const parts = [...figure.children].filter(part => part.checkVisibility()).map(part => [part, part.getBoundingClientRect()]);
    for (const [part, box] of parts) {
      const out = Math.max(outer.left - box.left, box.right - outer.right, outer.top - box.top, box.bottom - outer.bottom);
      if (out > 1) found.push(`${part.tagName} is ${out} px larger than its figure`);
      for (const [below, other] of parts) {
        const width = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const height = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (part !== below && width > 1 && height > 1) found.push(`${part.tagName} covers ${below.tagName}.${below.className}`);
      }
    }
  }
  if (document.documentElement.scrollHeight > innerHeight) found.push('the page scrolls');
  return found.join('\n') || 'nothing';
})()"#;

pub async fn assert_fits(tab: &Tab, place: &str) {
    assert_eq!(tab.wait_for(MISFITS).await, "nothing", "{place}");
}

/// True once every picture in the sum has come out of it.
pub const ALL_OF_THE_SUM: &str = "((found, members) => found >= 2 && found === members || null)\
                              (document.querySelectorAll('[data-testid=\"sum-piece\"] img').length, \
                               document.querySelectorAll('[data-testid=\"sum-member\"]').length)";

/// What the scenes on secure sums show once a round has made their sum, by scene and step.
pub const SECRET_SUMS: [((u64, u64), &str); 5] = [
    ((9, 0), "document.querySelector('[data-testid=\"masked\"] img')?.naturalWidth || null"),
    ((9, 1), "document.querySelector('[data-testid=\"mixture\"] img')?.naturalWidth || null"),
    ((11, 1), "document.querySelector('[data-testid=\"mixture\"] img')?.naturalWidth || null"),
    (
        (12, 0),
        "(([left, asked]) => left > 0 && left === asked || null)\
              (document.querySelector('[data-testid=\"sum-told\"]').innerText.match(/\\d+/g) ?? [])",
    ),
    (
        (12, 1),
        "document.querySelector('[data-testid=\"mixture\"] img')?.naturalWidth \
              && document.querySelector('[data-testid=\"sum-told\"]').innerText.match(/of (\\d+)/)?.[1] > 9 || null",
    ),
];

/// Everybody types the class's passphrase when the phone asks for it.
pub async fn type_passphrase(students: impl IntoIterator<Item = &Tab>) {
    for student in students {
        student.fill("passphrase-answer", "violet otter 1867").await;
        student.click("passphrase-send").await;
    }
}

/// Waits for what a secure sum shows, if this step shows one.
pub async fn sees_secret_sum(page: &Tab, place: (u64, u64)) {
    if let Some((_, look)) = SECRET_SUMS.iter().find(|(other, _)| *other == place) {
        page.wait_for(look).await;
    }
}

/// The room's scene and step.
pub async fn place(relay: &Relay) -> (u64, u64) {
    let lesson = relay.room().await["lesson"].clone();
    let names = [
        "lobby",
        "promise",
        "guess",
        "april",
        "mask",
        "attackers",
        "patience",
        "trade-off",
        "membership",
        "secure-sum",
        "sum",
        "dishonest",
        "checks",
        "debrief",
    ];
    let scene = names.iter().position(|name| lesson["scene"] == *name).expect("a scene");
    (scene as u64, lesson["beat"].as_u64().expect("a step"))
}

/// Waits until room and page have arrived, and confirms if the step costs rounds.
pub async fn arrive(relay: &Relay, tab: &Tab, scene: u64, beat: u64) {
    wait_for(&format!("scene {scene}, step {beat}"), || async {
        if tab.shows("loses-rounds").await {
            let asked = tab.attribute("loses-rounds", "data-rounds").await;
            assert_ne!(asked, "0");
            tab.press('\u{e007}').await;
        }
        (place(relay).await == (scene, beat)).then_some(())
    })
    .await;
    // Until the page has the room's state, it shows the lobby and keys do nothing.
    tab.attribute_is("stage", "aria-busy", "false").await;
    tab.attribute_is("stage", "data-scene", &scene.to_string()).await;
    tab.attribute_is("stage", "data-beat", &beat.to_string()).await;
}

/// A student shows the picture and takes it back, which also withdraws the consent.
async fn show_and_hide(relay: &Relay, student: &Tab, name: &str) {
    student
        .wait_for("document.querySelector('[data-testid=\"come-back\"], [data-testid=\"show-original\"]') && true")
        .await;
    if student.shows("come-back").await {
        student.click("come-back").await;
    }
    student.click("show-original").await;
    wait_for("the picture", || async { relay.client(name).await["original"].is_string().then_some(()) }).await;
    student.click("hide-original").await;
    wait_for("the consent withdrawn", || async {
        let client = relay.client(name).await;
        (client["original"].is_null() && client["may_show"] == false).then_some(())
    })
    .await;
}

/// A student joins with a sample photograph, which the class may see, or with their own picture and consent.
async fn join(relay: &Relay, browser: &Browser, name: &str, sample: Option<&str>) -> Tab {
    let sample = sample.map(|sample| format!("&image={sample}&join=1")).unwrap_or_default();
    let link = relay.student_link("localhost", &format!("nickname={name}&device=cpu{sample}"));
    let student = browser.open(&link, PHONE).await;
    if sample.is_empty() {
        student.choose_file("file", &photograph("astronaut.png")).await;
        has_picture(&student, "astronaut.png").await;
        student.click("join").await;
        relay.client(name).await;
        student.click("may-show").await;
    }
    agrees(relay, name).await;
    student
}

async fn agrees(relay: &Relay, name: &str) {
    wait_for("the consent", || async { (relay.client(name).await["may_show"] == true).then_some(()) }).await;
}

/// Space leads a class of three students and two robots through the whole lesson. No step has anything that is cut off,
/// scrolls or is too small. Everybody votes on every question, and one student withdraws consent. A reloaded page shows
/// the current step, the search of scene 6 succeeds, and axe-core finds no violation.
#[tokio::test]
async fn space_leads_a_class_through_the_whole_lesson() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7", "--attack-seconds", "5"]).await;
    let browser = Browser::start().await;
    for robot in ["robot 1", "robot 2"] {
        relay.client(robot).await;
    }
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let beamer = browser.open_view(&relay.beamer_link(), PROJECTOR).await;
    // Another window of the teacher, reloaded in every scene; it must not change the room's step.
    let restless = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let mut students = Vec::new();
    for (name, sample) in STUDENTS {
        students.push(join(&relay, &browser, name, sample).await);
    }
    for (scene, beats) in (0..).zip(beats()) {
        for beat in 0..beats {
            let place = format!("scene {scene}, step {beat}");
            if (scene, beat) != (0, 0) {
                teacher.press(' ').await;
            }
            arrive(&relay, &teacher, scene, beat).await;
            if beat > 0 && asks(scene, beat - 1) {
                let closed = poll(&relay, "the votes", |poll| poll["is_open"] == false).await;
                assert_eq!(closed["votes"].as_array().map(Vec::len), Some(STUDENTS.len()), "{place}: {closed}");
                assert_eq!(closed["robots"].as_array().map(Vec::len), Some(ROBOTS), "{place}: {closed}");
            }
            if asks(scene, beat) {
                poll(&relay, "the question", |poll| poll["is_open"] == true).await;
                for student in &students {
                    // A phone that is late still shows the answer to the scene's first question.
                    if let Some(question) = second_question(scene, beat) {
                        let text = "document.querySelector('[data-testid=\"question\"]')?.innerText";
                        student.wait_for(&format!("{text} === '{question}' || null")).await;
                    }
                    student.wait_for(VOTE).await;
                    fits(student, &place).await;
                }
                poll(&relay, "everybody's vote", |poll| poll["voters"] == STUDENTS.len()).await;
            }
            assert_fits(&teacher, &place).await;
            if (scene, beat) == SEARCH {
                // The class has trained for five scenes, but the search attacks an untrained model.
                teacher.wait_for(FOUND).await;
            }
            match (scene, beat) {
                (2, 3) => drop(teacher.wait_for(&counted("everybody", STUDENTS.len() + ROBOTS)).await),
                (3, 5) => drop(teacher.attribute("solved", "data-patch").await),
                (5, 2) => students[2].click("know-gaps").await,
                (5, 3) => {
                    let counts = "document.querySelector('[data-testid=\"podium-counts\"]')?.innerText || null";
                    let said = teacher.wait_for(counts).await;
                    assert!(said.as_str().is_some_and(|said| said.contains(" of 3")), "{place}: {said}");
                }
                (4, 0) => drop(teacher.wait_for(&counted("swarm-dot", STUDENTS.len() + ROBOTS)).await),
                (9, 0) => type_passphrase(&students).await,
                (10, 1) => drop(teacher.wait_for(ALL_OF_THE_SUM).await),
                (13, 3) => {
                    assert!(students[1].text("farewell-score").await.contains(" of "), "{place}");
                }
                (6, 2) => assert!(teacher.text("told").await.starts_with("It took"), "{}", teacher.text("told").await),
                (8, 1) => teacher.attribute_is("was-it", "data-verdict", "member").await,
                (8, 2) => teacher.attribute_is("was-it", "data-verdict", "stranger").await,
                _ => {}
            }
            sees_secret_sum(&teacher, (scene, beat)).await;
            teacher.screenshot(&format!("stage-{scene}-{beat}")).await;
            for student in &students {
                // The phone tells an answer only together with the wall.
                let judged = student.run("document.querySelector('[data-testid=\"judged\"]')?.innerText ?? ''").await;
                let is_told = teacher.shows("told").await;
                assert!(is_told || !judged.as_str().unwrap_or_default().contains("answer is"), "{place}: {judged}");
            }
            students[0].screenshot(&format!("phone-{scene}-{beat}")).await;
        }
        if scene == 8 {
            // After a click on a photograph, Space still continues the lesson.
            teacher.click("ask-about").await;
            teacher.wait_for("document.querySelector('.scale')?.dataset.copy === 'true' || null").await;
            assert!(teacher.text("scale-verdict").await.contains("this copy"));
            // Three people must agree before they add up secretly. This one shows no picture any more.
            students[0].click("may-show").await;
            agrees(&relay, STUDENTS[0].0).await;
        }
        if scene == 3 {
            show_and_hide(&relay, &students[0], STUDENTS[0].0).await;
        }
        for student in &students {
            // A change of scene must not show up as news on a phone.
            assert!(!student.shows("news").await, "scene {scene}: {}", student.text("news").await);
        }
        assert_accessible(&teacher, &format!("the presenter’s scene {scene}")).await;
        beamer.attribute_is("stage", "data-scene", &scene.to_string()).await;
        assert!(!beamer.shows("bar").await);
        assert_fits(&beamer, &format!("the beamer's scene {scene}")).await;
        assert_accessible(&beamer, &format!("the beamer’s scene {scene}")).await;
        for tab in [&restless, &beamer] {
            tab.reload().await;
            arrive(&relay, tab, scene, beats - 1).await;
            assert_fits(tab, &format!("scene {scene}, reloaded")).await;
        }
    }
    teacher.press('e').await;
    teacher.attribute_is("controls", "data-testid", "controls").await;
    assert_accessible(&teacher, "the expert view").await;
}

/// APRIL and the mask: the pair is shown, M hides the picture and brings it back, and R follows its keys.
#[tokio::test]
async fn one_key_flips_the_mask() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let link = format!("{}&scene=3", relay.stage_link());
    let teacher = browser.open_view(&link, PROJECTOR).await;
    arrive(&relay, &teacher, 3, 0).await;
    assert!(relay.room().await["april_block"].as_bool() == Some(true));
    let pair = "document.querySelectorAll('.shots img').length == 2 || null";
    teacher.wait_for(pair).await;
    teacher.attribute_is("attacked", "data-level", "recognisable").await;
    assert_fits(&teacher, "APRIL’s pair").await;
    teacher.screenshot("stage-april").await;

    teacher.press('m').await;
    wait_for("the mask", || async { (relay.room().await["defence"] == "random-binary:0.5").then_some(()) }).await;
    teacher.attribute_is("attacked", "data-level", "hidden").await;
    teacher.screenshot("stage-april-masked").await;
    teacher.press(']').await;
    teacher.press(']').await;
    wait_for("R = 0.7", || async { (relay.room().await["defence"] == "random-binary:0.7").then_some(()) }).await;
    teacher.press('m').await;
    wait_for("no mask", || async { (relay.room().await["defence"] == "none").then_some(()) }).await;
    teacher.attribute_is("attacked", "data-level", "recognisable").await;

    // Another volunteer, and a pause.
    let before = relay.room().await["target"].clone();
    teacher.press('t').await;
    wait_for("another target", || async { (relay.room().await["target"] != before).then_some(()) }).await;
    teacher.press('p').await;
    wait_for("the pause", || async { (relay.room().await["phase"] == "paused").then_some(()) }).await;
}

/// The stage asks before a scene discards rounds: Escape keeps the rounds, Enter discards them. A reloaded page stays
/// where it was.
#[tokio::test]
async fn rounds_are_lost_to_nobody_unasked() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--start"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &teacher, 0, 0).await;
    relay.rounds(2).await;
    relay.control(json!({ "do": "pause" })).await;
    wait_for("the pause", || async { (relay.room().await["phase"] == "paused").then_some(()) }).await;
    let rounds = relay.room().await["round"].clone();
    teacher.click("scene-3").await;
    assert!(teacher.attribute("loses-rounds", "data-rounds").await.parse::<u64>().expect("a number") > 0);
    assert_fits(&teacher, "the question").await;
    teacher.press('\u{e00c}').await;
    wait_for("the question to go", || async { (!teacher.shows("loses-rounds").await).then_some(()) }).await;
    assert_eq!((place(&relay).await, relay.room().await["round"].clone()), ((0, 0), rounds));

    teacher.click("scene-3").await;
    teacher.click("loses-rounds-yes").await;
    arrive(&relay, &teacher, 3, 0).await;
    teacher.reload().await;
    teacher.attribute_is("stage", "data-scene", "3").await;
    assert_eq!(place(&relay).await, (3, 0));
    assert_eq!(teacher.wait_for("location.hash").await, "#scene=3");

    // The E key switches the view and back; in a text field, keys type letters.
    teacher.press('e').await;
    teacher.attribute_is("controls", "data-testid", "controls").await;
    assert_eq!(teacher.wait_for("location.hash").await, "#scene=3&expert");
    teacher.press('e').await;
    teacher.attribute_is("stage", "data-scene", "3").await;
}

/// Requests to a dead relay show an error, the page continues, and it leads the lesson again when the relay is back.
#[tokio::test]
async fn a_stage_outlives_its_relay() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let mut relay = Relay::start(&["--headless", "2"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &teacher, 0, 0).await;
    relay.stop();
    teacher.press(' ').await;
    teacher.wait_for("document.querySelector('[data-testid=\"stage-problem\"]:not([hidden])')?.innerText").await;
    assert_fits(&teacher, "what went wrong").await;
    teacher.screenshot("stage-problem").await;
    teacher.press('m').await;
    teacher.press('n').await;
    teacher.attribute("notes", "data-testid").await;
    let relay = relay.restart().await;
    teacher.press(' ').await;
    arrive(&relay, &teacher, 1, 0).await;
}

/// Robots that train in the second room fill a column for each R; the one nearest to the room's R is marked.
#[tokio::test]
async fn robots_beside_the_class_measure_a_column_for_each_rate() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7", "--shadow-room"]).await;
    let browser = Browser::start().await;
    let link = format!("{}&scene=7", relay.stage_link());
    let teacher = browser.open_view(&link, PROJECTOR).await;
    arrive(&relay, &teacher, 7, 0).await;
    teacher.wait_for("document.querySelectorAll('.trade-column img').length == 4 || null").await;
    assert!(teacher.text("trade-setup").await.contains("4 robots"));
    let marked = teacher.wait_for("document.querySelectorAll('.trade-column[aria-current]').length || null").await;
    assert_eq!(marked, 1);
    let columns = &relay.room().await["columns"];
    let first = &columns["columns"][0];
    assert!(first["defence"] == "none" && first["ssim"].as_f64() > Some(0.99), "{first}");
    assert!(first["accuracy"].is_number() && columns["chance"] == 0.1, "{columns}");
    assert_fits(&teacher, "the trade-off with robots").await;
    assert_accessible(&teacher, "the trade-off with robots").await;
    teacher.screenshot("stage-shadow").await;
}

/// The class votes for the owner of a picture; the projector shows the votes, and then the answer.
#[tokio::test]
async fn robots_guess_whose_picture_it_is() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "3", "--start"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let shown = |room: &Value| {
        let clients = room["clients"].as_array().cloned().unwrap_or_default();
        clients.iter().filter(|client| client["original"].is_string()).count()
    };
    wait_for("three originals", || async { (shown(&relay.room().await) == 3).then_some(()) }).await;
    arrive(&relay, &teacher, 0, 0).await;
    teacher.click("scene-2").await;
    arrive(&relay, &teacher, 2, 0).await;
    teacher.wait_for("document.querySelectorAll('[data-testid=\"suspect\"] img').length == 3 || null").await;
    assert!(!teacher.shows("robot-votes").await);
    // Robots vote as soon as they hear the question, and are not counted as voters.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(relay.room().await["lesson"]["poll"]["voters"], 0);
    teacher.press(' ').await;
    arrive(&relay, &teacher, 2, 1).await;
    let votes = "[...document.querySelectorAll('[data-testid=\"robot-votes\"]')].reduce((sum, it) => sum + Number(it.innerText), 0) == 3 || null";
    teacher.wait_for(votes).await;
    teacher.press(' ').await;
    arrive(&relay, &teacher, 2, 2).await;
    teacher.wait_for("document.querySelectorAll('[data-right=\"true\"]').length == 1 || null").await;
    assert_fits(&teacher, "the answer").await;
    teacher.screenshot("stage-guessed").await;
}

/// A presenter who presses Space before a step is complete leaves no question open, and a class with one lender sees no
/// votes of an earlier question on the wall.
#[tokio::test]
async fn a_hurried_presenter_skips_no_question() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "1"]).await;
    let browser = Browser::start().await;
    let teacher = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    arrive(&relay, &teacher, 0, 0).await;
    wait_for("a picture", || async { relay.client("robot 1").await["original"].is_string().then_some(()) }).await;
    // A slow network, so that the room shows the new scene well before its question.
    let slow = "(() => { const fast = fetch; window.fetch = (...all) => new Promise(go => setTimeout(go, 300)).then(() => fast(...all)); return true })()";
    teacher.run(slow).await;
    teacher.click("scene-5").await;
    // One press for each step, as soon as the wall shows the one before.
    teacher.attribute_is("stage", "data-scene", "5").await;
    teacher.press(' ').await;
    arrive(&relay, &teacher, 5, 1).await;
    let gaps = poll(&relay, "the question closed", |poll| poll["is_open"] == false).await;
    assert_eq!(gaps["poll"]["question"], "gaps", "{gaps}");
    teacher.press(' ').await;
    arrive(&relay, &teacher, 5, 2).await;
    teacher.wait_for("document.querySelector('.suspects-note')?.innerText.startsWith('Two must show') || null").await;
    assert!(!teacher.shows("suspect-votes").await && !teacher.shows("robot-votes").await);
}
