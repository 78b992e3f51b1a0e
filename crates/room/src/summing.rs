//! The secure sums of a room: what clients need for one, and the messages between its steps.

use std::time::Duration;

use unmask_core::{ClientId, KeyCheck, RoundSettings};
use unmask_federation::GlobalModel;
use unmask_secagg::{LEAST_PEOPLE, Message, Next, Terms, hash_of_weights, nonce_of};
use unmask_wire::{RelayMessage, SumPlan, SumTask};

use crate::{classroom::Classroom, outbox::Slot, randomness::Randomness};

/// Longest time for a short message of a secure sum, once everybody has trained.
pub(crate) const STEP: Duration = Duration::from_secs(20);

/// What the room knows of its secure sums.
#[derive(Debug)]
pub(crate) struct Summing {
    /// Salt of the class's key. It is public, and another one after a restart makes clients derive their key again.
    salt: [u8; 16],
}

impl Summing {
    pub(crate) fn new(randomness: &mut Randomness) -> Self {
        Self { salt: randomness.bytes() }
    }

    /// What a round's plan says about its sum, if it has one.
    pub(crate) fn plan(&self, settings: &RoundSettings, least: u32, check: Option<KeyCheck>) -> Option<SumPlan> {
        let settings = settings.aggregation().secure_sum()?;
        Some(SumPlan { salt: self.salt, settings, check, people: least.max(LEAST_PEOPLE) })
    }
}

/// The terms of a round's sum, which clients make of the plan.
pub(crate) fn terms(
    (round, policy, settings): (u32, u32, RoundSettings),
    nonce: [u8; 16],
    sum: SumPlan,
    model: &GlobalModel,
) -> Terms {
    let weights = &model.state.weights;
    Terms {
        nonce: nonce_of(nonce, settings.defence(), settings.rule(), sum.settings),
        round,
        policy,
        weights: hash_of_weights(weights),
        values: u32::try_from(weights.len()).unwrap_or(u32::MAX),
        threshold: sum.settings.threshold,
        people: sum.people,
    }
}

/// A client's message with its masked values, which travel behind it as `f32` of the same bits.
pub(crate) fn whole(message: Message, values: &[f32]) -> Message {
    match message {
        Message::Values(_) => Message::Values(values.iter().map(|value| value.to_bits()).collect()),
        message => message,
    }
}

impl Classroom {
    /// Sends the clients of a sum what they need for their next message.
    pub(crate) fn add_up(&mut self, round: u32, policy: u32, next: Next) {
        // A client that comes back now has left the sum: the plan would make it train in vain.
        self.task = None;
        let tasks: Vec<(ClientId, SumTask)> = match next {
            Next::Roster(roster) => {
                let to = |member: &unmask_secagg::Member| (member.client, SumTask::Roster(roster.clone()));
                roster.iter().map(to).collect()
            }
            Next::Deliveries(all) => each(all, SumTask::Deliveries),
            Next::Survivors(survivors) => {
                survivors.iter().map(|client| (*client, SumTask::Survivors(survivors.clone()))).collect()
            }
            Next::Confirmations(all) => each(all, SumTask::Confirmations),
            Next::Sum(_) => Vec::new(),
        };
        for (client, task) in tasks {
            self.send(client, Slot::All, &RelayMessage::Sum { round, policy, task }, &[]);
        }
    }
}

fn each<T>(all: Vec<(ClientId, T)>, task: impl Fn(T) -> SumTask) -> Vec<(ClientId, SumTask)> {
    all.into_iter().map(|(client, one)| (client, task(one))).collect()
}
