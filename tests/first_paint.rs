//! How soon a page shows something, and how soon it is whole, in a browser that has never seen it.

use crate::{
    DESKTOP, ONE_AT_A_TIME, PHONE,
    support::{Browser, Relay},
};

/// Visits of each page, each in a browser with a cache of its own.
const VISITS: usize = 5;

/// Calls back with milliseconds since the page was asked for: until the first paint, and until the largest thing on it was painted last.
const PAINTS: &str = "const [back] = arguments;
    new PerformanceObserver(list => {
        const first = performance.getEntriesByName('first-contentful-paint')[0].startTime;
        back([first, list.getEntries().at(-1).startTime]);
    }).observe({ type: 'largest-contentful-paint', buffered: true });";

#[tokio::test]
#[ignore = "measures: cargo xtask test --test lessons first_paint -- --ignored --nocapture"]
async fn of_each_page() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--headless", "1"]).await;
    relay.client("robot 1").await;
    println!("| page | first paint, ms | page built by its bundle, ms |\n|---|---|---|");
    for (name, link, size, sign) in [
        ("student", relay.student_link("localhost", ""), PHONE, "join"),
        ("projector", relay.stage_link(), DESKTOP, "stage"),
    ] {
        let (mut first, mut built) = (Vec::new(), Vec::new());
        for _ in 0..VISITS {
            let browser = Browser::start().await;
            let tab = browser.open(&link, size).await;
            tab.wait_for(&format!("document.querySelector('[data-testid=\"{sign}\"]')")).await;
            let times = tab.run_async(PAINTS).await;
            first.push(times[0].as_f64().expect("milliseconds"));
            built.push(times[1].as_f64().expect("milliseconds"));
        }
        println!("| {name} | {} | {} |", range(first), range(built));
    }
}

/// Median, least and most.
fn range(mut milliseconds: Vec<f64>) -> String {
    milliseconds.sort_by(f64::total_cmp);
    let [least, .., most] = milliseconds[..] else { panic!("{milliseconds:?}") };
    format!("{:.0} ({least:.0} to {most:.0})", milliseconds[milliseconds.len() / 2])
}
