//! The attacks, beside the room.

use std::sync::Arc;

use unmask_matching::GradientMatching;
use unmask_model::device::OpenDevice;
use unmask_room::AttackDesk;

/// The desk of a room's attacks, with searches on the processor.
pub fn attack_desk() -> AttackDesk {
    AttackDesk::new(Arc::new(GradientMatching::new(OpenDevice::cpu())))
}
