//! Events for a room, and effects that it requests.

use std::sync::Arc;

use unmask_core::{Architecture, ClientId, KeyCheck, ModelState, RoundSettings};
use unmask_defence::ProtectedUpdate;
use unmask_secagg::{Message, Next, Terms};

use super::{Accepted, GlobalModel, ReceivedKeys, Refusal, Refused};
use crate::Overflow;

#[derive(Debug, Clone)]
pub enum Event {
    /// A client connected, for the first time or again. It takes part in rounds, unless it was excluded for its
    /// updates.
    Joined(ClientId),
    /// Nobody sits at the client that is about to join, so its update hides nobody's.
    Robot(ClientId),
    /// Whether a client, or one that is about to join, agrees to be attacked in front of the class. It does not until
    /// then.
    Consent { client: ClientId, consents: bool },
    /// Whether later rounds ask only clients that [consent](Event::Consent).
    AskOnlyConsenting(bool),
    /// A client's socket closed.
    Left(ClientId),
    /// A client that left will not come back: its record can go.
    Forgotten(ClientId),
    /// A client's tab went to the background or came back. In the background it is asked as before, but a round does
    /// not wait for it, and its silence does not count against it.
    Visibility { client: ClientId, is_hidden: bool },
    /// A client that is late, away or sitting out asks to take part again.
    Return(ClientId),
    /// A client's update arrived. The room checks it and adds or refuses it.
    Update(ReceivedUpdate),
    /// The same, after [`Room::accept`](super::Room::accept) has checked it, so that an accepted update can be read
    /// before the room takes it.
    Checked(Result<Accepted, Refused>),
    /// The terms of the running round's secure sum. Send them after the plan, if the round has one.
    SumTerms(Terms),
    /// A client has trained, and answers the plan of a secure sum with its keys.
    SumKeys(ReceivedKeys),
    /// A client of a secure sum answers what [`Effect::Sum`] asked.
    Sum { client: ClientId, round: u32, policy: u32, message: Message },
    /// The client's late update that follows came as quickly as rounds wait for anybody.
    Quick(ClientId),
    /// A connected client was given this many pictures of the room's data set, until it leaves. Otherwise its update
    /// counts as at most one batch.
    Given { client: ClientId, pictures: u32 },
    /// The teacher lets a client back in that was left out for refused updates.
    Readmit(ClientId),
    /// A client that is about to join is left out until the teacher lets it in, as after refused updates.
    LeaveOut(ClientId),
    /// A client cannot take part in the round, or cannot encrypt the model (round 0). `is_locked` if only for lack of the
    /// passphrase, which somebody may be typing.
    Unable { client: ClientId, round: u32, policy: u32, is_locked: bool },
    /// A client leaves the round out because its weights look doctored. It is asked again, and later rounds wait for it.
    Doubtful { client: ClientId, round: u32, policy: u32 },
    /// A client encrypted the model as [`Effect::Seal`] asked; the weights are `[P]` in layout order.
    Sealed { client: ClientId, policy: u32, check: KeyCheck, weights: Vec<f32> },
    /// Nobody has answered for a while in a round that runs.
    Waited { round: u32, policy: u32 },
    /// The time set by [`Effect::SetDeadline`] is over.
    Deadline { round: u32, policy: u32 },
    /// Fresh random bytes for the next encryption, as [`Effect::NeedSalt`] asked; may also arrive earlier.
    Salt([u8; 16]),
    /// The pause that [`Effect::Rest`] asked for is over.
    Begin,
    /// Runs round after round.
    Start,
    /// Runs one round, then stops.
    OneRound,
    /// Stops after the current round.
    Pause,
    /// Whether no round begins from now on. The choices made before it is taken back belong together.
    BeginNothing(bool),
    /// Uses these settings from the next round on. If [`Room::needs_new_model`](super::Room::needs_new_model), they
    /// wait for an [`Event::SetModel`].
    SetSettings(RoundSettings),
    /// Uses this model from the next round on, which is round 1 again.
    SetModel(GlobalModel),
    /// Uses these weights of the current model from the next round on, such as averages from a server above this one.
    /// Round numbers continue; the optimiser starts again. Ignored if the model is encrypted, will change or has
    /// another size. `None` withdraws weights that no round has used.
    SetWeights(Option<ModelState>),
    /// Sends these weights `[P]` of the current model to the clients of later rounds in place of its own, as a dishonest
    /// relay would. Such rounds take no step. `None` ends that, and so does another model.
    SendDoctored(Option<Vec<f32>>),
    /// Drops the current round and starts again with this model, paused.
    Reset(GlobalModel),
}

#[derive(Debug, Clone)]
pub struct ReceivedUpdate {
    pub client: ClientId,
    pub round: u32,
    pub policy: u32,
    /// Mean loss on the client's samples.
    pub loss: f32,
    pub samples: u32,
    pub update: ProtectedUpdate,
    /// Batch norm's running statistics, `[Q]`, unprotected; empty without batch norm.
    pub statistics: Vec<f32>,
}

