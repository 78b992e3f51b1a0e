//! The lesson as its teacher takes it home.

use std::sync::Arc;

use unmask_federation::GlobalModel;
use unmask_wire::view::RoomView;

use super::{history::RoundRecord, lesson::LessonHead, log::TimedLine};

/// What goes into the lesson's archive, as of one moment.
#[derive(Debug)]
pub(crate) struct LessonFiles {
    pub(crate) head: LessonHead,
    pub(crate) view: RoomView,
    /// After `round` rounds.
    pub(crate) model: Arc<GlobalModel>,
    pub(crate) round: u32,
    /// Whether the weights are encrypted, so that only whoever has the passphrase can use them.
    pub(crate) is_encrypted: bool,
    pub(crate) rounds: Vec<RoundRecord>,
    pub(crate) events: Vec<TimedLine>,
}
