//! The clients of a secure sum, and the lies that they can tell in one.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha20Rng;
use unmask_core::{ClientId, KeyCheck, MaskSeed, ParamLayout, RoundSettings};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect as _};
use unmask_federation::{GlobalModel, ReceivedKeys};
use unmask_secagg::{
    Confirmation, Delivery, GroupKey, KeysSent, Member, Message, Next, Refusal, SharesSent, SumEncoding,
    SurvivorsConfirmed, Terms, ValuesSent,
};

use crate::values::Values;

/// Every value of an honest update, which the clip shortens.
const VALUE: f32 = 0.01;

/// How a client deceives the others in a secure sum.
#[derive(Debug, Clone, Arbitrary)]
pub(crate) enum Lie {
    /// Keys made with another passphrase.
    OtherClass,
    /// It says the opposite about who sits at it.
    TurnedKind,
    /// What another client is about to send.
    OfAnother(u8),
    /// Its message, with other bytes.
    Twisted(u8),
    /// Its message, without its last part.
    Shortened,
    Values(Values),
    Complaint(u8),
}

/// The clients of one round's sum.
pub(crate) struct Sums {
    terms: Terms,
    settings: RoundSettings,
    layout: ParamLayout,
    /// `[P]`, where updates are changes of them.
    reference: Option<Vec<f32>>,
    random: ChaCha20Rng,
    states: BTreeMap<ClientId, State>,
    ready: BTreeMap<ClientId, Message>,
    /// Nobody has lied yet.
    pub(crate) is_honest: bool,
}

enum State {
    Keys(KeysSent),
    Shares(SharesSent, Vec<u32>),
    Values(ValuesSent),
    Confirmed(SurvivorsConfirmed),
}