/// A task for the caller, or news from the room.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send the plan of the round to its cohort.
    Plan {
        cohort: Vec<ClientId>,
        round: u32,
        policy: u32,
        settings: RoundSettings,
        /// Salt and key check, if the weights are encrypted.
        encryption: Option<([u8; 16], KeyCheck)>,
        model: Arc<GlobalModel>,
        /// Whether the model's weights are [doctored](Event::SendDoctored).
        is_doctored: bool,
        /// A step of this round is made of at least this many updates.
        least: u32,
    },
    /// Send [`Event::Salt`] with 16 fresh random bytes.
    NeedSalt,
    /// Ask this client to encrypt the model.
    Seal {
        client: ClientId,
        policy: u32,
        /// Salt of the key derivation.
        salt: [u8; 16],
        architecture: Architecture,
        /// The model to encrypt; `None` if the client makes its own, which nobody else sees unencrypted.
        model: Option<Arc<GlobalModel>>,
    },
    /// Send [`Event::Deadline`] when the time for a round, or for an encryption (round 0), is over.
    SetDeadline { round: u32, policy: u32 },
    /// Enough of the cohort has answered. Send this round's [`Event::Deadline`] after twice the clients' median time,
    /// if that is sooner. `awaited` means that a working client is in the foreground and usually answers: leave it some
    /// time, however fast the others are.
    Quorum { round: u32, policy: u32, awaited: bool },
    /// Send the clients of the secure sum what they need for their next message.
    Sum { round: u32, policy: u32, next: Next },
    /// Send [`Event::Deadline`] when the time for one message of a secure sum is over.
    /// `is_long` if the message has as many values as an update.
    SetSumDeadline { round: u32, policy: u32, is_long: bool },
    /// These clients left a secure sum, because this one's keys or shares do not fit. One side lies, or has another
    /// passphrase.
    Accused { client: ClientId, by: Vec<ClientId> },
    /// The mean of these clients' updates is known from their secure sum.
    Summed {
        round: u32,
        settings: RoundSettings,
        clients: Vec<ClientId>,
        /// Whether each of them says that it trained on one picture.
        is_of_single_pictures: bool,
        /// Whether `model` is doctored.
        is_doctored: bool,
        /// `[P]`
        mean: Vec<f32>,
        /// The model from which the clients made their updates.
        model: Arc<GlobalModel>,
    },
    /// Send [`Event::Begin`] after the pause between rounds.
    Rest,
    /// Tell the client that its update was accepted.
    Accepted { client: ClientId, round: u32 },
    /// Tell the client what was refused and why.
    Refused { client: ClientId, refusal: Refusal },
    /// The client is excluded after this many refusals in a row, until [`Event::Readmit`] or [`Event::Reset`].
    Excluded { client: ClientId, refusals: u32 },
    /// The client did not answer in two rounds in a row and is left out. Any answer, [`Event::Return`] or
    /// [`Event::Joined`] ends that; until its next answer, no round waits for it.
    SittingOut(ClientId),
    /// The values of an update that was added or refused. Reuse their memory for a later update: for a large model,
    /// allocating fresh memory takes longer than adding the update.
    Spent(Vec<f32>),
    /// This client's encrypted model was taken; rounds can start.
    SealTaken(ClientId),
    /// A round is over, and the weights are updated.
    Closed(RoundSummary),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RoundSummary {
    pub round: u32,
    /// Settings of the round.
    pub settings: RoundSettings,
    /// Number of averaged updates.
    pub updates: u32,
    /// Number of updates more than [`CLIP_FACTOR`](crate::CLIP_FACTOR) times as large as usual: either averaged with
    /// less weight, or left out and not in `updates`.
    pub clipped: u32,
    /// The clients whose updates were much larger than the others of this round. Fewer than `clipped` where all grew.
    pub large: Vec<ClientId>,
    /// Number of updates left out because they pointed against the others; not in `updates`.
    pub opposed: u32,
    /// Number of samples behind the averaged updates.
    pub samples: u64,
    /// Mean of the plausible losses, if any.
    pub loss: Option<f32>,
    /// The plausible losses.
    pub losses: Vec<(ClientId, f32)>,
    /// Why no step was taken despite updates. Weights, statistics and optimiser are then unchanged.
    pub void: Option<Void>,
    /// Clients of the cohort in the foreground that did not answer in time.
    pub late: Vec<ClientId>,
}

/// Why a round ended without a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    /// The mean is too large for a step.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// Too few clients answered.
    #[error("only {updates} of at least {least} updates came")]
    TooFew {
        /// Updates received.
        updates: u32,
        /// Updates required for a step.
        least: u32,
    },
    /// The clients got doctored weights.
    #[error("its clients got doctored weights")]
    Doctored,
    /// The clients of a secure sum did not carry it to its end.
    #[error(transparent)]
    Sum(#[from] unmask_secagg::Void),
    /// The secure sum is beyond what clipped updates add up to.
    #[error("the secure sum is larger than clipped updates can make it: somebody sent an update that is not clipped")]
    NotClipped,
    /// The secure sum says that more clients kept a value than sent one.
    #[error("the secure sum counts more clients than sent anything: somebody counted itself more than once")]
    Miscounted,
    /// The secure sum of a round could not begin.
    #[error("the secure sum cannot begin with these settings")]
    NoSum,
    /// Too few people answered. With fewer, one could compute another's update from the step.
    #[error(
        "only {people} of at least {least} updates came from people; with fewer, one could compute another's update"
    )]
    TooFewPeople {
        /// Updates received from people.
        people: u32,
        /// Updates of people required for a step.
        least: u32,
    },
}

impl Void {
    /// Whether more updates would have made a step.
    pub(super) fn is_lack(self) -> bool {
        matches!(self, Self::TooFew { .. } | Self::TooFewPeople { .. })
    }
}
