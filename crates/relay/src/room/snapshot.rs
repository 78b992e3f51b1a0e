//! The room's published state.

use std::sync::Arc;

use tokio::time::Instant;
use unmask_wire::view::RoomView;

#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Everything except the time left.
    pub(crate) view: Arc<RoomView>,
    /// The latest time at which the running round ends.
    pub(crate) deadline: Option<Instant>,
}

impl Snapshot {
    /// The view as JSON, with the time left as of now.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f32());
        serde_json::to_string(&RoomView { deadline_seconds: left, ..RoomView::clone(&self.view) })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct JoinAddresses {
    pub(crate) http_address: String,
    pub(crate) https_address: String,
    pub(crate) qr_svg: String,
    /// For students who type an address.
    pub(crate) pin: String,
}
