//! The lesson's files for the teacher to download.

use std::sync::Arc;

use unmask_federation::GlobalModel;
use unmask_wire::view::RoomView;

use super::{history::RoundRecord, lesson::LessonHead, log::TimedLine};

/// Contents of the lesson's archive, all from one moment.
#[derive(Debug)]
pub struct LessonFiles {
    pub head: LessonHead,
    pub view: RoomView,
    /// The model after `round` rounds.
    pub model: Arc<GlobalModel>,
    pub round: u32,
    /// Whether the weights are encrypted, so that only someone with the passphrase can use them.
    pub is_encrypted: bool,
    pub rounds: Vec<RoundRecord>,
    pub events: Vec<TimedLine>,
}
