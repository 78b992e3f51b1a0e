//! A round, from its plan to its step.

use std::sync::Arc;

use unmask_core::{ClientId, ModelState, UpdateForm};

use super::{
    Accepted, Effect, GlobalModel, Phase, Refused, Room, RoundSummary, Run, Void,
    members::{MAX_REFUSALS, Silent},
    sit_out,
    summing::Keying,
};
use crate::gate::{Reports, mean_loss};

#[derive(Debug, Clone)]
pub(super) struct Round {
    /// Number of clients asked.
    cohort: usize,
    /// People and robots that it waits for.
    pub(super) counted: Counted,
    quorum: Reached,
    pub(super) model: Arc<GlobalModel>,
    pub(super) reports: Reports,
    /// The sum of a round whose updates nobody sees.
    pub(super) keying: Option<Box<Keying>>,
    /// Whether the clients got other weights than the model's. Then there is no step.
    pub(super) is_doctored: bool,
}

/// What has been said of a round's quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    No,
    /// Some that count have not answered.
    Enough,
    /// All that count have answered.
    All,
}

/// Clients that a round waits for, and whether each is a robot.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted(Vec<(ClientId, bool)>);

impl Counted {
    /// Number of people and of robots.
    pub(super) fn numbers(&self) -> (u32, u32) {
        let robots = self.0.iter().filter(|(_, is_robot)| *is_robot).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        (number(self.0.len() - robots), number(robots))
    }
}

impl Round {
    /// What a client that is forgotten did to this round does not count.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.counted.0.retain(|(counted, _)| *counted != client);
    }
}

#[cfg(test)]
impl Round {
    pub(super) fn quorum(&self) -> Reached {
        self.quorum
    }
}

impl Room {
    /// Starts a round with all clients that it may ask as its cohort.
    pub(super) fn begin_round(&mut self) -> Vec<Effect> {
        self.apply_weights();
        self.number += 1;
        if self.run == Run::Once {
            self.run = Run::Paused;
        }
        let cohort = self.members.begin_round(self.asked);
        let counted = Counted(self.members.counted());
        let least = self.quorum.needs(counted.numbers()).updates;
        self.learner.begin_round(&self.settings);
        let is_doctored = self.doctored.is_some() && self.seal().is_none();
        let model = match self.doctored.clone().filter(|_| is_doctored) {
            Some(weights) => {
                let GlobalModel { architecture, state } = &**self.model();
                let state = ModelState { weights, statistics: state.statistics.clone() };
                Arc::new(GlobalModel { architecture: *architecture, state })
            }
            None => Arc::clone(self.model()),
        };
        self.phase = Phase::Training(Round {
            cohort: cohort.len(),
            counted,
            quorum: Reached::No,
            model: Arc::clone(&model),
            reports: Reports::default(),
            keying: None,
            is_doctored,
        });
        let (round, policy, settings) = (self.number, self.policy, self.settings);
        let encryption = self.seal().map(|seal| (seal.salt, seal.check));
        vec![
            Effect::Plan { cohort, round, policy, settings, encryption, model, is_doctored, least },
            Effect::SetDeadline { round, policy },
        ]
    }

    /// Adds or refuses an update that [`accept`](Self::accept) has checked.
    pub(super) fn checked(&mut self, checked: Result<Accepted, Refused>) -> Vec<Effect> {
        let mut effects = match checked {
            Ok(accepted) => self.add(accepted),
            Err(refused) => self.refuse(refused),
        };
        effects.extend(self.advance());
        effects
    }

    fn add(&mut self, accepted: Accepted) -> Vec<Effect> {
        let Accepted { client, round, policy, loss, counted, .. } = accepted;
        let form = accepted.update().form();
        // The room may have moved on since it checked the update.
        if let Err(refusal) = self.check_turn(client, round, policy).and_then(|()| self.check_key(form)) {
            let values = accepted.update.update.into_values();
            return self.refuse(Refused { client, round, policy, refusal, values });
        }
        let Phase::Training(current) = &mut self.phase else { return Vec::new() };
        let reference = current.model.reference(self.settings.rule());
        let spent = self.learner.add(accepted, reference);
        current.reports.add(client, self.members.is_robot(client), loss, counted);
        if let UpdateForm::Masked { seed, .. } = form {
            self.seeds.insert(seed);
        }
        self.members.accepted(client);
        let mut effects = vec![Effect::Accepted { client, round }];
        effects.extend(spent.map(Effect::Spent));
        effects
    }

