//! Robots that train beside a room.

use std::ops::ControlFlow;

use unmask_core::TradeOffColumns;
use unmask_experiments::{LiveTradeOff, Scale};
use unmask_model::device::OpenDevice;
use unmask_relay::ShadowRoom;

/// Trains robots on one device and one thread, to leave the other cores to the class.
#[derive(Debug)]
pub struct ShadowRobots(pub OpenDevice);

impl ShadowRoom for ShadowRobots {
    fn train(&self, seed: u64, on_columns: &mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>) -> anyhow::Result<()> {
        let live = LiveTradeOff { scale: Scale::Quick, seed, device: &self.0, threads: 1 };
        Ok(live.run(on_columns)?)
    }
}
