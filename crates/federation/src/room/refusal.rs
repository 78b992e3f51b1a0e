//! Reasons for refusals.

use unmask_core::{Defence, StatisticsError};
use unmask_defence::UpdateError;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error("the update is for round {update}, but {}", match current { Some(round) => format!("round {round} is running"), None => "no round is running".to_owned() })]
    Stale { update: u32, current: Option<u32> },
    #[error("the update was made under policy {update}, the round runs under policy {current}; it is not mixed in")]
    Policy { update: u32, current: u32 },
    #[error("this round began without this client; it is in from the next round on")]
    NotInCohort,
    #[error("an update for round {round} was already taken")]
    Twice { round: u32 },
    #[error("the update is {sent}, the round's defence is {defence}")]
    OtherDefence { sent: String, defence: Defence },
    #[error("its mask seed was used before; a seed must be fresh for each round and client")]
    SeedReused,
    #[error("its mask seed was not drawn together with the relay; reload the page or update this client")]
    SeedChosen,
    #[error(
        "its mask seed comes from a nonce that reached the relay after the round had begun; it is in from the next round on"
    )]
    SeedLate,
    #[error("its mask is not the common frozen one; all clients must use the same under {0}")]
    SeedNotCommon(Defence),
    #[error("the update was encrypted with another key than the room's; check the passphrase")]
    OtherKey,
    #[error("{0} samples cannot be counted; an update stands for at least 1, and a round for at most 4294967295")]
    Samples(u32),
    #[error(transparent)]
    Update(#[from] UpdateError),
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    #[error("the update is {times:.0e} times as large as the others; the client's training has diverged")]
    Implausible { times: f64 },
    #[error(
        "the update came in plain, and this round adds up updates that the relay does not see; reload the page or update this \
         client"
    )]
    NotSummed,
    #[error("{by} clients of the secure sum say that its keys or shares are wrong; check its passphrase")]
    Accused { by: usize },
    #[error(transparent)]
    Sum(#[from] unmask_secagg::Refusal),
    #[error("the loss is {0}; the client's training has diverged")]
    Loss(String),
    #[error("this client is not asked to encrypt the model now; it is in from the next round on")]
    SealNotAsked,
    #[error("the encrypted model differs from the room's in {0}, which encryption leaves as it is")]
    SealAltered(String),
    #[error("the model came back with its patch embedding unencrypted")]
    SealPlain,
}

impl Refusal {
    /// Whether it answers a request that is no longer open, so that the sender need not react.
    pub fn is_outdated(&self) -> bool {
        use unmask_secagg::Refusal::{Again, Phase, Stranger};
        matches!(self, Self::Stale { .. } | Self::Policy { .. } | Self::Sum(Again(_) | Phase | Stranger(_)))
    }

    /// Whether the update itself is wrong. A late update, a second one or another passphrase's key is not the client's
    /// fault.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::OtherDefence { .. }
            | Self::SeedReused
            | Self::SeedChosen
            | Self::SeedNotCommon(_)
            | Self::Samples(_)
            | Self::Update(_)
            | Self::Statistics(_)
            | Self::Implausible { .. }
            | Self::NotSummed
            | Self::Accused { .. }
            | Self::Loss(_) => true,
            Self::Sum(refusal) => {
                matches!(refusal, unmask_secagg::Refusal::WrongShares | unmask_secagg::Refusal::Length { .. })
            }
            Self::Stale { .. }
            | Self::Policy { .. }
            | Self::NotInCohort
            | Self::Twice { .. }
            | Self::SeedLate
            | Self::OtherKey
            | Self::SealNotAsked
            | Self::SealAltered(_)
            | Self::SealPlain => false,
        }
    }
}