    fn refuse(&mut self, Refused { client, round, policy, refusal, values }: Refused) -> Vec<Effect> {
        // A client whose answer was refused has finished its round, so nobody waits for it.
        self.free_if_answer(client, round, policy);
        let is_excluded = refusal.is_fault() && self.members.refused(client);
        let mut effects = vec![Effect::Refused { client, refusal }, Effect::Spent(values)];
        effects.extend(is_excluded.then_some(Effect::Excluded { client, refusals: MAX_REFUSALS }));
        effects
    }

    pub(super) fn close_if_complete(&mut self) -> Vec<Effect> {
        if self.members.is_anybody_training() { self.quorum_reached() } else { self.close() }
    }

    /// Reports that a round need not wait for its deadline, and again once all clients that count have answered. Clients
    /// in the background, and those that missed two rounds, do not count: they get only the time that the others take.
    fn quorum_reached(&mut self) -> Vec<Effect> {
        let (awaited, others) = self.members.training();
        let (round, policy) = (self.number, self.policy);
        let Phase::Training(current) = &mut self.phase else { return Vec::new() };
        let counted = current.cohort.saturating_sub(others);
        let answered = counted.saturating_sub(awaited);
        // Each update that may be left out may be a person's.
        let (aggregate, is_sum) = (self.learner.aggregate(), current.keying.is_some());
        let updates = if is_sum { current.reports.len() } else { aggregate.updates() };
        let doubtful = current.reports.len().saturating_sub(updates);
        let people = current.reports.people().saturating_sub(doubtful);
        let is_enough = self.quorum.needs(current.counted.numbers()).lack(updates, people).is_none()
            && answered as f64 >= self.quorum.share * counted as f64;
        // What is still lacking then would come from clients in the background, which may never answer.
        let is_enough = updates > 0 && (is_enough || awaited == 0);
        let reached = if awaited > 0 { Reached::Enough } else { Reached::All };
        if !is_enough || [reached, Reached::All].contains(&current.quorum) {
            return Vec::new();
        }
        current.quorum = reached;
        vec![Effect::Quorum { round, policy, awaited: awaited > 0 }]
    }

    /// Why the clients that reported are too few for a step.
    pub(super) fn lack_of(&self, round: &Round) -> Option<Void> {
        let (updates, people) = (round.reports.len(), round.reports.people());
        self.quorum.needs(round.counted.numbers()).lack(updates, people).filter(|_| updates > 0)
    }

    pub(super) fn close(&mut self) -> Vec<Effect> {
        let Phase::Training(mut round) = std::mem::replace(&mut self.phase, Phase::Resting) else { return Vec::new() };
        // If nobody fits it any longer, the class has agreed on another one.
        self.class_check = None;
        if let (Some(keying), Some(settings)) = (round.keying.take(), self.settings.aggregation().secure_sum())
            && round.reports.len() > 0
        {
            return self.begin_summing(round, *keying, settings);
        }
        self.end(round, None)
    }

    /// Steps, unless the round is `void`, and tells everybody.
    pub(super) fn end(&mut self, round: Round, mut void: Option<Void>) -> Vec<Effect> {
        self.phase = Phase::Resting;
        let Round { model, counted, reports, is_doctored, .. } = round;
        let reference = model.reference(self.settings.rule());
        let left_out = self.learner.judge(reference).to_vec();
        let aggregate = self.learner.aggregate();
        let large = reports.clients(aggregate.large());
        let reports = reports.without(&left_out);
        let (updates, clipped, opposed) = (aggregate.updates(), aggregate.clipped(), aggregate.opposed());
        let (samples, losses) = (reports.samples(), reports.plausible_losses(model.architecture.classes()));
        let mut loss = None;
        if void.is_none() && updates > 0 {
            void = self.quorum.needs(counted.numbers()).lack(updates, reports.people());
            void = void.or(is_doctored.then_some(Void::Doctored));
            if void.is_none() {
                void = self.learner.step(model, &self.settings).err().map(Void::from);
                loss = mean_loss(&losses);
            }
        }
        if void.is_some_and(Void::is_lack) {
            let without = counted.0.iter().map(|(client, _)| *client).filter(|client| !reports.has(*client));
            self.members.spoiled(without);
        }
        if void.is_some() {
            self.learner.forget_norms();
        }
        let Silent { late, sitting_out } = self.members.end_round();
        let (round, settings) = (self.number, self.settings);
        let summary =
            RoundSummary { round, settings, updates, clipped, large, opposed, samples, loss, losses, void, late };
        let mut effects = vec![Effect::Closed(summary)];
        effects.extend(sit_out(sitting_out));
        effects.push(Effect::Rest);
        effects
    }
}
