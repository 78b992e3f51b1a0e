//! Each device in its own language: the stage, the phones, and the questions that travel between them.

use crate::{
    ONE_AT_A_TIME, PHONE,
    stage::{PROJECTOR, arrive, assert_fits, beats},
    support::{Browser, Relay, Tab, skipped},
    volunteers::ask,
};

/// Waits until the document is in this language and the element with this test id has the text `text`.
pub async fn says(tab: &Tab, language: &str, id: &str, text: &str) {
    let look = format!(
        "document.documentElement.lang === '{language}' && \
         document.querySelector('[data-testid=\"{id}\"]')?.innerText === '{text}' || null"
    );
    tab.wait_for(&look).await;
}

pub async fn choose(tab: &Tab, language: &str) {
    let change = format!(
        "(select => (select.value = '{language}', select.dispatchEvent(new Event('change', {{ bubbles: true }})), true))\
         (document.querySelector('select[data-testid=\"language\"]'))"
    );
    tab.wait_for(&change).await;
}

/// Stage and phone follow their own language switches, lose nothing when switched, and remember the choice. A question
/// and its answers appear in the reader's language.
#[tokio::test]
async fn everybody_reads_the_lesson_in_a_language_of_their_own() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    if browser.is_webkit() {
        return skipped("WebKit's languages are those of the system");
    }
    let stage = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu");
    let phone = browser.open_in(&link, PHONE, "de-CH,de").await;
    // The browser's language is the default.
    says(&phone, "de", "join", "Mitmachen").await;
    phone.screenshot("language-de-form").await;
    phone.click("join").await;
    let id = relay.client("Ada").await["id"].clone();
    says(&phone, "de", "show-original", "Der Klasse mein Bild zeigen").await;

    says(&stage, "en", "headline", "Join with your phone").await;
    stage.click("language").await;
    says(&stage, "de", "headline", "Mach mit deinem Handy mit").await;
    stage.press('l').await;
    says(&stage, "ja", "headline", "スマートフォンで参加しよう").await;
    assert_fits(&stage, "the lobby in Japanese").await;
    stage.reload().await;
    says(&stage, "ja", "headline", "スマートフォンで参加しよう").await;

    arrive(&relay, &stage, 0, 0).await;
    stage.click("scene-4").await;
    arrive(&relay, &stage, 4, 0).await;
    stage.press(' ').await;
    arrive(&relay, &stage, 4, 1).await;
    stage.press(' ').await;
    arrive(&relay, &stage, 4, 2).await;
    let answers = "[...document.querySelectorAll('[data-testid=\"answer\"]')].map(it => it.innerText).join()";
    says(&phone, "de", "question", "Ist das Bild jetzt sicher?").await;
    phone.wait_for(&format!("{answers} === 'Ja,Nein' || null")).await;
    stage.wait_for("document.querySelector('.vote h2')?.innerText === 'これで写真は安全ですか。' || null").await;
    choose(&phone, "en").await;
    says(&phone, "en", "question", "Is the picture safe now?").await;
    phone.wait_for(&format!("{answers} === 'Yes,No' || null")).await;
    phone.attribute_is("connection", "data-state", "online").await;
    assert_eq!(relay.client("Ada").await["id"], id);

    ask(&relay, "whose", &["robot 1", "Ada"], None).await;
    choose(&phone, "ja").await;
    says(&phone, "ja", "question", "サーバーが数から作ったのは、だれの写真ですか。").await;
    phone.wait_for(&format!("{answers} === 'A · ロボット1,B · Ada' || null")).await;
    phone.screenshot("language-ja-question").await;

    ask(&relay, "seconds", &[], None).await;
    says(&phone, "ja", "question", "何秒後に、だれか分かりますか。").await;
    phone.click("guess-more").await;
    choose(&phone, "de").await;
    stage.press('e').await;
    assert_eq!(stage.text("expert-language").await, "専門家向けの画面は英語です。");

    let chosen = "document.querySelector('[data-testid=\"guess-slider\"]')?.value";
    phone.wait_for(&format!("{chosen} === '31' || null")).await;
}

/// German is long and Japanese is wide: no scene is cut off in either.
#[tokio::test]
async fn every_scene_fits_in_every_language() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "2", "--seed", "7"]).await;
    let browser = Browser::start().await;
    let stage = browser.open_view(&relay.stage_link(), PROJECTOR).await;
    relay.client("robot 2").await;
    for (scene, beats) in (0..).zip(beats()) {
        for beat in 0..beats {
            if (scene, beat) != (0, 0) {
                stage.press(' ').await;
            }
            arrive(&relay, &stage, scene, beat).await;
            for language in ["de", "ja", "en"] {
                stage.press('l').await;
                stage.wait_for(&format!("document.documentElement.lang === '{language}' || null")).await;
                assert_fits(&stage, &format!("scene {scene}, step {beat} in {language}")).await;
                stage.screenshot(&format!("language-{language}-{scene}-{beat}")).await;
            }
        }
    }
}
