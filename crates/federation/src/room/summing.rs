//! The secure sum of a round: clients answer with keys, then add up their updates without showing one.

use std::{collections::BTreeMap, sync::Arc};

use unmask_core::{ClientId, ClientState, KeyCheck, SecureSumSettings};
use unmask_secagg::{FixedPointError, Message, Next, PublicKeys, SecureSum, Sum, SumEncoding, Terms};

use super::{Effect, GlobalModel, Phase, Refusal, Room, Void, members::MAX_REFUSALS, training::Round};

/// The answer of a client that has trained and is ready to add up.
#[derive(Debug, Clone)]
pub struct ReceivedKeys {
    pub client: ClientId,
    pub round: u32,
    pub policy: u32,
    /// Mean loss on the client's samples.
    pub loss: f32,
    pub samples: u32,
    pub keys: PublicKeys,
    /// Distinguishes the class's key from others.
    pub check: KeyCheck,
}

/// A sum whose clients still train. Their keys come in as they finish.
#[derive(Debug, Clone)]
pub(super) struct Keying {
    sum: SecureSum,
    /// Each client's check, and whether it is a robot.
    checks: BTreeMap<ClientId, (KeyCheck, bool)>,
}

/// A sum whose clients have trained.
#[derive(Debug, Clone)]
pub(super) struct Summing {
    round: Round,
    sum: SecureSum,
    /// Number of clients that saw the others' keys.
    members: usize,
    class_check: Option<KeyCheck>,
    encoding: SumEncoding,
}

impl Summing {
    pub(super) fn forget(&mut self, client: ClientId) {
        self.sum.leave(client);
        self.round.forget(client);
    }

    pub(super) fn model(&self) -> &Arc<GlobalModel> {
        &self.round.model
    }
}

impl Keying {
    fn new(terms: Terms) -> Self {
        Self { sum: SecureSum::new(terms), checks: BTreeMap::new() }
    }

    /// The key that most people have or, where there are none, most robots; of two that are as frequent, either.
    fn usual_check(&self) -> Option<KeyCheck> {
        let are_alone = self.are_robots_alone();
        let deciding = || self.checks.values().filter(|(_, is_robot)| are_alone || !is_robot).map(|(check, _)| *check);
        deciding().max_by_key(|check| deciding().filter(|other| other == check).count())
    }

    fn are_robots_alone(&self) -> bool {
        self.checks.values().all(|(_, is_robot)| *is_robot)
    }
}

impl Room {
    /// Sets the terms of the running round's sum.
    pub(super) fn begin_keying(&mut self, terms: Terms) {
        if let Phase::Training(round) = &mut self.phase
            && (terms.round, terms.policy) == (self.number, self.policy)
        {
            round.keying = Some(Box::new(Keying::new(terms)));
        }
    }

    /// Takes the keys of a client that has trained, or refuses them.
    pub(super) fn keys(&mut self, received: ReceivedKeys) -> Vec<Effect> {
        let (client, round, policy) = (received.client, received.round, received.policy);
        let mut effects = match self.take_keys(received) {
            Ok(()) => vec![Effect::Accepted { client, round }],
            Err(refusal) => {
                self.free_if_answer(client, round, policy);
                self.refused(client, refusal)
            }
        };
        effects.extend(self.advance());
        effects
    }

    fn take_keys(&mut self, received: ReceivedKeys) -> Result<(), Refusal> {
        let ReceivedKeys { client, round, policy, loss, samples, keys, check } = received;
        self.check_turn(client, round, policy)?;
        if !loss.is_finite() {
            return Err(Refusal::Loss(loss.to_string()));
        }
        if samples == 0 {
            return Err(Refusal::Samples(samples));
        }
        let (is_robot, counted) = (self.members.is_robot(client), samples.min(self.most_samples(client)));
        let Phase::Training(current) = &mut self.phase else { return Err(unmask_secagg::Refusal::Phase.into()) };
        let keying = current.keying.as_mut().ok_or(unmask_secagg::Refusal::Phase)?;
        if keys.is_robot != is_robot {
            return Err(unmask_secagg::Refusal::Keys(client).into());
        }
        keying.sum.take(client, Message::Keys(keys))?;
        keying.checks.insert(client, (check, is_robot));
        current.reports.add(client, is_robot, loss, counted);
        self.members.keyed(client);
        Ok(())
    }

