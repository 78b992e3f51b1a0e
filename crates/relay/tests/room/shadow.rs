//! Robots that train alongside the class.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use unmask_core::{TradeOffColumn, TradeOffColumns};
use unmask_relay::{Defence, ShadowRoom};

use crate::support::Relay;

fn columns(rounds: [u32; 2]) -> TradeOffColumns {
    let column = |(defence, rounds): (&str, u32)| {
        let defence: Defence = defence.parse().unwrap();
        TradeOffColumn { defence, rounds, accuracy: Some(0.25), ssim: Some(0.5), picture: None }
    };
    let columns = ["none", "random-binary:0.5"].into_iter().zip(rounds).map(column).collect();
    let model = "vit_nano_patch4_32".to_owned();
    TradeOffColumns { model, robots: 4, test_pictures: 500, chance: 0.1, is_recorded: false, columns }
}

type OnColumns<'a> = &'a mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>;

/// Measures two defences, then fails or panics.
#[derive(Debug)]
struct Failing {
    breaks_down: bool,
}

impl ShadowRoom for Failing {
    fn train(&self, _: u64, on_columns: OnColumns<'_>) -> anyhow::Result<()> {
        for rounds in [[0, 0], [10, 0]] {
            assert!(on_columns(&columns(rounds)).is_continue());
        }
        assert!(!self.breaks_down, "as a tensor library does");
        anyhow::bail!("the weights grew beyond all bounds")
    }
}

/// The newest columns are shown, and the lesson survives a failure of the robots.
#[tokio::test]
async fn the_newest_columns_are_shown() {
    for breaks_down in [false, true] {
        let relay = Relay::with(|config| config.shadow = Some(Arc::new(Failing { breaks_down }))).await;
        let why = if breaks_down { "their training broke down" } else { "the weights grew beyond all bounds" };
        let line = format!("The robots beside the class train no more: {why}.");
        let room = relay.room_when("the end", |room| room.log.iter().any(|said| said.text == line)).await;
        assert_eq!(room.columns, Some(columns([10, 0])));
        assert!(room.trade_off.is_empty(), "the class has measured nothing");
        relay.client("Ada").await;
    }
    assert_eq!(Relay::start().await.room().await.columns, None);
}

/// Continues until the relay stops it.
#[derive(Debug)]
struct Endless(Arc<AtomicBool>);

impl ShadowRoom for Endless {
    fn train(&self, _: u64, on_columns: OnColumns<'_>) -> anyhow::Result<()> {
        for round in 0.. {
            if on_columns(&columns([round, 0])).is_break() {
                self.0.store(true, Ordering::Relaxed);
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

#[tokio::test]
async fn the_robots_end_with_the_relay() {
    let has_ended = Arc::new(AtomicBool::new(false));
    let relay = Relay::with(|config| config.shadow = Some(Arc::new(Endless(Arc::clone(&has_ended))))).await;
    relay
        .room_when("a number", |room| room.columns.as_ref().is_some_and(|columns| columns.columns[0].rounds > 3))
        .await;
    assert!(!has_ended.load(Ordering::Relaxed));
    relay.running.shutdown().await;
    tokio::time::timeout(Duration::from_secs(60), async {
        while !has_ended.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the robots end");
}
