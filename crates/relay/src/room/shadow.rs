//! Robots that train beside the class: what each defence costs and leaves to see, measured while the lesson runs.

use std::{
    fmt,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use anyhow::Context;
use unmask_core::TradeOffPoint;

/// Trains robots under several defences at once. The relay knows no tensors, so that whoever starts it hands this in.
pub trait ShadowRoom: fmt::Debug + Send + Sync {
    /// Trains on the calling thread until all is measured. `on_point` is given the newest point of a defence whenever
    /// something of it has changed, and may end it.
    ///
    /// # Errors
    /// In words for people, if a model cannot be trained or attacked.
    fn train(&self, seed: u64, on_point: &mut dyn FnMut(TradeOffPoint) -> ControlFlow<()>) -> Result<(), String>;
}

/// News of the robots.
#[derive(Debug)]
pub(crate) enum ShadowNews {
    Measured(TradeOffPoint),
    /// They train no more, in words for people.
    Failed(String),
}

/// What they have measured so far.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// The newest of each defence, in the order of their first points.
    points: Vec<TradeOffPoint>,
}

impl Shadow {
    /// Starts their thread, where there are any; `report` gives false once nobody listens, which ends it with the next point.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(super) fn start(
        report: impl Fn(ShadowNews) -> bool + Send + 'static,
        room: Option<Arc<dyn ShadowRoom>>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        if let Some(room) = room {
            thread::Builder::new()
                .name("shadow".to_owned())
                .spawn(move || work(&report, room.as_ref(), seed))
                .context("no thread for the robots beside the class")?;
        }
        Ok(Self::default())
    }

    pub(super) fn measured(&mut self, point: TradeOffPoint) {
        match self.points.iter_mut().find(|known| known.defence == point.defence) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
    }

    pub(super) fn view(&self) -> Vec<TradeOffPoint> {
        self.points.clone()
    }
}

fn work(report: &impl Fn(ShadowNews) -> bool, room: &dyn ShadowRoom, seed: u64) {
    let mut on_point = |point| match report(ShadowNews::Measured(point)) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    // The lesson goes on without them, whatever happens here.
    let outcome = catch_unwind(AssertUnwindSafe(|| room.train(seed, &mut on_point)));
    if let Err(reason) = outcome.unwrap_or_else(|_| Err("their training broke down".to_owned())) {
        report(ShadowNews::Failed(reason));
    }
}
