//! The messages between relay and clients.

use serde::{Deserialize, Serialize};
use unmask_core::{
    AttackMethod, ClientId, Defence, KeyCheck, ModelDescription, Rule, SecureSumSettings, TrainingPictures, UpdateForm,
};
use unmask_lesson::{Poll, Scene};
use unmask_secagg::{Confirmation, Delivery, Member, Message, PublicKeys};

use crate::{Listing, ServerPlan, ShardHeader};

/// Reason of [`RelayMessage::Goodbye`] when a newer socket comes with this one's ticket.
pub const TAKEN_OVER: &str = "this place in the room was taken over by another tab or connection";
/// Reason of [`RelayMessage::Goodbye`] after [`ClientMessage::Forget`]: nothing is left.
pub const FORGOTTEN: &str = "what this room had of you is deleted";
/// Reason of [`RelayMessage::Goodbye`] after [`ClientMessage::Forget`]: the relay's disk still holds it.
pub const FORGOTTEN_BUT: &str = "what this room had of you is deleted, but its disk cannot be written yet; it is tried \
                                 again every five seconds, so tell the teacher";

/// The public data that a client needs, with the passphrase, to decrypt weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionPlan {
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Check of the key that encrypts the weights.
    pub check: KeyCheck,
}

/// What a client needs, with the passphrase, to add its update to a secure sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SumPlan {
    /// Salt of the class's key.
    pub salt: [u8; 16],
    pub settings: SecureSumSettings,
    /// The check of the key in the last round's sum.
    pub check: Option<KeyCheck>,
    /// Least number of people in the sum.
    pub people: u32,
}

/// What a client of a secure sum needs for its next message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SumTask {
    /// Everybody's keys: deal shares.
    Roster(Vec<Member>),
    /// The shares from each of the others: send masked values.
    Deliveries(Vec<Delivery>),
    /// The clients in the sum: confirm them.
    Survivors(Vec<ClientId>),
    /// The others' confirmations: reveal shares.
    Confirmations(Vec<Confirmation>),
}

/// The task of a client in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanHeader {
    pub round: u32,
    /// Number of the policy (defence, rule, model and so on) that the update must follow.
    pub policy: u32,
    pub model: ModelDescription,
    pub defence: Defence,
    pub rule: Rule,
    /// Samples per step.
    pub batch: u16,
    pub pictures: TrainingPictures,
    pub encryption: Option<EncryptionPlan>,
    /// The answer is [`ClientMessage::SumKeys`] in place of an update.
    pub sum: Option<SumPlan>,
    /// The relay's half of the seed of each client's mask, drawn after the clients have committed to theirs.
    pub nonce: [u8; 16],
    /// A step of this round is made of at least this many updates. With two, each client can compute the other's.
    pub least: u32,
    /// What a careful client compares the weights with.
    pub server: ServerPlan,
}

/// The client's half of a mask's seed, and its commitment to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedDraw {
    /// The nonce that the client had committed to when the round began.
    pub nonce: [u8; 32],
    pub next: [u8; 32],
}

/// Another client's masked update, for a student to attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoanHeader {
    /// The question that it is for.
    pub poll: u32,
    /// The round whose weights the update was made from. The borrower has them if it took part.
    pub round: u32,
    pub model: ModelDescription,
    pub defence: Defence,
    pub rule: Rule,
    /// Samples per step.
    pub batch: u16,
    /// Samples of the update, according to its owner.
    pub samples: u32,
    pub form: UpdateForm,
}

/// A message from a client to the relay. `policy` is the number in the plan or request that it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// First message on a socket. `resume` is the ticket from an earlier [`RelayMessage::Welcome`] and makes this
    /// connection the same client.
    Hello {
        nickname: String,
        resume: Option<[u8; 16]>,
        device: String,
        /// See [`ClientMessage::Consent`].
        may_show: bool,
        /// See [`ClientMessage::Consent`].
        may_lend: bool,
        /// Whether nobody sits at it, so that people come first and its votes are shown apart.
        is_robot: bool,
        /// Commitment to the nonce of the next mask's seed.
        commitment: [u8; 32],
        /// The same on every socket of a page or program, and another once it was loaded again: it may have another
        /// picture then.
        page: [u8; 32],
    },
    /// The device changed or became known after the hello.
    Device { device: String },
    /// Whether the class may see what leaks of this client's picture: the student agreed, or the picture is a sample.
    /// Without consent, the client is never attacked in public. `may_lend`: whether other clients may also get its masked
    /// updates and attack them; without `may_show` it means nothing.
    Consent { may_show: bool, may_lend: bool },
    /// The tab went to the background, where browsers throttle or stop training, or came back.
    Visibility { is_hidden: bool },
    /// Asks to take part in rounds again after [`RelayMessage::SittingOut`].
    Return,
    /// Asks whether the relay is alive; the answer is [`RelayMessage::Pong`]. Browsers hide WebSocket pings from pages.
    Ping,
    /// Answer to [`RelayMessage::Seal`]. The encrypted weights follow the header.
    Sealed { policy: u32, check: KeyCheck },
    /// The protected update of one round. Its values follow the header; batch norm's running statistics, if the model
    /// has any, follow the values unprotected.
    Update {
        round: u32,
        policy: u32,
        /// Mean loss over the client's samples: at the plan's weights under FedSGD, over the first local epoch under
        /// FedAvg.
        loss: f32,
        samples: u32,
        form: UpdateForm,
        /// How the seed was drawn, under a mask of the client's own.
        draw: Option<SeedDraw>,
    },
    /// The client has trained, and is ready to add up: the answer to a plan with a secure sum.
    SumKeys {
        round: u32,
        policy: u32,
        /// As in [`ClientMessage::Update`].
        loss: f32,
        samples: u32,
        keys: PublicKeys,
        /// Distinguishes the class's key from others.
        check: KeyCheck,
    },
    /// The client's answer to a [`SumTask`]. Masked values follow the header, as `f32` of the same bits; `message` then has
    /// none.
    Sum { round: u32, policy: u32, message: Message },
    /// The client cannot take part in this round; `reason` is for people. If `is_locked`, only the room's passphrase is
    /// missing.
    Unable { round: u32, policy: u32, reason: String, is_locked: bool },
    /// Similarity of a reconstruction to the client's own image, computed by the client; PSNR in dB.
    Score { round: u32, attack: AttackMethod, psnr: f32, ssim: f32 },
    /// Answers question [`PollState::number`], replacing an earlier answer: the answer's index, from 0, or a number.
    Vote { poll: u32, answer: u16 },
    /// The student now attacks the [loan](RelayMessage::Loan) as somebody who knows the mask's gaps. Guesses that follow
    /// earn less.
    KnowGaps { poll: u32 },
    /// The client's own picture, for the class to see beside what leaks of it. Its values follow the header, see
    /// [`check_original`](crate::check_original). Refused without consent. The answer is [`RelayMessage::Original`].
    Original {
        /// Side in pixels; always [`ORIGINAL_SIDE`](crate::ORIGINAL_SIDE).
        side: u8,
    },
    /// Stops showing that picture.
    HideOriginal,
    /// Deletes everything that the room has of this client: pictures, cards, votes, its name on the roster and in the
    /// log. The relay answers with [`RelayMessage::Goodbye`] and forgets the client.
    Forget,
    /// The client leaves this round out because its weights look doctored; `reason` is for people.
    Doubtful { round: u32, policy: u32, reason: String },
}

