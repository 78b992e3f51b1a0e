//! Errors between a node and its SuperLink.

#[derive(Debug, thiserror::Error)]
pub enum FlowerError {
    #[error("{address:?} is not the address of a SuperLink: {reason}; write one such as http://192.168.1.5:9092")]
    Address { address: String, reason: String },
    #[error("the SuperLink's certificates: {0}")]
    Certificates(String),
    #[error(
        "{call}: no answer from the SuperLink at {address}: {reason}; is it running, and can this machine reach it?"
    )]
    Unreachable { call: &'static str, address: String, reason: String },
    #[error("{call}: the SuperLink at {address} answered {status}{detail}; {remedy}")]
    Refused {
        call: &'static str,
        address: String,
        status: u16,
        /// Flower's own code, if the answer has one.
        code: Option<i64>,
        /// The SuperLink's message after a colon, or nothing.
        detail: String,
        remedy: &'static str,
    },
    #[error(
        "{call}: the SuperLink's answer cannot be used: {reason}; nodes of this version speak the Fleet API of flwr 1.41"
    )]
    Answer { call: &'static str, reason: String },
    #[error(
        "the SuperLink at {address} counts a node with this key as connected: a node that was killed is gone after a \
         minute, and a node that runs elsewhere needs its own key"
    )]
    Present { address: String },
    #[error("the SuperLink no longer knows this node; it may have been restarted")]
    Unknown,
    #[error("the reply's time is up: {0}")]
    Late(Box<FlowerError>),
}

impl FlowerError {
    /// Whether the same call may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 502..=504),
            Self::Address { .. }
            | Self::Certificates(_)
            | Self::Answer { .. }
            | Self::Present { .. }
            | Self::Unknown
            | Self::Late(_) => false,
        }
    }

    /// Whether the user's input is unusable, regardless of the SuperLink.
    pub fn is_misspelt(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::Certificates(_))
    }

    /// Whether a retry with the same options is futile, because the key, the address or the certificate is wrong.
    pub fn is_final(&self) -> bool {
        match self {
            _ if self.is_misspelt() => true,
            Self::Refused { status, code, .. } => {
                *status == 401 || *code == Some(ACTIVATION_FAILED) || *code == Some(REGISTRATION_DISABLED)
            }
            _ => false,
        }
    }
}

/// Flower's error codes that a node acts on.
pub(crate) const KEY_IN_USE: i64 = 23;
pub(crate) const REGISTRATION_DISABLED: i64 = 2001;
pub(crate) const ACTIVATION_FAILED: i64 = 2004;
pub(crate) const RUN_ENDED: i64 = 2007;

/// Why a node's key cannot be read or generated.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the node's key {path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("the node's key {path}: {reason}; make one with: ssh-keygen -t ecdsa -b 384 -N \"\" -f FILE")]
    Format { path: String, reason: String },
    #[error("the operating system gives no random numbers for a key: {0}")]
    Random(String),
}
