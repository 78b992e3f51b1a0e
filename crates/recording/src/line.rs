//! The lines of the file.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use unmask_core::ClientId;

use crate::change::Change;

/// Version of the file format; increases with every change of it.
pub(crate) const FORMAT: u32 = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    /// The program's version, for people.
    pub(crate) program: String,
    /// Start of the lesson, in seconds since 1970.
    pub(crate) began: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Written {
    Recording(Head),
    Picture {
        /// The name used in states.
        address: String,
        client: ClientId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<ClientId>,
        is_original: bool,
        /// In base64.
        png: String,
    },
    State {
        at: u64,
        change: Change,
    },
}

/// The first line of a file in any version of the format.
#[derive(Deserialize)]
pub(crate) struct AnyHead {
    pub(crate) recording: AnyFormat,
}

#[derive(Deserialize)]
pub(crate) struct AnyFormat {
    pub(crate) format: u32,
}

/// A picture that the class saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) address: String,
    pub(crate) client: ClientId,
    /// Others whose updates it was reconstructed from.
    pub(crate) others: Vec<ClientId>,
    /// Whether it is the client's own, not a reconstruction.
    pub(crate) is_original: bool,
    pub(crate) png: Vec<u8>,
}

/// A line as kept in memory: states as text, which takes less memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Picture(Picture),
    State { at: u64, text: Box<str> },
}

impl Line {
    pub(crate) fn state(at: u64, change: Change) -> serde_json::Result<Self> {
        Ok(Self::State { at, text: serde_json::to_string(&Written::State { at, change })?.into() })
    }

    /// The line as written, without its line break.
    pub(crate) fn text(&self) -> serde_json::Result<String> {
        match self {
            Self::State { text, .. } => Ok(text.to_string()),
            Self::Picture(Picture { address, client, others, is_original, png }) => {
                serde_json::to_string(&Written::Picture {
                    address: address.clone(),
                    client: *client,
                    others: others.clone(),
                    is_original: *is_original,
                    png: STANDARD.encode(png),
                })
            }
        }
    }
}
