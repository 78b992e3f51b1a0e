//! The lesson's files for the teacher to download.

use std::sync::Arc;

use unmask_federation::GlobalModel;
use unmask_wire::view::RoomView;

use super::{history::RoundRecord, lesson::LessonHead, log::TimedLine};

/// Contents of the lesson's archive, all from one moment.
#[derive(Debug)]
pub(crate) struct LessonFiles {
    pub(crate) head: LessonHead,
    pub(crate) view: RoomView,
    /// The model after `round` rounds.
    pub(crate) model: Arc<GlobalModel>,
    pub(crate) round: u32,
    /// Whether the weights are encrypted, so that only someone with the passphrase can use them.
    pub(crate) is_encrypted: bool,
    pub(crate) rounds: Vec<RoundRecord>,
    pub(crate) events: Vec<TimedLine>,
}
