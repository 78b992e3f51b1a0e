//! What relay and clients say to each other.

use serde::{Deserialize, Serialize};
use unmask_core::{
    AttackMethod, ClientId, Defence, KeyCheck, ModelDescription, Rule, Scene, TrainingPictures, UpdateForm,
};

use crate::{ShardHeader, view::Answers};

/// What a client must know to read encrypted weights, besides the passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionPlan {
    /// Salt of the key derivation; public.
    pub salt: [u8; 16],
    /// Check of the key that the weights are encrypted with.
    pub check: KeyCheck,
}

/// What a client is to do in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanHeader {
    pub round: u32,
    /// Number of what the update must be made under: defence, rule, model and the rest.
    pub policy: u32,
    pub model: ModelDescription,
    pub defence: Defence,
    pub rule: Rule,
    /// Samples per step.
    pub batch: u16,
    pub pictures: TrainingPictures,
    pub encryption: Option<EncryptionPlan>,
}

/// From a client to the relay. `policy` is the number that came with the plan or request it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// First message on a socket; `resume` is the ticket of an earlier [`RelayMessage::Welcome`], to come back as the same
    /// client.
    Hello {
        nickname: String,
        resume: Option<[u8; 16]>,
        device: String,
        /// Whether the class may see what leaks of this client's picture; see [`ClientMessage::Consent`].
        may_show: bool,
    },
    /// The device changed, or became known, after the hello.
    Device { device: String },
    /// Whether the class may see what leaks of this client's picture: the student has said so, or it is a sample photograph.
    /// A client that did not agree is never attacked where others see it.
    Consent { may_show: bool },
    /// The tab went to the background, where browsers train slowly or not at all, or came back.
    Visibility { is_hidden: bool },
    /// Asks to be in the rounds again, after [`RelayMessage::SittingOut`].
    Return,
    /// Asks whether the relay is there; the answer is [`RelayMessage::Pong`]. Browsers show a page no pings of the socket's own.
    Ping,
    /// The model, encrypted for the room: answer to [`RelayMessage::Seal`]; the weights travel behind the header.
    Sealed { policy: u32, check: KeyCheck },
    /// The protected update of one round; its values travel behind the header, and behind them batch norm's running
    /// statistics in the plain, where the model has some.
    Update {
        round: u32,
        policy: u32,
        /// Mean loss over the client's samples: at the plan's weights under FedSGD, over the first local epoch under
        /// FedAvg.
        loss: f32,
        samples: u32,
        form: UpdateForm,
    },
    /// The client cannot take part in this round, for a reason in words; with `is_locked` all it lacks is the room's
    /// passphrase.
    Unable { round: u32, policy: u32, reason: String, is_locked: bool },
    /// How close a reconstruction came to the client's own image, computed where that image is; PSNR in dB.
    Score { round: u32, attack: AttackMethod, psnr: f32, ssim: f32 },
    /// An answer to the question of that number ([`OpenPoll::number`]), in place of an earlier one: the answer's place, from
    /// 0, or a number.
    Vote { poll: u32, answer: u16 },
    /// The client's own picture for the class to see beside what leaks of it; its pixels travel behind the header, see
    /// [`original_words`](crate::original_words). Refused without consent. The answer is [`RelayMessage::Original`].
    Original {
        /// In pixels; always [`ORIGINAL_SIDE`](crate::ORIGINAL_SIDE).
        side: u8,
    },
    /// Show that picture no more.
    HideOriginal,
    /// Delete whatever the room has of this client: pictures, cards, votes, its name on the roster and in the log. The relay
    /// says [`RelayMessage::Goodbye`] and knows it no more.
    Forget,
}

/// The question to the class, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPoll {
    /// Counts up; a vote names it.
    pub number: u32,
    pub question: String,
    pub answers: Answers,
    /// Whether votes are taken.
    pub is_open: bool,
    /// The right answer, if there is one; absent while the poll is open.
    pub correct: Option<u16>,
    /// What came, by answer or bin ([`Answers::counts`]); empty while the poll is open.
    pub counts: Vec<u32>,
}

/// Where the lesson is, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonState {
    pub scene: Scene,
    /// Step within the scene, from 0.
    pub beat: u8,
    /// The last question, open or closed, until the scene changes.
    pub poll: Option<OpenPoll>,
}

/// From the relay to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// Answer to a hello: a number, a ticket with which to come back once after a dropped socket, and the nickname as the
    /// room shows it, which differs from the one asked for if that was taken.
    Welcome { client: ClientId, resume: [u8; 16], nickname: String },
    /// Asks one client to encrypt the model for the room. The plain weights travel behind the header (plain start), or
    /// nothing does (keyed start: the client makes fresh weights itself). It answers [`ClientMessage::Sealed`], or
    /// [`ClientMessage::Unable`] with round 0.
    Seal { policy: u32, model: ModelDescription, salt: [u8; 16] },
    /// What to do this round; the global weights travel behind the header, encrypted where it has an encryption.
    Plan(PlanHeader),
    /// The client's share of the room's data set: public pictures to train on beside its private ones. Labels and pixels
    /// travel behind the header.
    Shard(ShardHeader),
    /// The teacher gave this client another nickname.
    Renamed { nickname: String },
    /// The client has not answered in two rounds and is left out of the next ones until it sends [`ClientMessage::Return`].
    SittingOut,
    /// Answer to [`ClientMessage::Ping`].
    Pong,
    /// The update of this round was taken.
    Accepted { round: u32 },
    /// A round is over: mean loss over the updates that came, absent if none did, and how many were averaged.
    Closed { round: u32, loss: Option<f32>, updates: u32 },
    /// What an attack made of this client's update; the picture's values `[side, side, 3]` in `[0, 1]` travel behind
    /// the header.
    Reconstruction { round: u32, attack: AttackMethod, side: u16 },
    /// Where the lesson is: after the welcome, and whenever it changes.
    Lesson(LessonState),
    /// Whether the class sees the client's own picture: after it has sent or hidden one, and when the relay drops it.
    Original { is_shown: bool },
    /// Something the client sent was refused, for a reason in words with the remedy; the connection stays open. An answer to
    /// what the room no longer asks is dropped without a word.
    Refused { reason: String },
    /// The connection is about to be closed by the relay.
    Goodbye { reason: String },
}
