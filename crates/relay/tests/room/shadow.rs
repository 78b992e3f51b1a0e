//! Robots that train alongside the class.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use unmask_core::TradeOffPoint;
use unmask_relay::{Defence, ShadowRoom};

use crate::support::Relay;

fn point(defence: &str, rounds: u32) -> TradeOffPoint {
    let defence: Defence = defence.parse().unwrap();
    TradeOffPoint { defence, rounds, accuracy: Some(0.25), ssim: Some(0.5) }
}

/// Measures two defences, then fails or panics.
#[derive(Debug)]
struct Failing {
    breaks_down: bool,
}

impl ShadowRoom for Failing {
    fn train(&self, _: u64, on_point: &mut dyn FnMut(TradeOffPoint) -> ControlFlow<()>) -> anyhow::Result<()> {
        for (defence, rounds) in [("none", 0), ("random-binary:0.5", 0), ("none", 15)] {
            assert!(on_point(point(defence, rounds)).is_continue());
        }
        assert!(!self.breaks_down, "as a tensor library does");
        anyhow::bail!("the weights grew beyond all bounds")
    }
}

/// The newest point of each defence is shown, and the lesson survives a failure of the robots.
#[tokio::test]
async fn the_newest_point_of_each_defence_is_shown() {
    for breaks_down in [false, true] {
        let relay = Relay::with(|config| config.shadow = Some(Arc::new(Failing { breaks_down }))).await;
        let why = if breaks_down { "their training broke down" } else { "the weights grew beyond all bounds" };
        let line = format!("The robots beside the class train no more: {why}.");
        let room = relay.room_when("the end", |room| room.log.iter().any(|said| said.text == line)).await;
        assert_eq!(room.shadow, [point("none", 15), point("random-binary:0.5", 0)]);
        assert!(room.trade_off.is_empty(), "the class has measured nothing");
        relay.client("Ada").await;
    }
    assert!(Relay::start().await.room().await.shadow.is_empty());
}

/// Continues until the relay stops it.
#[derive(Debug)]
struct Endless(Arc<AtomicBool>);

impl ShadowRoom for Endless {
    fn train(&self, _: u64, on_point: &mut dyn FnMut(TradeOffPoint) -> ControlFlow<()>) -> anyhow::Result<()> {
        for round in 0.. {
            if on_point(point("none", round)).is_break() {
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
    relay.room_when("a point", |room| room.shadow.first().is_some_and(|point| point.rounds > 3)).await;
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
