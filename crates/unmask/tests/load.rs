//! `cargo xtask hostile` and `cargo xtask soak`, for a few seconds.

use std::{env, time::Duration};

use tokio::sync::Mutex;
use unmask_swarm::{HostileOptions, SoakOptions, attempts, has_foreign_addresses, hostile, in_own_network, soak};

#[cfg(target_os = "linux")]
#[path = "../../../tests/support/skipped.rs"]
mod skipped;

const PROGRAM: &str = env!("CARGO_BIN_EXE_unmask");

/// Held by each test, because each would otherwise measure the load of both.
static TURN: Mutex<()> = Mutex::const_new(());

fn model() -> String {
    "vit_pico_patch4_16".to_owned()
}

/// Strangers take nothing from honest clients, though they want more connections than the relay may have open files.
/// The duration of rounds under such a load is measured elsewhere, on an idle machine.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn honest_clients_lose_nothing_beside_strangers() {
    let _turn = TURN.lock().await;
    let report = hostile(HostileOptions {
        program: PROGRAM.into(),
        files: Some(1024),
        model: model(),
        honest: 6,
        idle: 1140,
        tricklers: 20,
        walls: 6,
        floods: 2,
        time: Duration::from_secs(7),
        pace: Duration::from_millis(200),
        deadline: Duration::from_secs(6),
    })
    .await
    .unwrap();
    println!("{report}");
    let missed = report.missed(Duration::from_secs(3), 1000.0);
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(report.accepted > 0 && report.health.percentile(1.0) < Duration::from_secs(10), "{report}");
    assert!(report.descriptors.is_some_and(|most| most <= 1024), "{report}");
}

/// Clients join and leave, and the relay keeps nothing of them.
#[tokio::test]
async fn nothing_grows_while_clients_come_and_go() {
    const CLIENTS: usize = 20;
    let _turn = TURN.lock().await;
    let report = soak(SoakOptions {
        program: PROGRAM.into(),
        model: model(),
        clients: CLIENTS,
        time: Duration::from_secs(6),
        pace: Duration::from_millis(100),
        stay: Duration::from_millis(800),
    })
    .await
    .unwrap();
    println!("{report}");
    let missed = report.missed(Duration::from_secs(10));
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(report.accepted > CLIENTS as u64, "{report}");
    if let Some((first, last)) = report.megabytes {
        assert!(last - first < 50.0, "{report}");
    }
}

/// Hostile clients of a room neither hold up rounds nor stop learning, and neither take all places nor fill the log.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn hostile_clients_get_no_further_than_promised() {
    const NAME: &str = "hostile_clients_get_no_further_than_promised";
    let is_elsewhere = has_foreign_addresses();
    if !is_elsewhere && let Some(mut again) = in_own_network(&env::current_exe().unwrap()) {
        let _turn = TURN.lock().await;
        assert!(again.args([NAME, "--exact", "--nocapture"]).status().unwrap().success());
        return;
    }
    let _turn = TURN.lock().await;
    let attempts = attempts(PROGRAM.as_ref()).await.unwrap();
    println!("{attempts}");
    let missed = attempts.missed();
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(attempts.0.len(), if is_elsewhere { 6 } else { 3 });
    if !is_elsewhere {
        skipped::skipped("places are not tried: this needs `unshare` and `ip`, and permission to use them");
    }
}
