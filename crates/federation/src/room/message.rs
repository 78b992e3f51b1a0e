//! What a room is told, and what it asks for.

use std::sync::Arc;

use unmask_core::{Architecture, ClientId, KeyCheck, ModelState, RoundSettings};
use unmask_defence::ProtectedUpdate;

use super::{GlobalModel, Refusal};
use crate::Overflow;

#[derive(Debug, Clone)]
pub enum Event {
    /// A client is there: new, again, or on a new socket. It is in the rounds again, unless it was left out for its updates.
    Joined(ClientId),
    /// Its socket closed.
    Left(ClientId),
    /// A client that left will not come back: what was remembered of it can go.
    Forgotten(ClientId),
    /// A client's tab went to the background, or came back. There it is asked as before, but a round is not held up for it,
    /// and its silence is not held against it.
    Visibility { client: ClientId, is_hidden: bool },
    /// A client that is late, away or sitting out asks to be in the rounds again.
    Return(ClientId),
    /// A client's update came.
    Update(ReceivedUpdate),
    /// A client that is there was given so many pictures of the room's data set to train on, until it leaves. Without it an
    /// update counts as one batch at most.
    Given { client: ClientId, pictures: u32 },
    /// The teacher takes a client in again that was left out for its refused updates.
    Readmit(ClientId),
    /// A client cannot take part in the round, or cannot encrypt the model (round 0).
    Unable { client: ClientId, round: u32, policy: u32 },
    /// It encrypted the model, as asked for by [`Effect::Seal`]; the weights are `[P]` in layout order.
    Sealed { client: ClientId, policy: u32, check: KeyCheck, weights: Vec<f32> },
    /// The time armed by [`Effect::Deadline`] is over.
    Deadline { round: u32, policy: u32 },
    /// Fresh random bytes for the next seal, as asked for by [`Effect::NeedSalt`]; may also come before.
    Salt([u8; 16]),
    /// The pause asked for by [`Effect::Rest`] is over.
    Begin,
    /// Run round after round.
    Start,
    /// Run one round, then stop.
    OneRound,
    /// Let the running round end, then stop.
    Pause,
    /// From the next round on, these settings. Where [`Room::needs_new_model`](super::Room::needs_new_model) says so, they
    /// wait for an [`Event::SetModel`].
    SetSettings(RoundSettings),
    /// From the next round on, this model, from round 1 again.
    SetModel(GlobalModel),
    /// From the next round on, these weights of the model in force, as a server above this one averaged them. Rounds count on;
    /// the optimiser begins anew. Nothing comes of them where the model is encrypted, is to change, or is of another size.
    /// `None` takes back those that no round has begun with.
    SetWeights(Option<ModelState>),
    /// Drop the running round and begin again with this model, paused.
    Reset(GlobalModel),
}

/// An update as it came in.
#[derive(Debug, Clone)]
pub struct ReceivedUpdate {
    pub client: ClientId,
    /// The round it answers.
    pub round: u32,
    /// The policy it was made under.
    pub policy: u32,
    /// On the client's samples.
    pub loss: f32,
    pub samples: u32,
    pub update: ProtectedUpdate,
    /// Batch norm's running statistics, `[Q]`, in the plain; empty for a ViT.
    pub statistics: Vec<f32>,
}

/// What the caller has to do.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send the plan of the round to its cohort.
    Plan {
        cohort: Vec<ClientId>,
        round: u32,
        policy: u32,
        settings: RoundSettings,
        /// Salt and check of the key, if the weights are encrypted.
        encryption: Option<([u8; 16], KeyCheck)>,
        model: Arc<GlobalModel>,
    },
    /// Send [`Event::Salt`] back with 16 fresh random bytes.
    NeedSalt,
    /// Ask this client to encrypt the model.
    Seal {
        client: ClientId,
        policy: u32,
        /// What the key is derived with, besides the passphrase.
        salt: [u8; 16],
        architecture: Architecture,
        /// The model to encrypt; `None` where the client is to make its own, which nobody else ever sees in the plain.
        model: Option<Arc<GlobalModel>>,
    },
    /// Send [`Event::Deadline`] back when the time for a round, or for a seal (round 0), is over.
    Deadline { round: u32, policy: u32 },
    /// Enough of the cohort has answered. Send [`Event::Deadline`] of this round once twice the median time that they took
    /// has passed, if that is sooner. Where `awaited`, somebody is at work who is in sight and answers as a rule: leave them
    /// time, however fast the others are.
    Quorum { round: u32, policy: u32, awaited: bool },
    /// Send [`Event::Begin`] back after the pause between rounds.
    Rest,
    /// Tell the client that its update was taken.
    Accepted { client: ClientId, round: u32 },
    /// Tell the client what was refused and why.
    Refused { client: ClientId, refusal: Refusal },
    /// The client is in no cohort any more, after so many refusals in a row, until [`Event::Readmit`] or [`Event::Reset`].
    Excluded { client: ClientId, refusals: u32 },
    /// The client answered nothing in two rounds in a row and is in no cohort any more. Any answer, [`Event::Return`] or
    /// [`Event::Joined`] ends that; until its next answer no round is held up for it.
    SittingOut(ClientId),
    /// The values of an update that was averaged or refused. Their memory is worth keeping for an update to come: fresh
    /// memory for a large model costs the operating system more time than the update's sums.
    Spent(Vec<f32>),
    /// The model was encrypted by this client; rounds can begin.
    Sealed(ClientId),
    /// A round is over, and the weights are the new ones.
    Closed(RoundSummary),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RoundSummary {
    pub round: u32,
    /// What it ran under.
    pub settings: RoundSettings,
    /// Number of updates averaged.
    pub updates: u32,
    /// Number of updates that were more than [`CLIP_FACTOR`](crate::CLIP_FACTOR) times as large as usual: those averaged that
    /// count less for it, and those left out for it, which are not among `updates`.
    pub clipped: u32,
    /// Number of updates that were left out because they pointed against the others. They are not among `updates`.
    pub opposed: u32,
    /// Number of samples behind them.
    pub samples: u64,
    /// Mean of the plausible losses reported, if there are any.
    pub loss: Option<f32>,
    /// The plausible ones themselves.
    pub losses: Vec<(ClientId, f32)>,
    /// Why no step was taken although there were updates. Weights, statistics and optimiser are then as they were.
    pub void: Option<Void>,
    /// Who was in the cohort and in sight, and did not answer in time.
    pub late: Vec<ClientId>,
}

/// Why a round ended without a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    /// No step can be taken on so large a mean.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// Not enough clients answered.
    #[error("only {updates} of at least {least} updates came")]
    TooFew {
        /// Updates that came.
        updates: u32,
        /// Updates that a step takes.
        least: u32,
    },
}
