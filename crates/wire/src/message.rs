//! What relay and clients say to each other.

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, ClientId, Defence, KeyCheck, Rule, TrainingPictures, UpdateForm};

use crate::ShardHeader;

/// What a client must know to read encrypted weights, besides the passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionPlan {
    /// Salt of the key derivation; public.
    pub salt: [u8; 16],
    /// Check of the key that the weights are encrypted with.
    pub check: KeyCheck,
}

/// From a client to the relay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// First message on a socket.
    Hello {
        /// The name shown to the room.
        nickname: String,
        /// The ticket of an earlier [`RelayMessage::Welcome`], to come back as the same client.
        resume: Option<[u8; 16]>,
        /// The device in use, in words.
        device: String,
    },
    /// The device changed, or became known, after the hello.
    Device {
        /// The device in use, in words.
        device: String,
    },
    /// The model, encrypted for the room: answer to [`RelayMessage::Seal`]; the weights travel behind the header.
    Sealed {
        /// The policy number of the request.
        policy: u32,
        /// Check of the key it was encrypted with.
        check: KeyCheck,
    },
    /// The protected update of one round; its values travel behind the header, and behind them batch norm's running
    /// statistics in the plain, where the model has some.
    Update {
        /// The round whose plan it answers.
        round: u32,
        /// The policy number of that plan.
        policy: u32,
        /// Mean loss over the client's samples: at the plan's weights under FedSGD, over the first local epoch under
        /// FedAvg.
        loss: f32,
        /// Number of samples used.
        samples: u32,
        /// How its values are to be read.
        form: UpdateForm,
    },
    /// The client cannot take part in this round.
    Unable {
        round: u32,
        /// The policy number of that round's plan.
        policy: u32,
        /// Why, in words for people.
        reason: String,
        /// Whether all it lacks is the room's passphrase.
        is_locked: bool,
    },
    /// How close a reconstruction came to the client's own image, computed where that image is.
    Score {
        /// The round attacked.
        round: u32,
        /// The attack.
        attack: AttackMethod,
        /// Peak signal-to-noise ratio in dB.
        psnr: f32,
        /// Structural similarity.
        ssim: f32,
    },
}

/// From the relay to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// Answer to a hello.
    Welcome {
        /// The client's number in this room.
        client: ClientId,
        /// Ticket with which it can come back after a dropped socket.
        resume: [u8; 16],
        /// The nickname as the room shows it; differs from the one asked for if that was taken.
        nickname: String,
    },
    /// Asks one client to encrypt the model for the room. The plain weights travel behind the header (plain start), or
    /// nothing does (keyed start: the client makes fresh weights itself). It answers [`ClientMessage::Sealed`], or
    /// [`ClientMessage::Unable`] with round 0.
    Seal {
        /// Number of the policy.
        policy: u32,
        /// Model preset by name.
        model: String,
        /// Whether block 0 is the norm-free, residual-free one.
        april_block: bool,
        classes: u16,
        /// Salt of the key derivation; public.
        salt: [u8; 16],
    },
    /// What to do this round; the global weights travel behind the header, encrypted where `encryption` is there.
    Plan {
        round: u32,
        /// Number of the policy (defence, rule, model) the update must be made under.
        policy: u32,
        /// Model preset by name.
        model: String,
        /// Whether block 0 is the norm-free, residual-free one.
        april_block: bool,
        classes: u16,
        /// What to do to the update before it leaves.
        defence: Defence,
        /// What to compute.
        rule: Rule,
        /// Samples per step.
        batch: u16,
        pictures: TrainingPictures,
        /// How to read encrypted weights.
        encryption: Option<EncryptionPlan>,
    },
    /// The client's share of the room's data set: public pictures to train on beside its private ones. Labels and pixels
    /// travel behind the header.
    Shard(ShardHeader),
    /// The update of this round was taken.
    Accepted { round: u32 },
    Closed {
        round: u32,
        /// Mean loss over the updates that came, absent if none did.
        loss: Option<f32>,
        /// Number of updates averaged.
        updates: u32,
    },
    /// What an attack made of this client's update; the picture's values `[side, side, 3]` in `[0, 1]` travel behind
    /// the header.
    Reconstruction {
        /// The round attacked.
        round: u32,
        /// The attack.
        attack: AttackMethod,
        /// Side of the square picture in pixels.
        side: u16,
    },
    /// Something the client sent was refused; the connection stays open.
    Refused {
        /// Why, and what to do, in words for people.
        reason: String,
    },
    /// The connection is about to be closed by the relay.
    Goodbye {
        /// Why, in words for people.
        reason: String,
    },
}
