//! A secure sum (Bonawitz et al., "Practical Secure Aggregation", CCS 2017): the relay learns the sum of the clients'
//! values mod 2^32 and no client's own.
//!
//! Each pair of clients agrees on a mask that one adds and the other subtracts, and each client adds a mask of its own.
//! The keys of both masks are divided among the clients, so that those who stay can remove the masks of those who leave.
//! One sum takes five messages of each client:
//!
//! | | client sends | relay answers with |
//! |---|---|---|
//! | 1 | public keys, authenticated by the class's key | all keys |
//! | 2 | sealed shares of its two secrets | the shares for each client |
//! | 3 | its masked values | who is in the sum |
//! | 4 | one confirmation for each other client that it saw this list | the others' confirmations |
//! | 5 | for each client, its share of one secret: never of both | |
//!
//! [`KeysSent`] and the states after it are a client; [`SecureSum`] is the relay. Neither has a clock or a socket: the
//! caller ends a phase.
//!
//! What holds, against a relay that may lie, with a threshold of t among n clients: it learns only the sum of at least t
//! clients, while fewer than 2 t - n clients are in league with it and nobody gives the class's key away. All robots may
//! be: the threshold is of the people, beyond the robots. A sum of robots alone, such as in a rehearsal, hides nobody.
//!
//! What does not: a client may send any values, since nobody sees their size; a client that sends bad shares or
//! confirmations can make a sum fail, and not every such client is named; and a sum is a sum, which other attacks take
//! apart. A robot inside the relay has the class's key there: then the relay can add clients of its own that say that
//! they are people. Blahaj's arithmetic on shares takes no constant time.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(feature = "sums")]
mod client;
#[cfg(feature = "sums")]
mod encoding;
#[cfg(feature = "sums")]
mod fixed_point;
#[cfg(feature = "sums")]
mod keys;
mod message;
#[cfg(feature = "sums")]
mod refusal;
#[cfg(feature = "sums")]
mod relay;
#[cfg(feature = "sums")]
mod shares;
#[cfg(feature = "sums")]
mod terms;
#[cfg(test)]
#[cfg(feature = "sums")]
mod tests;
#[cfg(feature = "sums")]
mod whole;

#[cfg(feature = "sums")]
pub use client::{KeysSent, SharesSent, SurvivorsConfirmed, ValuesSent};
#[cfg(feature = "sums")]
pub use encoding::{MeanOfSum, SumEncoding};
#[cfg(feature = "sums")]
pub use fixed_point::{FixedPoint, FixedPointError};
#[cfg(feature = "sums")]
pub use keys::GroupKey;
pub use message::{Confirmation, Dealing, Delivery, Member, Message, PublicKeys, Revealed, SealedShare};
#[cfg(feature = "sums")]
pub use refusal::{Refusal, Void};
#[cfg(feature = "sums")]
pub use relay::{Next, SecureSum, Sum};
#[cfg(feature = "sums")]
pub use terms::{LEAST_PEOPLE, MOST_CLIENTS, Terms, hash_of_weights, nonce_of};
#[cfg(feature = "sums")]
pub use whole::{SumError, sum_in_one_process};
