//! Robots that train beside the class and measure the accuracy and leakage of each defence during the lesson.

use std::{
    fmt,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use anyhow::anyhow;
use unmask_core::TradeOffColumns;

use super::{host::Work, input::Input};

/// Trains robots under several defences in parallel. The room has no tensor library, so its host supplies this.
pub trait ShadowRoom: fmt::Debug + Send + Sync {
    /// Trains on the calling thread until everything is measured. Calls `on_columns` with all columns whenever one has
    /// changed; `on_columns` may stop the training.
    ///
    /// # Errors
    /// In words for people, if a model cannot be trained or attacked.
    fn train(&self, seed: u64, on_columns: &mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>) -> anyhow::Result<()>;
}

/// What the robots beside the class tell the room.
#[derive(Debug)]
pub enum ShadowNews {
    Measured(TradeOffColumns),
    /// Training has stopped.
    Failed(anyhow::Error),
}

#[derive(Debug, Default)]
pub(super) struct Shadow {
    columns: Option<TradeOffColumns>,
}

impl Shadow {
    pub(super) fn measured(&mut self, columns: TradeOffColumns) {
        self.columns = Some(columns);
    }

    pub(super) fn view(&self) -> Option<TradeOffColumns> {
        self.columns.clone()
    }
}

/// The training of the robots in this room; it ends with the room, at the next number.
pub(super) fn training(room: Arc<dyn ShadowRoom>, seed: u64) -> Work {
    Work::new("shadow", move |outside| {
        let mut on_columns =
            |columns: &TradeOffColumns| match outside.tell(Input::Shadow(ShadowNews::Measured(columns.clone()))) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            };
        // A panic here must not end the lesson.
        let outcome = catch_unwind(AssertUnwindSafe(|| room.train(seed, &mut on_columns)));
        if let Err(reason) = outcome.unwrap_or_else(|_| Err(anyhow!("their training broke down"))) {
            outside.tell(Input::Shadow(ShadowNews::Failed(reason)));
        }
    })
}
