//! Inputs of the room.

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
    journaling::Saved,
    outbox::Waiting,
    peer::Peer,
    reply::Reply,
};

#[derive(Debug)]
pub struct Hello {
    pub nickname: String,
    pub resume: Option<Ticket>,
    pub device: String,
    pub may_show: bool,
    pub may_lend: bool,
    pub is_robot: bool,
    /// See [`ClientMessage::Hello`](unmask_wire::ClientMessage::Hello).
    pub commitment: [u8; 32],
    /// See [`ClientMessage::Hello`](unmask_wire::ClientMessage::Hello).
    pub page: [u8; 32],
    pub peer: Peer,
    /// Number of the room's keys before the one that it knows.
    pub keys: u32,
    /// Whether the program that opened the room started this client too. `is_robot` is a claim that anybody can make.
    pub is_own: bool,
}

impl Hello {
    /// The hello in a client's message, with what its host knows of it; `None` if it is another message.
    pub fn of(message: ClientMessage, peer: Peer, keys: u32, is_own: bool) -> Option<Self> {
        match message {
            ClientMessage::Hello { nickname, resume, device, may_show, may_lend, is_robot, commitment, page } => {
                Some(Self {
                    nickname,
                    resume,
                    device,
                    may_show,
                    may_lend,
                    is_robot,
                    commitment,
                    page,
                    peer,
                    keys,
                    is_own,
                })
            }
            _ => None,
        }
    }
}

/// A client's connection and its outgoing messages, or the reason why it may not come in.
pub type Admission = Result<(Connection, Waiting), NoEntry>;

/// An input of the room. It has no `Debug`, because a control may carry a passphrase.
pub enum Input {
    /// A socket has said hello.
    Hello { hello: Hello, reply: Reply<Admission> },
    /// A message arrived; `bytes` is its length on the socket. The answer says that the room has dealt with it.
    Message { connection: Connection, message: ClientMessage, values: Vec<f32>, bytes: u64, done: Reply<()> },
    /// A socket broke the protocol and must be closed.
    Misbehaved { connection: Connection, reason: String },
    /// `count` connections were refused before their hello.
    TurnedAway { count: u64, reason: String },
    /// A socket closed.
    Left { connection: Connection, reason: Option<String> },
    /// A control from the teacher.
    Control { control: Control, reply: Answer },
    /// The teacher dropped a picture.
    Candidate { picture: CandidatePicture, reply: Answer },
    /// The key derived from the teacher's passphrase, or the reason why it is wrong.
    KeyDerived { key: Result<GivenKey, GivenKeyError>, reply: Answer },
    /// The data set that the teacher asked for, or the reason why it cannot be loaded.
    DataSetLoaded { data_set: Result<Box<SharedDataSet>, LoadError>, reply: Answer },
    /// The room has a new PIN after too many wrong tries; `number` PINs came before it.
    PinRenewed { pin: String, number: u32 },
    /// The students have another key, and another PIN, after so many.
    KeyRenewed { qr_svg: String, keys: u32, pin: String, pins: u32 },
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
    Recording { reply: Reply<Result<Vec<u8>, RecordingError>> },
    /// The teacher downloads the lesson.
    Download { reply: Reply<Box<LessonFiles>> },
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
            | Self::PinRenewed { .. }
            | Self::KeyRenewed { .. } => true,
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

/// Tells the teacher whether the request succeeded.
pub type Answer = Reply<Result<(), ControlError>>;
