//! Measures how soon a page shows something, how soon its bundle has built it, and how soon a tab has sent its first
//! update, in a browser with an empty cache.

use std::time::Instant;

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE, solo,
    stage::PROJECTOR,
    support::{Browser, Relay, wait_for},
    volunteers::has_picture,
};

/// Visits of each page, each in a new browser with its own cache.
const VISITS: usize = 5;

/// Milliseconds from the request of the page until the first paint.
const FIRST_PAINT: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";

#[tokio::test]
#[ignore = "measures: cargo xtask test --test lessons first_paint -- --ignored --nocapture"]
async fn of_each_page() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "1"]).await;
    relay.client("robot 1").await;
    let elsewhere = format!("http://localhost:{}/healthz", relay.http_port());
    println!("| page | first paint, ms | built by its bundle, ms |\n|---|---|---|");
    for (name, link, size, sign) in [
        ("student", relay.student_link("localhost", ""), PHONE, "join"),
        ("projector", relay.stage_link(), DESKTOP, "stage"),
    ] {
        let (mut first, mut built) = (Vec::new(), Vec::new());
        for _ in 0..VISITS {
            let browser = Browser::start().await;
            let tab = browser.open(&elsewhere, size).await;
            tab.on_every_page(&format!(
                "new MutationObserver((_, observer) => {{
                    if (!document.querySelector('[data-testid=\"{sign}\"]')) return;
                    window.built = performance.now();
                    observer.disconnect();
                }}).observe(document, {{ childList: true, subtree: true }})"
            ))
            .await;
            tab.run(&format!("location.href = {link:?}")).await;
            built.push(tab.wait_for("window.built").await.as_f64().expect("milliseconds"));
            first.push(tab.wait_for(FIRST_PAINT).await.as_f64().expect("milliseconds"));
        }
        println!("| {name} | {} | {} |", range(first), range(built));
    }
}

/// From *Join* until the relay has accepted the tab's first update.
#[tokio::test]
#[ignore = "measures: cargo xtask test --test lessons first_paint -- --ignored --nocapture"]
async fn of_the_first_update() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let mut milliseconds = Vec::new();
    for visit in 0..VISITS {
        let browser = Browser::start().await;
        let nickname = format!("visitor {visit}");
        let link = relay.student_link("localhost", &format!("nickname={nickname}&image=cat&device=cpu"));
        let tab = browser.open(&link.replace(' ', "+"), PHONE).await;
        has_picture(&tab, "cat").await;
        let joined = Instant::now();
        tab.click("join").await;
        wait_for("the first update", || async { (relay.client(&nickname).await["updates"] != 0).then_some(()) }).await;
        milliseconds.push(joined.elapsed().as_secs_f64() * 1e3);
    }
    println!("| from *Join* to the first update, ms | {} |", range(milliseconds));
}

/// The lesson without a relay, in each engine: from its address until the first picture has leaked, with a press of Space
/// as soon as each step has come.
#[tokio::test]
#[ignore = "measures: cargo xtask test --test lessons first_paint -- --ignored --nocapture"]
async fn of_the_lesson_at_an_address() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let site = solo::serve();
    println!("| solo lesson | first paint, ms | first leak, ms |\n|---|---|---|");
    for name in ["Chromium", "Firefox", "WebKitGTK"] {
        let (mut first, mut leaked) = (Vec::new(), Vec::new());
        for _ in 0..VISITS {
            let browser = match name {
                "Chromium" => Some(Browser::start().await),
                "Firefox" => Browser::firefox().await,
                _ => Browser::webkit().await,
            };
            let Some(browser) = browser else { break };
            let page = browser.open_view(&format!("{}?seed=7", site.link()), PROJECTOR).await;
            solo::goes_to_the_first_leak(&page).await;
            leaked.push(page.wait_for("performance.now()").await.as_f64().expect("milliseconds"));
            first.push(page.wait_for(FIRST_PAINT).await.as_f64().expect("milliseconds"));
        }
        if !first.is_empty() {
            println!("| {name} | {} | {} |", range(first), range(leaked));
        }
    }
}

/// Median, minimum and maximum.
fn range(mut milliseconds: Vec<f64>) -> String {
    milliseconds.sort_by(f64::total_cmp);
    let [least, .., most] = milliseconds[..] else { panic!("{milliseconds:?}") };
    format!("{:.0} ({least:.0} to {most:.0})", milliseconds[milliseconds.len() / 2])
}
