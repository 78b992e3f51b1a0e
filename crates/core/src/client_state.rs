use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// Connected and free, not in a running round.
    Joined,
    /// In the cohort and computing its update, or encrypting the model.
    Training,
    /// Its update of this round was accepted.
    Sent,
    /// Still busy with a closed round; returns when it answers.
    Late,
    /// In the background, where browsers throttle or stop a tab; returns when it answers or becomes visible.
    Away,
    /// Left out after two rounds in a row without an answer; returns when it answers or asks.
    SittingOut,
    /// Left out after too many refused updates, until the teacher lets it back in.
    Excluded,
    /// Connected, and not let in by the teacher yet.
    Waiting,
    /// Not connected: its socket is closed, or it never joined.
    #[default]
    Gone,
}

impl ClientState {
    /// Whether it can be asked for something.
    pub fn is_free(self) -> bool {
        matches!(self, Self::Joined | Self::Sent)
    }

    /// Whether it is part of the room now.
    pub fn is_here(self) -> bool {
        !matches!(self, Self::Gone | Self::Waiting)
    }

    /// Whether it has not answered a request and the room no longer waits for it.
    pub fn is_behind(self) -> bool {
        matches!(self, Self::Late | Self::Away | Self::SittingOut)
    }
}
