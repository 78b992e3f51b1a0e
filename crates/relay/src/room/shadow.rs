//! Robots that train beside the class and measure the accuracy and leakage of each defence during the lesson.

use std::{
    fmt,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use anyhow::{Context, anyhow};
use unmask_core::TradeOffColumns;

/// Trains robots under several defences in parallel. The relay has no tensor library, so the program that starts it
/// supplies this.
pub trait ShadowRoom: fmt::Debug + Send + Sync {
    /// Trains on the calling thread until everything is measured. Calls `on_columns` with all columns whenever one has
    /// changed; `on_columns` may stop the training.
    ///
    /// # Errors
    /// In words for people, if a model cannot be trained or attacked.
    fn train(&self, seed: u64, on_columns: &mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>) -> anyhow::Result<()>;
}

#[derive(Debug)]
pub(crate) enum ShadowNews {
    Measured(TradeOffColumns),
    /// Training has stopped.
    Failed(anyhow::Error),
}

#[derive(Debug, Default)]
pub(super) struct Shadow {
    columns: Option<TradeOffColumns>,
}

impl Shadow {
    /// Starts the robots' thread if there are any. `report` returns false once the room is gone, which ends the thread
    /// at the next number.
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

    pub(super) fn measured(&mut self, columns: TradeOffColumns) {
        self.columns = Some(columns);
    }

    pub(super) fn view(&self) -> Option<TradeOffColumns> {
        self.columns.clone()
    }
}

fn work(report: &impl Fn(ShadowNews) -> bool, room: &dyn ShadowRoom, seed: u64) {
    let mut on_columns = |columns: &TradeOffColumns| match report(ShadowNews::Measured(columns.clone())) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    // A panic here must not end the lesson.
    let outcome = catch_unwind(AssertUnwindSafe(|| room.train(seed, &mut on_columns)));
    if let Err(reason) = outcome.unwrap_or_else(|_| Err(anyhow!("their training broke down"))) {
        report(ShadowNews::Failed(reason));
    }
}
