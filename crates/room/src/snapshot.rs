//! The room's published state.

use std::sync::Arc;

use unmask_core::InitialWeights;
use unmask_data::CLASSES;
use unmask_wire::view::{RoomView, SessionView};

use super::time::Moment;

#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Everything except the time left.
    pub view: Arc<RoomView>,
    /// The latest time at which the running round ends.
    pub deadline: Option<Moment>,
}

impl Snapshot {
    /// The view as JSON, with the time left at `now`.
    pub fn json(&self, now: Moment) -> serde_json::Result<String> {
        let left = self.deadline.map(|at| (at - now).as_secs_f32());
        serde_json::to_string(&RoomView { deadline_seconds: left, ..RoomView::clone(&self.view) })
    }

    /// What the room tells each page that it admits. The host adds the role and its address.
    pub fn session(&self) -> SessionView {
        let named = self.view.data.as_ref().map(|data| data.photograph_classes().to_vec()).unwrap_or_default();
        // Weights that were trained before know their own classes.
        let is_pretrained = named.is_empty() && self.view.initial_weights == InitialWeights::Pretrained;
        let classes = if is_pretrained { CLASSES.map(str::to_owned).to_vec() } else { named };
        let superlink = self.view.federation.as_ref().map(|federation| federation.superlink.clone());
        SessionView { classes, superlink, ..SessionView::default() }
    }
}

#[derive(Debug, Clone, Default)]
pub struct JoinAddresses {
    pub http_address: String,
    pub https_address: String,
    pub qr_svg: String,
    /// Number of the students' keys before the one in the code.
    pub keys: u32,
    /// For students who type an address.
    pub pin: String,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_view_tells_the_time_left_in_the_round() {
        let at = |seconds| Moment::after(Duration::from_secs(seconds));
        let left = |deadline| {
            let json = Snapshot { view: Arc::default(), deadline }.json(at(3)).unwrap();
            serde_json::from_str::<RoomView>(&json).unwrap().deadline_seconds
        };
        assert_eq!([None, Some(at(5)), Some(at(2))].map(left), [None, Some(2.0), Some(0.0)]);
    }
}