    /// Goes on with the clients whose keys came and fit together.
    pub(super) fn begin_summing(
        &mut self,
        mut round: Round,
        keying: Keying,
        settings: SecureSumSettings,
    ) -> Vec<Effect> {
        let usual = keying.usual_check();
        // Robots' key must not become the class's.
        let class_check = usual.filter(|_| !keying.are_robots_alone());
        let Keying { mut sum, checks } = keying;
        let mut effects = Vec::new();
        for (client, (check, _)) in checks {
            let has_other_key = Some(check) != usual;
            if has_other_key {
                effects.push(Effect::Refused { client, refusal: Refusal::OtherKey });
            }
            if has_other_key || self.members.state(client) != ClientState::Sent {
                sum.leave(client);
                round.reports.remove(client);
            }
        }
        let lack = self.lack_of(&round);
        if lack.is_some() {
            effects.extend(self.end(round, lack));
            return effects;
        }
        let begun = sum.close_phase().map_err(Void::from).and_then(|next| {
            let Next::Roster(roster) = &next else { return Err(Void::NoSum) };
            let sharers = sum.terms().least_people_of(roster);
            let encoding = SumEncoding::new(settings, self.settings.defence(), roster.len(), sharers);
            Ok((roster.len(), encoding.map_err(|_| Void::NoSum)?, next))
        });
        match begun {
            Ok((members, encoding, next)) => {
                self.phase = Phase::Summing(Box::new(Summing { round, sum, members, class_check, encoding }));
                effects.extend(self.ask(next));
            }
            Err(void) => effects.extend(self.end(round, Some(void))),
        }
        effects
    }

    /// Takes what a client of the sum sends after its keys.
    pub(super) fn summand(&mut self, client: ClientId, task: (u32, u32), message: Message) -> Vec<Effect> {
        let Phase::Summing(summing) = &mut self.phase else {
            let refusal = Refusal::Stale { update: task.0, current: None };
            return vec![Effect::Refused { client, refusal }];
        };
        if task != (self.number, self.policy) {
            let refusal = Refusal::Stale { update: task.0, current: Some(self.number) };
            return vec![Effect::Refused { client, refusal }];
        }
        let mut effects = Vec::new();
        if let Err(refusal) = summing.sum.take(client, message) {
            let refusal = Refusal::from(refusal);
            if refusal.is_fault() {
                summing.sum.leave(client);
            }
            effects = self.refused(client, refusal);
        }
        effects.extend(self.go_on());
        effects
    }

    /// Whether a client has answered the running round with its keys, and the sum is not yet known.
    pub fn is_in_sum(&self, client: ClientId) -> bool {
        let is_sum = match &self.phase {
            Phase::Training(round) => round.keying.is_some(),
            Phase::Summing(_) => true,
            Phase::Idle | Phase::Resting | Phase::Sealing(_) => false,
        };
        is_sum && self.members.state(client) == ClientState::Sent
    }

    /// A client of the sum is gone, or cannot go on.
    pub(super) fn leaves_sum(&mut self, client: ClientId) {
        if let Phase::Summing(summing) = &mut self.phase {
            summing.sum.leave(client);
        }
    }

    /// The time for one message is over: the sum goes on without those that have not sent it.
    pub(super) fn sum_deadline(&mut self) -> Vec<Effect> {
        let Phase::Summing(summing) = &mut self.phase else { return Vec::new() };
        for client in summing.sum.waits_for() {
            // The end of the round counts these as late.
            self.members.silent_in_sum(client);
        }
        let mut effects = self.close_sum_phase();
        effects.extend(self.go_on());
        effects
    }

    /// Ends every phase whose answers are complete, or that has too few clients left.
    pub(super) fn go_on(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Phase::Summing(summing) = &self.phase
            && (summing.sum.is_lost() || summing.sum.waits_for().is_empty())
        {
            effects.extend(self.close_sum_phase());
        }
        effects
    }

