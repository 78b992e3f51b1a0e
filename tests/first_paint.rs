//! Measures how soon a page shows something, and how soon its bundle has built it, in a browser with an empty cache.

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE,
    support::{Browser, Relay},
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

/// Median, minimum and maximum.
fn range(mut milliseconds: Vec<f64>) -> String {
    milliseconds.sort_by(f64::total_cmp);
    let [least, .., most] = milliseconds[..] else { panic!("{milliseconds:?}") };
    format!("{:.0} ({least:.0} to {most:.0})", milliseconds[milliseconds.len() / 2])
}
