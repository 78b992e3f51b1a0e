//! The lines of the file.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use unmask_core::ClientId;

use crate::change::Change;

/// Another one whenever what is written changes its form.
pub(crate) const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    /// The program's version, for people.
    pub(crate) program: String,
    /// When the lesson began, in seconds since 1970.
    pub(crate) began: u64,
}

/// One line, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Written {
    Recording(Head),
    Picture {
        /// As states name it.
        address: String,
        client: ClientId,
        is_original: bool,
        /// In base64.
        png: String,
    },
    State {
        /// Milliseconds since the recording began.
        at: u64,
        change: Change,
    },
}

/// The first line of a file of any format.
#[derive(Deserialize)]
pub(crate) struct AnyHead {
    pub(crate) recording: AnyFormat,
}

#[derive(Deserialize)]
pub(crate) struct AnyFormat {
    pub(crate) format: u32,
}

/// A picture that the class was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) address: String,
    pub(crate) client: ClientId,
    /// Whether it is the client's own, and not made of an update.
    pub(crate) is_original: bool,
    pub(crate) png: Vec<u8>,
}

/// One line, as it is kept: states in their text, which takes less memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Picture(Picture),
    State { at: u64, text: Box<str> },
}

impl Line {
    /// The state at `at` as what changed.
    pub(crate) fn state(at: u64, change: Change) -> serde_json::Result<Self> {
        Ok(Self::State { at, text: serde_json::to_string(&Written::State { at, change })?.into() })
    }

    /// How it is written, without its end.
    pub(crate) fn text(&self) -> serde_json::Result<String> {
        match self {
            Self::State { text, .. } => Ok(text.to_string()),
            Self::Picture(Picture { address, client, is_original, png }) => serde_json::to_string(&Written::Picture {
                address: address.clone(),
                client: *client,
                is_original: *is_original,
                png: STANDARD.encode(png),
            }),
        }
    }
}
