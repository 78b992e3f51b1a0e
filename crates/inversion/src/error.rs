//! Reasons why an attack cannot run.

use unmask_attack::AttackError;

use crate::{DumpError, InferenceAttack, ScoreError};

/// The inversion failed. Messages suggest options of `unmask invert`.
#[derive(Debug, thiserror::Error)]
pub enum InversionError {
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Tensor(#[from] AttackError),
    #[error("{title} cannot work: {source}")]
    Attack { title: &'static str, source: AttackError },
    #[error("{title} cannot work: {why}")]
    NothingArrived { title: &'static str, why: String },
    #[error("labels cannot be read: {0}")]
    Labels(#[source] AttackError),
    #[error("membership cannot be determined: {0}")]
    Membership(#[source] AttackError),
    #[error(
        "{attack} needs the key that clients derive from their passphrase, which no file holds; a room shows it, as does \
         `unmask matrix --attacks {attack} --defences encrypted`"
    )]
    Key { attack: InferenceAttack },
    #[error("{attack} needs the weights in both forms; give --encrypted-weights too")]
    OneForm { attack: InferenceAttack },
    #[error("{file} is read by the attack known-start alone; leave --encrypted-weights out")]
    EncryptedWeights { file: String },
    #[error("{attack} attacks one update; give --gradients, or --attack rounds for {rounds}")]
    SeveralRounds { attack: InferenceAttack, rounds: String },
    #[error("{attack} reads the model's {name}; give --weights")]
    NoWeights { attack: InferenceAttack, name: String },
    #[error("the membership attack decides whether one picture was in the update; give --candidate")]
    NoCandidate,
    #[error("a batch of 0 pictures has no gradient; give --batch 1 or more")]
    EmptyBatch,
    #[error("--fedavg needs the weights that the client received; give them with --weights")]
    NoWeightsBefore,
    #[error(
        "{file} holds weights, not a gradient: they are close to those of --weights; add --fedavg rate=R,steps=N to attack the \
         difference"
    )]
    NearWeights { file: String },
    #[error(
        "{file} holds weights, not a gradient: its norms' scales are about 1; give the weights that the client received with \
         --weights, and --fedavg rate=R,steps=N, to attack the difference"
    )]
    UnitNorms { file: String },
    #[error("{file} has no linear layer after the blocks, whose gradient tells labels")]
    NoHead { file: String },
    #[error(transparent)]
    Score(#[from] ScoreError),
}
