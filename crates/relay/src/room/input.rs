//! What the room's actor is told.

use tokio::sync::oneshot;
use unmask_wire::{ClientMessage, view::Control};

use super::{
    data_set::SharedDataSet, evaluation::Evaluation, federation::FederationInput, files::LessonFiles,
    roster::Connection, shadow::ShadowNews, ticket::Ticket,
};
use crate::{
    attacks::{CandidatePicture, GivenKey, Report},
    connection::outbox::Waiting,
    journal::Saved,
    peer::Peer,
};

#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) nickname: String,
    pub(crate) resume: Option<Ticket>,
    pub(crate) device: String,
    pub(crate) may_show: bool,
    pub(crate) peer: Peer,
}

/// A client's connection and what it shall be sent, or why it cannot come in.
pub(crate) type Admission = Result<(Connection, Waiting), String>;

/// What the actor is told. It has no debug form: a control may carry a passphrase.
pub(crate) enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: oneshot::Sender<Admission> },
    /// A message came; `bytes` is its length on the socket.
    Message { connection: Connection, message: ClientMessage, values: Vec<f32>, bytes: u64, done: Done },
    /// A socket said something that it must be closed for.
    Misbehaved { connection: Connection, reason: String },
    /// So many connections were refused before any hello.
    TurnedAway { count: u64, reason: String },
    /// A socket closed.
    Left { connection: Connection, reason: Option<String> },
    /// The teacher wants something.
    Control { control: Control, reply: Reply },
    /// The teacher dropped a picture.
    Candidate { picture: CandidatePicture, reply: Reply },
    /// A passphrase that the teacher gave away has become a key, or is the wrong one.
    KeyDerived { key: Result<GivenKey, String>, reply: Reply },
    /// The data set that the teacher asked for is in memory, or cannot be.
    DataSetLoaded { data_set: Result<Box<SharedDataSet>, String>, reply: Reply },
    /// The room has another PIN, after so many others, since too many wrong ones were tried.
    PinRenewed { pin: String, number: u32 },
    /// News of an attack.
    Attacked(Report),
    /// A model was measured.
    Evaluated(Evaluation),
    /// News of the robots beside the class.
    Shadow(ShadowNews),
    /// News of the federation that the room is in.
    Federation(FederationInput),
    /// The room was written down, or could not be.
    Journaled(Saved),
    /// Something that the class should know of the recording.
    Recorded(String),
    /// The teacher, or whoever started the relay, takes the recording, packed; dropped where none is made.
    Recording { reply: oneshot::Sender<Result<Vec<u8>, String>> },
    /// The teacher takes the lesson home.
    Download { reply: oneshot::Sender<Box<LessonFiles>> },
}

impl Input {
    /// Whether it changes what the journal keeps, between two rounds.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Self::Hello { .. }
            | Self::Misbehaved { .. }
            | Self::Left { .. }
            | Self::Control { .. }
            | Self::DataSetLoaded { .. }
            | Self::PinRenewed { .. } => true,
            Self::Message { message, .. } => {
                matches!(
                    message,
                    ClientMessage::Device { .. }
                        | ClientMessage::Consent { .. }
                        | ClientMessage::Sealed { .. }
                        | ClientMessage::Vote { .. }
                        | ClientMessage::Forget
                )
            }
            Self::TurnedAway { .. }
            | Self::Candidate { .. }
            | Self::KeyDerived { .. }
            | Self::Attacked(_)
            | Self::Evaluated(_)
            | Self::Shadow(_)
            | Self::Federation(_)
            | Self::Journaled(_)
            | Self::Recorded(_)
            | Self::Recording { .. }
            | Self::Download { .. } => false,
        }
    }
}

/// Dropped once a message is dealt with.
pub(crate) type Done = oneshot::Sender<()>;

/// Tells the teacher that it is done, or why it cannot be.
pub(crate) type Reply = oneshot::Sender<Result<(), String>>;