/// A question to the class, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollState {
    /// Increases with each question; a vote refers to it.
    pub number: u32,
    /// Without the right answer until the lesson tells it.
    pub poll: Poll,
    pub is_open: bool,
    /// People's votes in each of the [`bins`](unmask_lesson::Answers::bins); empty while the question is open.
    pub counts: Vec<u32>,
}

/// The state of the lesson, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonState {
    pub scene: Scene,
    /// Step in the scene, from 0.
    pub beat: u8,
    /// The last question, open or closed, until the scene changes.
    pub poll: Option<PollState>,
    /// Whether the teacher asks clients to check plans carefully.
    pub is_careful: bool,
    /// Whether the teacher lets the relay cheat by doctored weights.
    pub is_doctored: bool,
}

/// A message from the relay to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// Answer to a hello: the client's number, a ticket to come back once after a dropped socket, and the nickname in
    /// the room, which differs from the requested one if that was taken.
    Welcome { client: ClientId, resume: [u8; 16], nickname: String },
    /// Answer to a hello before the welcome: the teacher lets people in one by one.
    Waiting,
    /// Asks one client to encrypt the model for the room. With a plain start, the plain weights follow the header; with
    /// a keyed start, the client makes fresh weights. It answers with [`ClientMessage::Sealed`], or with
    /// [`ClientMessage::Unable`] and round 0.
    Seal { policy: u32, model: ModelDescription, salt: [u8; 16] },
    /// The task of this round. The global weights follow the header, encrypted if the plan has an encryption.
    Plan(PlanHeader),
    /// The next step of a secure sum that this client is in.
    Sum { round: u32, policy: u32, task: SumTask },
    /// The client's share of the room's data set: public pictures to train on. Labels and pixels follow the header.
    Shard(ShardHeader),
    /// The client's new nickname, chosen by the teacher.
    Renamed { nickname: String },
    /// The client did not answer in two rounds and is left out until it sends [`ClientMessage::Return`].
    SittingOut,
    /// Answer to [`ClientMessage::Ping`].
    Pong,
    /// The update of this round was accepted.
    Accepted { round: u32 },
    /// A round is over: mean loss over the received updates, absent if there were none, and the number of averaged
    /// updates.
    Closed { round: u32, loss: Option<f32>, updates: u32 },
    /// The published list of a round's updates, after [`Self::Closed`] if the round has any.
    Listed(Listing),
    /// The result of an attack on this client's update. The picture's values `[side, side, 3]` in `[0, 1]` follow the
    /// header.
    Reconstruction { round: u32, attack: AttackMethod, side: u16 },
    /// The state of the lesson: sent after the welcome and on every change.
    Lesson(LessonState),
    /// Another client's update for this student to attack, exactly as its owner sent it. Its values follow the header; their
    /// number follows from model and form, as in [`ClientMessage::Update`]. Replaces an earlier loan for the same question.
    Loan(LoanHeader),
    /// The loan was withdrawn, and there is no other for now. The client must drop what it has of it.
    LoanEnded { poll: u32 },
    /// Whose update the loan was, as a position among the question's suspects, and the points for finding out.
    Scored { poll: u32, owner: u16, points: u8 },
    /// Whether the class sees the client's own picture, or whether it waits, with what leaks from it, until the teacher
    /// lets the class see it. Sent after the client sends or hides one, when the relay drops it, and when the wait
    /// begins or ends.
    Original { is_shown: bool, waits: bool },
    /// Something the client sent was refused; `reason` includes the remedy, and the connection stays open. Answers that
    /// the room no longer expects are dropped silently.
    Refused { reason: String },
    /// The relay is about to close the connection.
    Goodbye { reason: String },
}