impl Sums {
    pub(crate) fn new(terms: Terms, settings: RoundSettings, model: &GlobalModel) -> Self {
        let reference = settings.rule().is_fedavg().then(|| model.state.weights.clone());
        Self {
            terms,
            settings,
            layout: model.architecture.layout(),
            reference,
            random: ChaCha20Rng::seed_from_u64(u64::from(terms.round)),
            states: BTreeMap::new(),
            ready: BTreeMap::new(),
            is_honest: true,
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    /// The keys of a client that has trained.
    pub(crate) fn keys(&mut self, client: ClientId, is_robot: bool, lie: Option<&Lie>) -> ReceivedKeys {
        self.is_honest &= lie.is_none();
        let class = if matches!(lie, Some(Lie::OtherClass)) { [2; 32] } else { [1; 32] };
        let is_robot = is_robot ^ matches!(lie, Some(Lie::TurnedKind));
        let group = GroupKey::new(class);
        let begun = KeysSent::begin((client, is_robot), &group, self.terms, &self.terms.weights, &mut self.random);
        let (sent, mut keys) = begun.expect("the terms are of these weights");
        self.states.insert(client, State::Keys(sent));
        if let Some(Lie::Twisted(byte)) = lie {
            twist(&mut keys.mask, *byte);
        }
        let Terms { round, policy, .. } = self.terms;
        let check = KeyCheck([class[0]; 16]);
        ReceivedKeys { client, round, policy, loss: 2.0, samples: 1, keys, check }
    }

    /// What a client sends next, if the relay has asked it.
    pub(crate) fn message(&mut self, client: ClientId, lie: Option<&Lie>, id: fn(u8) -> ClientId) -> Option<Message> {
        self.is_honest &= lie.is_none();
        match lie {
            None => return self.ready.remove(&client),
            Some(Lie::OtherClass | Lie::TurnedKind) => return None,
            Some(Lie::OfAnother(other)) => return self.ready.get(&id(*other)).cloned(),
            Some(Lie::Values(values)) => {
                let values = values.fill(self.terms.values as usize);
                return Some(Message::Values(values.into_iter().map(f32::to_bits).collect()));
            }
            Some(Lie::Complaint(about)) => return Some(Message::Complaint(id(*about))),
            Some(Lie::Twisted(_) | Lie::Shortened) => {}
        }
        let mut message = self.ready.remove(&client)?;
        match (&mut message, lie) {
            (Message::Dealing(dealing), Some(Lie::Twisted(byte))) => {
                let at = usize::from(*byte) % dealing.shares.len().max(1);
                dealing.shares.iter_mut().skip(at).take(1).for_each(|share| twist(&mut share.sealed, *byte));
            }
            (Message::Dealing(dealing), _) => drop(dealing.shares.pop()),
            (Message::Values(values), Some(Lie::Twisted(byte))) => {
                values.iter_mut().for_each(|value| *value ^= u32::from(*byte) << 16);
            }
            (Message::Values(values), _) => drop(values.pop()),
            (Message::Confirmations(all), Some(Lie::Twisted(byte))) => {
                all.iter_mut().for_each(|one| twist(&mut one.tag, *byte));
            }
            (Message::Confirmations(all), _) => drop(all.pop()),
            (Message::Revealed(revealed), Some(Lie::Twisted(byte))) => {
                revealed.seeds.iter_mut().chain(&mut revealed.keys).for_each(|(_, share)| twist(share, *byte));
            }
            (Message::Revealed(revealed), _) => drop(revealed.seeds.pop()),
            (Message::Keys(_) | Message::Complaint(_), _) => {}
        }
        Some(message)
    }

    /// The clients that the relay waits for.
    pub(crate) fn asked(&self) -> Option<ClientId> {
        self.ready.keys().next().copied()
    }

    /// Prepares every client's answer.
    pub(crate) fn take(&mut self, next: Next) {
        match next {
            Next::Roster(roster) => {
                for Member { client, .. } in &roster {
                    self.answer(*client, |sums, state| sums.share(&roster, state));
                }
            }
            Next::Deliveries(all) => {
                for (client, deliveries) in all {
                    self.answer(client, |_, state| Self::mask(&deliveries, state));
                }
            }
            Next::Survivors(survivors) => {
                for client in &survivors {
                    self.answer(*client, |_, state| {
                        let State::Values(sent) = state else { return None };
                        Some(sent.confirm(&survivors).map(|(sent, confirmations)| {
                            (Some(State::Confirmed(sent)), Message::Confirmations(confirmations))
                        }))
                    });
                }
            }
            Next::Confirmations(all) => {
                for (client, confirmations) in all {
                    self.answer(client, |_, state| Self::reveal(&confirmations, state));
                }
            }
            Next::Sum(_) => {}
        }
    }

    fn answer(
        &mut self,
        client: ClientId,
        answer: impl FnOnce(&mut Self, State) -> Option<Result<(Option<State>, Message), Refusal>>,
    ) {
        self.ready.remove(&client);
        let Some(state) = self.states.remove(&client) else { return };
        match answer(self, state) {
            Some(Ok((state, message))) => {
                self.ready.insert(client, message);
                if let Some(state) = state {
                    self.states.insert(client, state);
                }
            }
            Some(Err(Refusal::Keys(about) | Refusal::Share(about))) => {
                self.ready.insert(client, Message::Complaint(about));
            }
            // It leaves the sum without a word.
            Some(Err(_)) | None => {}
        }
    }

    fn share(&mut self, roster: &[Member], state: State) -> Option<Result<(Option<State>, Message), Refusal>> {
        let State::Keys(sent) = state else { return None };
        let encoding = self.encoding(roster.len(), self.terms.least_people_of(roster));
        let (values, reference) = (self.values(), self.reference.as_deref());
        let keys = KeyMaterial { seed: MaskSeed(self.random.random()), cipher: None };
        // Without noise, so that the mean is known.
        let defence = Some(encoding.defence()).filter(|defence| defence.rates().is_some()).unwrap_or_default();
        let update = defence.protect(&self.layout, PlainUpdate { values, reference }, keys).ok()?;
        let values = encoding.encode(update, &self.layout, reference).ok()?;
        Some(
            sent.share(roster, &mut self.random)
                .map(|(sent, dealing)| (Some(State::Shares(sent, values)), Message::Dealing(dealing))),
        )
    }

    fn mask(deliveries: &[Delivery], state: State) -> Option<Result<(Option<State>, Message), Refusal>> {
        let State::Shares(sent, values) = state else { return None };
        Some(sent.mask(deliveries, values).map(|(sent, values)| (Some(State::Values(sent)), Message::Values(values))))
    }

    fn reveal(confirmations: &[Confirmation], state: State) -> Option<Result<(Option<State>, Message), Refusal>> {
        let State::Confirmed(sent) = state else { return None };
        Some(sent.reveal(confirmations).map(|revealed| (None, Message::Revealed(revealed))))
    }

    fn encoding(&self, clients: usize, sharers: usize) -> SumEncoding {
        let settings = self.settings.aggregation().secure_sum().expect("a round with a sum");
        SumEncoding::new(settings, self.settings.defence(), clients, sharers).expect("a small sum")
    }

    /// An honest update, `[P]`, before it is clipped.
    fn values(&self) -> Vec<f32> {
        match &self.reference {
            Some(weights) => weights.iter().map(|weight| weight + VALUE).collect(),
            None => vec![VALUE; self.terms.values as usize],
        }
    }

    /// Where nobody lied, the mean `[P]` is everybody's update; else it is at most as long as a clipped one.
    pub(crate) fn check_mean(&self, mean: &[f32], clients: usize) {
        assert!(clients >= self.terms.people(), "a sum of {clients}");
        let of_change = |at: usize| self.reference.as_ref().map_or(mean[at], |weights| mean[at] - weights[at]);
        let length = (mean.len() as f32 * VALUE * VALUE).sqrt();
        let expected = VALUE * (1.0 / length).min(1.0);
        for at in 0..mean.len() {
            let change = of_change(at);
            assert!(change.abs() <= 1.001, "a mean of clipped updates moves a weight by {change}");
            let is_equal = (change - expected).abs() <= 1e-5;
            // Under masks, who kept less is clipped less, and some values nobody kept.
            let is_masked = self.settings.defence().rates().is_some();
            let is_between = change == 0.0 || (expected - 1e-5..=VALUE + 1e-5).contains(&change);
            let is_right = if is_masked { is_between } else { is_equal };
            assert!(!self.is_honest || is_right, "the mean is {change}, each of its updates {expected}");
        }
    }
}

fn twist(bytes: &mut [u8], byte: u8) {
    let at = usize::from(byte) % bytes.len().max(1);
    bytes.iter_mut().skip(at).take(1).for_each(|one| *one ^= byte | 1);
}
