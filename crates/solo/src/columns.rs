//! The columns of scene 7. In a browser their robots would train for minutes on the core that the lesson needs.

use std::ops::ControlFlow;

use anyhow::Context;
use unmask_core::TradeOffColumns;
use unmask_room::ShadowRoom;

/// What robots measured beside the lesson that comes with the program.
const COLUMNS: &str = include_str!("../../../assets/columns.json");

/// Shows what was measured before, as such.
#[derive(Debug)]
pub(crate) struct Recorded;

impl ShadowRoom for Recorded {
    fn train(&self, _: u64, on_columns: &mut dyn FnMut(&TradeOffColumns) -> ControlFlow<()>) -> anyhow::Result<()> {
        let columns: TradeOffColumns = serde_json::from_str(COLUMNS).context("what was measured cannot be read")?;
        // There is nothing else to stop.
        let _ = on_columns(&TradeOffColumns { is_recorded: true, ..columns });
        Ok(())
    }
}
