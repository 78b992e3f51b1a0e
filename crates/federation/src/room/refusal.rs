//! Why something was refused.

use unmask_core::{Defence, StatisticsError};
use unmask_defence::UpdateError;

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The round is over, or not yet begun.
    #[error("the update is for round {update}, but {}", match current { Some(round) => format!("round {round} is running"), None => "no round is running".to_owned() })]
    Stale {
        /// The update's round.
        update: u32,
        /// The running round.
        current: Option<u32>,
    },
    /// Made under another policy than its round's.
    #[error("the update was made under policy {update}, the round runs under policy {current}; it is not mixed in")]
    Policy {
        /// The update's policy.
        update: u32,
        /// The round's policy.
        current: u32,
    },
    /// Not in the cohort, which is frozen when a round begins.
    #[error("this round began without this client; it is in from the next round on")]
    NotInCohort,
    /// A second update in one round.
    #[error("an update for round {round} was already taken")]
    Twice {
        /// The round.
        round: u32,
    },
    /// Dense where masked was asked for, or the other way round, or another rate.
    #[error("the update is {sent}, the round's defence is {defence}")]
    OtherDefence {
        /// What the update looks like.
        sent: String,
        /// What was asked for.
        defence: Defence,
    },
    /// A mask seed that was used before in this room.
    #[error("its mask seed was used before; a seed must be fresh for each round and client")]
    SeedReused,
    /// A seed of its own under the frozen mask.
    #[error("its mask is not the common frozen one; all clients must use the same under {0}")]
    SeedNotCommon(Defence),
    /// Encrypted with another key than the model.
    #[error("the update was encrypted with another key than the room's; check the passphrase")]
    OtherKey,
    /// A number of samples that cannot be a weight.
    #[error("{0} samples cannot be counted; an update stands for 1 to 1000000, and a round for at most 4294967295")]
    Samples(u32),
    /// It does not fit the model.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// Its running statistics are none of the model's.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// The loss is not a number.
    #[error("the loss is {0}; the client's training has diverged")]
    Loss(String),
    /// An encrypted model that this client was not asked for, or no longer.
    #[error("this client is not asked to encrypt the model now; it is in from the next round on")]
    SealNotAsked,
    /// An encrypted model that differs from the plain one where encryption changes nothing.
    #[error("the encrypted model differs from the room's in {0}, which encryption leaves as it is")]
    SealAltered(String),
    /// A model that was not encrypted.
    #[error("the model came back with its patch embedding unencrypted")]
    SealPlain,
}
