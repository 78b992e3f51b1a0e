//! Inputs of the room's actor.

use tokio::sync::oneshot;
use unmask_recording::RecordingError;
use unmask_wire::{ClientMessage, view::Control};

use super::{
    control_error::ControlError,
    data_set::{LoadError, SharedDataSet},
    door::NoEntry,
    evaluation::Evaluation,
    files::LessonFiles,
    outer::OuterInput,
    roster::Connection,
    shadow::ShadowNews,
    ticket::Ticket,
};
use crate::{
    attacks::{CandidatePicture, GivenKey, GivenKeyError, Report},
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
    pub(crate) may_lend: bool,
    pub(crate) is_robot: bool,
    pub(crate) peer: Peer,
}

/// A client's connection and its outgoing messages, or the reason why it may not come in.
pub(crate) type Admission = Result<(Connection, Waiting), NoEntry>;

/// An input of the actor. It has no `Debug`, because a control may carry a passphrase.
pub(crate) enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: oneshot::Sender<Admission> },
    /// A message arrived; `bytes` is its length on the socket.
    Message { connection: Connection, message: ClientMessage, values: Vec<f32>, bytes: u64, done: Done },
    /// A socket broke the protocol and must be closed.
    Misbehaved { connection: Connection, reason: String },
    /// `count` connections were refused before their hello.
    TurnedAway { count: u64, reason: String },
    /// A socket closed.
    Left { connection: Connection, reason: Option<String> },
    /// A control from the teacher.
    Control { control: Control, reply: Reply },
    /// The teacher dropped a picture.
    Candidate { picture: CandidatePicture, reply: Reply },
    /// The key derived from the teacher's passphrase, or the reason why it is wrong.
    KeyDerived { key: Result<GivenKey, GivenKeyError>, reply: Reply },
    /// The data set that the teacher asked for, or the reason why it cannot be loaded.
    DataSetLoaded { data_set: Result<Box<SharedDataSet>, LoadError>, reply: Reply },
    /// The room has a new PIN after too many wrong tries; `number` PINs came before it.
    PinRenewed { pin: String, number: u32 },
    /// A report from an attack.
    Attacked(Report),
    /// The result of measuring a model.
    Evaluated(Evaluation),
    /// A report from the robots that train beside the class.
    Shadow(ShadowNews),
    /// Input from the outer federation.
    Outer(OuterInput),
    /// The result of saving the room.
    Journaled(Saved),
    /// A line about the recording for the class.
    Recorded(String),
    /// Asks for the packed recording, on behalf of the teacher or the program that started the relay. `reply` is
    /// dropped if there is no recording.
    Recording { reply: oneshot::Sender<Result<Vec<u8>, RecordingError>> },
    /// The teacher downloads the lesson.
    Download { reply: oneshot::Sender<Box<LessonFiles>> },
}

impl Input {
    /// Whether it changes what the journal stores, between two rounds.
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
            | Self::Outer(_)
            | Self::Journaled(_)
            | Self::Recorded(_)
            | Self::Recording { .. }
            | Self::Download { .. } => false,
        }
    }
}

/// Dropped once a message is dealt with.
pub(crate) type Done = oneshot::Sender<()>;

/// Tells the teacher whether the request succeeded.
pub(crate) type Reply = oneshot::Sender<Result<(), ControlError>>;
