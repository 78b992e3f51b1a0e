//! What everybody knows before a sum begins.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Member;

/// Upper limit of clients in one sum: each agrees with each other one.
pub const MOST_CLIENTS: usize = 50;
/// People among whom a client lets its update be hidden. With two, each has the other's as the sum less its own.
pub const LEAST_PEOPLE: u32 = 3;

/// The least share of the clients that must stay until the end, in (0.5, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Threshold {
    percent: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no threshold: give a share of the clients above 0.5 and up to 1, such as 0.67")]
pub struct UnknownThreshold(String);

impl Threshold {
    /// The number of clients of `all` that must stay.
    pub fn of(self, all: usize) -> usize {
        (all * usize::from(self.percent)).div_ceil(100)
    }
}

/// Two thirds.
impl Default for Threshold {
    fn default() -> Self {
        Self { percent: 67 }
    }
}

impl TryFrom<u8> for Threshold {
    type Error = UnknownThreshold;

    /// From a share in per cent.
    fn try_from(percent: u8) -> Result<Self, UnknownThreshold> {
        // With half of the clients, a relay could split them and get both secrets of a client.
        if (51..=100).contains(&percent) { Ok(Self { percent }) } else { Err(UnknownThreshold(format!("{percent} %"))) }
    }
}

impl From<Threshold> for u8 {
    fn from(threshold: Threshold) -> Self {
        threshold.percent
    }
}

impl FromStr for Threshold {
    type Err = UnknownThreshold;

    fn from_str(text: &str) -> Result<Self, UnknownThreshold> {
        let unknown = || UnknownThreshold(text.to_owned());
        let share: f64 = text.parse().map_err(|_| unknown())?;
        // 0.56 * 100 is a little more than 56.
        let percent = (share * 100.0 - 1e-9).ceil();
        if !(percent > 50.0 && percent <= 100.0) {
            return Err(unknown());
        }
        Self::try_from(percent as u8).map_err(|_| unknown())
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.percent) / 100.0).fmt(f)
    }
}

/// The terms of one sum. They go into every key, so that clients with other terms, such as other weights, do not fit
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Unpredictable, chosen by the relay for this sum.
    pub nonce: [u8; 16],
    pub round: u32,
    pub policy: u32,
    /// [`hash_of_weights`] of the weights at which the updates are made.
    pub weights: [u8; 32],
    /// Number of values of each client.
    pub values: u32,
    pub threshold: Threshold,
    /// Least number of people in the sum, robots not counted; at least [`LEAST_PEOPLE`].
    pub people: u32,
}

impl Terms {
    /// Binds keys to these terms.
    pub(crate) fn context(&self) -> [u8; 32] {
        let Self { nonce, round, policy, weights, values, threshold, people } = self;
        Sha256::new()
            .chain_update(b"unmask: terms of a secure sum")
            .chain_update(nonce)
            .chain_update(weights)
            .chain_update([*round, *policy, *values, *people].map(u32::to_le_bytes).concat())
            .chain_update([threshold.percent])
            .finalize()
            .into()
    }

    /// Binds keys to these terms and to one list of members, so that nobody agrees with who saw another list.
    pub(crate) fn context_of(&self, roster: &[Member]) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(b"unmask: members of a secure sum");
        hash.update(self.context());
        for Member { client, keys } in roster {
            hash.update(client.0.to_le_bytes());
            hash.update(keys.channel);
            hash.update(keys.mask);
            hash.update([u8::from(keys.is_robot)]);
        }
        hash.finalize().into()
    }

    /// Least number of people in the sum. No relay may ask for less than [`LEAST_PEOPLE`].
    pub fn people(&self) -> usize {
        self.people.max(LEAST_PEOPLE) as usize
    }

    /// The number of clients that must stay, of which so many are people and robots. All robots may be in league with the
    /// relay, so the threshold is of the people, beyond the robots.
    pub fn least(&self, people: usize, robots: usize) -> usize {
        robots + self.threshold.of(people).max(self.people())
    }

    pub(crate) fn least_of(&self, roster: &[Member]) -> usize {
        let robots = roster.iter().filter(|member| member.keys.is_robot).count();
        self.least(roster.len() - robots, robots)
    }
}

/// SHA-256 of weights `[P]` as little-endian bytes.
pub fn hash_of_weights(weights: &[f32]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"unmask: weights");
    let mut bytes = Vec::new();
    for weights in weights.chunks(1024) {
        bytes.clear();
        bytes.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
        hash.update(&bytes);
    }
    hash.finalize().into()
}
