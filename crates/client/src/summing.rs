//! A client's part in a secure sum, from its keys to the shares that it reveals.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use unmask_core::{ClientId, Defence, MaskSeed, ModelState, ParamLayout, Rule};
use unmask_defence::{ClassKey, ProtectError};
use unmask_secagg::{
    FixedPointError, GroupKey, KeysSent, Message, PublicKeys, Refusal, SharesSent, SumEncoding, SurvivorsConfirmed,
    Terms, ValuesSent, hash_of_weights, nonce_of,
};
use unmask_wire::{SumPlan, SumTask};

use crate::{LocalTask, LocalUpdate, RoundPlan};

/// Why a client leaves a sum.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum LeftSum {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    FixedPoint(#[from] FixedPointError),
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error("the relay asks for a step of a secure sum that this client is not at")]
    OutOfOrder,
}

/// A sum that this client has sent its keys for.
pub(crate) struct Adding {
    pub(crate) round: u32,
    pub(crate) policy: u32,
    keys: PublicKeys,
    random: ChaCha20Rng,
    state: State,
}

enum State {
    Keys(KeysSent, Box<Summand>),
    Shares(SharesSent, Vec<u32>),
    Values(ValuesSent),
    Confirmed(SurvivorsConfirmed),
    /// It has answered for the last time.
    Over,
}

/// The result of training, which leaves only as a part of the sum.
struct Summand {
    plan: SumPlan,
    terms: Terms,
    values: Vec<f32>,
    samples: u32,
    layout: ParamLayout,
    /// The round's weights, where the update is a change of them.
    state: ModelState,
    rule: Rule,
    batch: usize,
    defence: Defence,
}

impl Adding {
    /// Prepares to add `trained` to the sum of `plan`. `fresh` must come from the operating system.
    pub(crate) fn begin(
        (client, is_robot): (ClientId, bool),
        (plan, sum, class): (&RoundPlan, SumPlan, &ClassKey),
        trained: LocalUpdate,
        fresh: [u8; 32],
    ) -> Result<(Self, PublicKeys), LeftSum> {
        let weights = hash_of_weights(&plan.state.weights);
        let (round, policy) = (plan.round, plan.policy);
        let terms = Terms {
            nonce: nonce_of(plan.nonces.relay, plan.defence, plan.rule, sum.settings),
            round,
            policy,
            weights,
            values: u32::try_from(plan.layout.len()).unwrap_or(u32::MAX),
            threshold: sum.settings.threshold,
            people: sum.people,
        };
        let mut random = ChaCha20Rng::from_seed(fresh);
        let group = GroupKey::new(*class.seed());
        let (sent, keys) = KeysSent::begin((client, is_robot), &group, terms, &weights, &mut random)?;
        let state = if plan.rule.is_fedavg() { plan.state.clone() } else { ModelState::from_weights(Vec::new()) };
        let summand = Summand {
            plan: sum,
            terms,
            values: trained.values,
            samples: trained.samples,
            layout: plan.layout.clone(),
            state,
            rule: plan.rule,
            batch: plan.batch,
            defence: plan.defence,
        };
        Ok((Self { round, policy, keys, random, state: State::Keys(sent, Box::new(summand)) }, keys))
    }

    /// The keys that it has sent, while nobody has answered them.
    pub(crate) fn sent_keys(&self) -> Option<PublicKeys> {
        matches!(self.state, State::Keys(..)).then_some(self.keys)
    }

    /// Answers the relay's task. After an error the client has left the sum.
    pub(crate) fn answer(&mut self, task: SumTask) -> Result<Message, LeftSum> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, task) {
            (State::Keys(sent, summand), SumTask::Roster(roster)) => {
                let (sent, dealing) = sent.share(&roster, &mut self.random)?;
                // The noise depends on who is in the sum.
                let sharers = summand.terms.least_people_of(&roster);
                let values = summand.encode(roster.len(), sharers, MaskSeed(self.random.random()))?;
                self.state = State::Shares(sent, values);
                Ok(Message::Dealing(dealing))
            }
            (State::Shares(sent, values), SumTask::Deliveries(deliveries)) => {
                let (sent, values) = sent.mask(&deliveries, values)?;
                self.state = State::Values(sent);
                Ok(Message::Values(values))
            }
            (State::Values(sent), SumTask::Survivors(survivors)) => {
                let (sent, confirmations) = sent.confirm(&survivors)?;
                self.state = State::Confirmed(sent);
                Ok(Message::Confirmations(confirmations))
            }
            (State::Confirmed(sent), SumTask::Confirmations(confirmations)) => {
                Ok(Message::Revealed(sent.reveal(&confirmations)?))
            }
            _ => Err(LeftSum::OutOfOrder),
        }
    }
}

impl Summand {
    /// The protected values, `[P]`, as whole numbers for a sum of so many clients.
    fn encode(self, clients: usize, sharers: usize, seed: MaskSeed) -> Result<Vec<u32>, LeftSum> {
        let Self { plan, values, samples, layout, state, rule, batch, defence, terms: _ } = self;
        let encoding = SumEncoding::new(plan.settings, defence, clients, sharers)?;
        let task = LocalTask { layout: &layout, state: &state, rule, batch, defence: encoding.defence(), cipher: None };
        let protected = task.protect(values, samples, seed)?;
        Ok(encoding.encode(protected, &layout, rule.is_fedavg().then_some(&state.weights[..]))?)
    }
}

/// Shows no secret.
impl fmt::Debug for Adding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adding").field("round", &self.round).finish_non_exhaustive()
    }
}
