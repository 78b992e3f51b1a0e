//! What everybody knows before a sum begins.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_core::{ClientId, Defence, Rule, SecureSumSettings, Threshold};

use crate::Member;

/// Upper limit of clients in one sum: each agrees with each other one.
pub const MOST_CLIENTS: usize = 50;
/// People among whom a client lets its update be hidden.
pub const LEAST_PEOPLE: u32 = SecureSumSettings::LEAST;

/// The terms of one sum. They go into every key, so that clients with other terms, such as other weights, do not fit
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Unpredictable, [made](nonce_of) of what the relay chose for this sum and of the round's settings.
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
            .chain_update([u8::from(*threshold)])
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
    /// relay, so the threshold is of the people, beyond the robots. Where there are no people, nobody is to be hidden, and
    /// robots stand for them.
    pub fn least(&self, people: usize, robots: usize) -> usize {
        let (hidden, beyond) = if people == 0 { (robots, 0) } else { (people, robots) };
        beyond.saturating_add(self.threshold.of(hidden).max(self.people()))
    }

    pub(crate) fn least_of(&self, roster: &[Member]) -> usize {
        let robots = roster.iter().filter(|member| member.keys.is_robot).count();
        self.least(roster.len() - robots, robots)
    }

    /// The number of clients among `roster` that hide each other and whose values are in any sum that has a result: people
    /// or, without any, robots.
    pub fn least_people_of(&self, roster: &[Member]) -> usize {
        self.least(hidden(roster, roster.iter().map(|member| member.client)), 0)
    }
}

/// The number of `clients` that `roster` hides: people or, where the roster has none, robots.
pub(crate) fn hidden(roster: &[Member], clients: impl Iterator<Item = ClientId>) -> usize {
    let has_people = roster.iter().any(|member| !member.keys.is_robot);
    let is_hidden = |member: &Member| !(has_people && member.keys.is_robot);
    let member = |client| roster.iter().find(|member| member.client == client);
    clients.filter_map(member).filter(|member| is_hidden(member)).count()
}

/// The nonce of a sum: the relay's, bound to the round's settings. Clients that were told others do not fit together, so
/// that no relay lets all but one drop nearly everything.
pub fn nonce_of(relay: [u8; 16], defence: Defence, rule: Rule, settings: SecureSumSettings) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::new_with_prefix(b"unmask: settings of a secure sum")
        .chain_update(relay)
        .chain_update(format!("{defence} {rule} {settings}"))
        .finalize()
        .into();
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&hash[..16]);
    nonce
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PublicKeys;

    const TERMS: Terms = Terms {
        nonce: [0; 16],
        round: 1,
        policy: 1,
        weights: [0; 32],
        values: 1,
        threshold: Threshold::TWO_THIRDS,
        people: LEAST_PEOPLE,
    };

    /// People, then robots.
    fn roster(people: u32, robots: u32) -> Vec<Member> {
        let keys = |is_robot| PublicKeys { channel: [0; 32], mask: [0; 32], is_robot, tag: [0; 32] };
        (0..people + robots).map(|client| Member { client: ClientId(client), keys: keys(client >= people) }).collect()
    }

    #[test]
    fn other_settings_give_another_nonce() {
        let nonce = |defence: &str, rule: &str, settings: &str| {
            nonce_of([7; 16], defence.parse().unwrap(), rule.parse().unwrap(), settings.parse().unwrap())
        };
        let usual = nonce("random-binary:0.5", "fedsgd", "clip=1");
        assert_eq!(usual, nonce("random-binary:0.5", "fedsgd", "threshold=0.67,clip=1"));
        for other in [
            nonce("random-binary:0.99", "fedsgd", "clip=1"),
            nonce("random-binary:0.5", "fedavg:epochs=1,rate=0.1", "clip=1"),
            nonce("random-binary:0.5", "fedsgd", "clip=2"),
            nonce_of([8; 16], "random-binary:0.5".parse().unwrap(), Rule::FedSgd, "clip=1".parse().unwrap()),
        ] {
            assert_ne!(other, usual);
        }
    }

    #[test]
    fn robots_hide_nobody_but_each_other() {
        // All robots may be in league with the relay, so the threshold is of the people beyond them.
        assert_eq!(TERMS.least_of(&roster(6, 0)), 5);
        assert_eq!((TERMS.least_of(&roster(6, 4)), TERMS.least_people_of(&roster(6, 4))), (9, 5));
        assert_eq!((TERMS.least_of(&roster(0, 6)), TERMS.least_people_of(&roster(0, 6))), (5, 5));
        // One person among robots is hidden by nobody: more must stay than there are.
        assert!(TERMS.least_of(&roster(1, 9)) > 10);
        let six = roster(3, 3);
        assert_eq!(hidden(&six, six.iter().map(|member| member.client)), 3);
        assert_eq!(hidden(&six, [ClientId(0), ClientId(5), ClientId(9)].into_iter()), 1, "a robot and a stranger");
        let robots = roster(0, 3);
        assert_eq!(hidden(&robots, [ClientId(0), ClientId(2)].into_iter()), 2);
    }
}