    fn close_sum_phase(&mut self) -> Vec<Effect> {
        let Phase::Summing(summing) = &mut self.phase else { return Vec::new() };
        match summing.sum.close_phase() {
            Ok(Next::Sum(sum)) => self.close_sum(Ok(sum)),
            Ok(next) => self.ask(next),
            Err(void) => self.close_sum(Err(void)),
        }
    }

    fn ask(&self, next: Next) -> Vec<Effect> {
        let (round, policy) = (self.number, self.policy);
        // The values are as many as those of an update.
        let is_long = matches!(next, Next::Deliveries(_));
        vec![Effect::Sum { round, policy, next }, Effect::SetSumDeadline { round, policy, is_long }]
    }

    fn close_sum(&mut self, outcome: Result<Sum, unmask_secagg::Void>) -> Vec<Effect> {
        let Phase::Summing(summing) = std::mem::replace(&mut self.phase, Phase::Resting) else { return Vec::new() };
        let Summing { mut round, sum: relay, members, class_check, encoding } = *summing;
        let mut effects = self.name_liars(&relay, members, &outcome);
        let mean = outcome.map_err(Void::from).and_then(|Sum { values, clients, .. }| {
            let count = u32::try_from(clients.len()).unwrap_or(u32::MAX);
            let reference = round.model.reference(self.settings.rule());
            let mean = encoding.mean(&values, clients.len(), reference).map_err(|error| match error {
                FixedPointError::Count { .. } => Void::Miscounted,
                _ => Void::NotClipped,
            })?;
            self.learner.add_mean(mean.clone(), count).map_err(|_| Void::NotClipped)?;
            round.reports.keep(&clients);
            effects.push(Effect::Summed {
                round: self.number,
                settings: self.settings,
                is_of_single_pictures: round.reports.samples() == clients.len() as u64,
                is_doctored: round.is_doctored,
                mean: mean.values,
                model: Arc::clone(&round.model),
                clients: clients.clone(),
            });
            clients.iter().for_each(|client| self.members.summed(*client));
            Ok(())
        });
        // A few clients must not decide for a class that is about to come.
        let (people, robots) = round.counted.numbers();
        let is_usual = 2 * round.reports.len() > people + robots;
        self.class_check = class_check.filter(|_| mean.is_ok() && is_usual);
        let void = mean.err().or_else(|| self.lack_of(&round));
        effects.extend(self.end(round, void));
        effects
    }

    /// Counts as faults what a client demonstrably did to the sum: a divided secret that is another, or a share that is
    /// another than it holds. A complaint is one only where most of the sum shares it: one of the two lies, or has another
    /// passphrase.
    fn name_liars(
        &mut self,
        relay: &SecureSum,
        members: usize,
        outcome: &Result<Sum, unmask_secagg::Void>,
    ) -> Vec<Effect> {
        let mut complaints: BTreeMap<ClientId, Vec<ClientId>> = BTreeMap::new();
        for (by, about) in relay.complaints() {
            complaints.entry(*about).or_default().push(*by);
        }
        let mut effects = Vec::new();
        for (client, by) in complaints {
            if 2 * by.len() > members {
                // With its keys, no sum of the others comes about.
                let is_excluded = (0..MAX_REFUSALS).any(|_| self.members.refused(client));
                effects.push(Effect::Refused { client, refusal: Refusal::Accused { by: by.len() } });
                effects.extend(is_excluded.then_some(Effect::Excluded { client, refusals: 1 }));
            } else {
                effects.push(Effect::Accused { client, by });
            }
        }
        if let Err(unmask_secagg::Void::Dealer(client)) = outcome {
            effects.extend(self.refused(*client, unmask_secagg::Refusal::WrongShares.into()));
        }
        effects
    }

    /// Reports a refusal, and counts it where it is the client's fault.
    fn refused(&mut self, client: ClientId, refusal: Refusal) -> Vec<Effect> {
        let is_excluded = refusal.is_fault() && self.members.refused(client);
        let mut effects = vec![Effect::Refused { client, refusal }];
        effects.extend(is_excluded.then_some(Effect::Excluded { client, refusals: MAX_REFUSALS }));
        effects
    }
}
