//! What a client of a room is doing.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// There and free, not in a running round.
    Joined,
    /// In the cohort, update awaited; or encrypting the model.
    Training,
    /// Its update of this round was taken.
    Sent,
    /// Still busy with a round that has closed; in again as soon as it answers.
    Late,
    /// In the background, where browsers let a tab train slowly or not at all; in again as soon as it answers or is seen.
    Away,
    /// Left out since it answered nothing in two rounds in a row; in again as soon as it answers or asks.
    SittingOut,
    /// Left out after too many refused updates, until the teacher takes it in again.
    Excluded,
    /// Not there: its socket is closed, or nobody ever was.
    #[default]
    Gone,
}

impl ClientState {
    /// Whether it can be asked for something.
    pub fn is_free(self) -> bool {
        matches!(self, Self::Joined | Self::Sent)
    }

    /// Whether it was asked for something, has not answered, and is waited for no longer.
    pub fn is_behind(self) -> bool {
        matches!(self, Self::Late | Self::Away | Self::SittingOut)
    }
}
