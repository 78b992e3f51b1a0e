//! Robots that train beside the class and measure the accuracy and leakage of each defence during the lesson.

use std::{
    fmt,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use anyhow::{Context, anyhow};
use unmask_core::TradeOffPoint;

/// Trains robots under several defences in parallel. The relay has no tensor library, so the program that starts it
/// supplies this.
pub trait ShadowRoom: fmt::Debug + Send + Sync {
    /// Trains on the calling thread until everything is measured. Calls `on_point` with a defence's newest point
    /// whenever it changes; `on_point` may stop the training.
    ///
    /// # Errors
    /// In words for people, if a model cannot be trained or attacked.
    fn train(&self, seed: u64, on_point: &mut dyn FnMut(TradeOffPoint) -> ControlFlow<()>) -> anyhow::Result<()>;
}

#[derive(Debug)]
pub(crate) enum ShadowNews {
    Measured(TradeOffPoint),
    /// Training has stopped.
    Failed(anyhow::Error),
}

#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// The newest point of each defence, in the order of their first points.
    points: Vec<TradeOffPoint>,
}

impl Shadow {
    /// Starts the robots' thread if there are any. `report` returns false once the room is gone, which ends the thread
    /// at the next point.
    pub(super) fn start(
        report: impl Fn(ShadowNews) -> bool + Send + 'static,
        room: Option<Arc<dyn ShadowRoom>>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        if let Some(room) = room {
            thread::Builder::new()
                .name("shadow".to_owned())
                .spawn(move || work(&report, room.as_ref(), seed))
                .context("cannot start the thread for the robots beside the class")?;
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
    // A panic here must not end the lesson.
    let outcome = catch_unwind(AssertUnwindSafe(|| room.train(seed, &mut on_point)));
    if let Err(reason) = outcome.unwrap_or_else(|_| Err(anyhow!("their training broke down"))) {
        report(ShadowNews::Failed(reason));
    }
}
