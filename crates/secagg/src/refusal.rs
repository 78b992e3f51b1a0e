//! Why a message is refused, and why a sum ends without a result.

use unmask_core::ClientId;

use crate::MOST_CLIENTS;

/// A message that does not fit. A client that refuses what the relay says leaves the sum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("client {0} is not in this sum")]
    Stranger(ClientId),
    #[error("client {0} has already answered in this phase")]
    Again(ClientId),
    #[error("the sum is at another phase, and does not wait for this message")]
    Phase,
    #[error("the sum has {MOST_CLIENTS} clients, and takes no more")]
    Full,
    #[error("the keys of client {0} are another client's too")]
    SameKeys(ClientId),
    #[error("{got} values came, and the model has {expected}")]
    Length { got: usize, expected: u32 },
    #[error("the clients are not listed in order, each once")]
    Order,
    #[error("the sum is of updates at other weights than this client got")]
    Weights,
    #[error("this client's own keys came back changed")]
    OwnKeys,
    #[error(
        "the keys of client {0} do not fit: it has another passphrase or other weights, or somebody changed its keys"
    )]
    Keys(ClientId),
    #[error("{got} clients are in the sum, and {least} must be")]
    TooFew { got: usize, least: usize },
    #[error("{got} people are in the sum, and {least} must be: robots hide nobody")]
    TooFewPeople { got: usize, least: usize },
    #[error("the shares from client {0} do not fit what it announced")]
    Share(ClientId),
    #[error("{got} clients confirmed this list of the sum, and {least} must: the others saw another list")]
    Unconfirmed { got: usize, least: usize },
    #[error("the relay counts this client out, although it sent its values")]
    LeftOut,
    #[error("the shares are not those that this phase asks for")]
    WrongShares,
}

/// Why a sum ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    #[error("{got} clients stayed in the secure sum, and {least} must: nobody can remove the masks of the others")]
    TooFew { got: usize, least: usize },
    #[error("{got} people are in the secure sum, and {least} must be: robots hide nobody")]
    TooFewPeople { got: usize, least: usize },
    #[error("client {0} divided another secret than it announced: its mask cannot be removed")]
    Dealer(ClientId),
}
