//! Performs the effects that the state machine returns.

use std::sync::Arc;

use tracing::info;
use unmask_core::{Aggregation, ClientId, EncryptionStart, OptimiserKind, RoundSettings, TrainingPictures};
use unmask_federation::{Effect, Event, GlobalModel, RoundSummary};
use unmask_wire::{EncryptionPlan, RelayMessage};

use super::{Classroom, roster::Entry, sharing::Given, summing, tasks::Task};
use crate::outbox::{OutboxMessage, Slot};

impl Classroom {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Plan { cohort, round, policy, settings, encryption, model, is_doctored, least } => {
                self.log.forget_said();
                self.roster.begin_round();
                if round == 1 {
                    self.forget_earlier_model();
                    self.weights_begin_again();
                }
                let fishing = self.stage.fishing().filter(|_| is_doctored);
                let is_tested = is_doctored && self.stage.is_careful();
                self.checks.begin_round(&model, fishing, is_tested.then(|| cohort.iter().copied().collect()));
                if self.room.update_counts().rounds() == 0 {
                    self.history.restart_counts();
                }
                self.attacks.keep_keys(encryption.map(|(_, check)| check));
                self.outer.round_began();
                let encryption = encryption.map(|(salt, check)| EncryptionPlan { salt, check });
                let nonce = self.randomness.bytes();
                let sum = self.summing.plan(&settings, least, self.room.class_check());
                let server = self.server_plan();
                let task =
                    Task::train((round, policy, least), nonce, settings, (encryption, sum), model.architecture, server);
                self.roster.fix_commitments(&cohort);
                self.warn_of_turned_signs(&settings);
                self.hand_out(&cohort);
                self.ask(&cohort, task, &model);
                if let Some(sum) = sum {
                    self.handle(Event::SumTerms(summing::terms((round, policy, settings), nonce, sum, &model)));
                }
            }
            Effect::NeedSalt => {
                let salt = self.randomness.bytes();
                self.handle(Event::Salt(salt));
            }
            Effect::Seal { client, policy, salt, architecture, model } => {
                let name = self.roster.name(client);
                let line = match model {
                    Some(_) => format!("{name} is asked to encrypt the model."),
                    None => format!("{name} is asked to make a model and encrypt it."),
                };
                self.say_once(client, line);
                self.attacks.sent_plain(model.as_deref());
                let task = Task::seal(policy, salt, architecture, model.is_some());
                let model = model.unwrap_or_else(|| Arc::clone(self.room.model()));
                self.ask(&[client], task, &model);
            }
            Effect::SealTaken(client) => {
                self.timers.end();
                self.task = None;
                self.log.forget_said();
                self.attacks.compare_forms(self.room.model(), self.room.seal());
                if self.room.seal().is_some_and(|seal| seal.start == EncryptionStart::Keyed) {
                    self.initialiser.client_began();
                }
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.can_take_part();
                }
                let name = self.roster.name(client);
                let line =
                    format!("{name} has encrypted the model; from now on the relay averages weights it cannot read.");
                self.say_of([client], line);
            }
            Effect::SetDeadline { round, policy } => {
                self.timers.begin(self.now.moment, self.config.deadline, round, policy);
            }
            Effect::Quorum { round, policy, awaited } => self.timers.quorum(round, policy, awaited),
            Effect::Sum { round, policy, next } => self.add_up(round, policy, next),
            Effect::Accused { client, by } => {
                let names: Vec<&str> = by.iter().map(|client| self.roster.name(*client)).collect();
                let line = format!(
                    "{} left the secure sum because of {}: its keys or shares do not fit. One side lies, or has another \
                     passphrase.",
                    names.join(", "),
                    self.roster.name(client)
                );
                self.say_of([&[client], &by[..]].concat(), line);
            }
            Effect::SetSumDeadline { round, policy, is_long } => {
                let time = self.config.deadline;
                let time = if is_long { time } else { time.min(summing::STEP) };
                self.timers.begin(self.now.moment, time, round, policy);
            }
            Effect::Summed { round, settings, clients, is_of_single_pictures: true, is_doctored, mean, model } => {
                self.read_sum((round, settings, is_doctored), clients, mean, &model);
            }
            Effect::Summed { .. } => {}
            Effect::Rest => self.timers.rest(self.now.moment, self.config.pace),
            Effect::Accepted { client, round } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.accepted();
                }
                self.timers.answered(self.now.moment);
                self.attacks.begin();
                self.send(client, Slot::All, &RelayMessage::Accepted { round }, &[]);
            }
            Effect::Refused { client, refusal } => {
                if let Some(entry) = self.roster.get_mut(client) {
                    entry.refused(refusal.to_string());
                }
                let reason = refusal.to_string();
                if refusal.is_outdated() {
                    self.log_refusal(client, &reason);
                } else {
                    self.refuse(client, &reason);
                }
            }
            Effect::Excluded { client, refusals } => {
                let name = self.roster.name(client);
                let after =
                    if refusals == 1 { String::new() } else { format!(" after {refusals} refused updates in a row") };
                let line = format!("{name} is left out{after}; the teacher can take it in again.");
                self.say_of([client], line);
                if let Some(device) = self.roster.get(client).and_then(|entry| entry.peer().device) {
                    self.door.leave_out(device);
                }
            }
            Effect::SittingOut(client) => {
                let name = self.roster.name(client);
                let line = format!("{name} has not taken part in two rounds and sits out until it asks to come back.");
                self.say_of([client], line);
                self.send(client, Slot::All, &RelayMessage::SittingOut, &[]);
            }
            Effect::Spent(buffer) => self.host.reuse(buffer),
            Effect::Closed(summary) => {
                self.checks.close_round();
                self.closed(summary);
            }
        }
    }

    /// Warns when strangers can turn the signs of their updates, and the rule would not notice. Where each client has a
    /// picture of its own, honest updates point apart as well, and no rule is better.
    fn warn_of_turned_signs(&mut self, settings: &RoundSettings) {
        let is_open = matches!(settings.aggregation(), Aggregation::Mean | Aggregation::Clipped)
            && matches!(settings.optimiser(), OptimiserKind::Adam { .. })
            && matches!(settings.pictures(), TrainingPictures::Shared { .. })
            && !settings.rule().is_fedavg();
        if is_open && self.roster.present().any(|entry| entry.peer().address.is_some()) {
            let line = "Under Adam, two of ten devices that turn the signs of their updates cost about nine points of \
                        accuracy on shared pictures. If you do not trust every device, start the relay with --aggregate \
                        aligned, where they cost two."
                .to_owned();
            self.log.say_if_shown_nowhere(self.room.round(), line);
        }
    }

    /// Sends clients the shards for the current rounds, unless they have them.
    pub(super) fn hand_out(&mut self, clients: &[ClientId]) {
        let handed = self.sharing.hand_out(self.room.settings().pictures(), clients);
        let given: Vec<Given> =
            handed.into_iter().filter(|given| self.roster.takes_shard(given.client, given.number)).collect();
        for Given { client, shard, .. } in &given {
            self.put(*client, Slot::Shard, OutboxMessage::Shard(Arc::clone(shard)));
        }
        for Given { client, pictures, .. } in given {
            self.handle(Event::Given { client, pictures });
        }
    }

    fn ask(&mut self, clients: &[ClientId], task: Task, model: &Arc<GlobalModel>) {
        if let Some(message) = task.message(model) {
            for &client in clients {
                self.put(client, Slot::Task, message.clone());
            }
        }
        self.task = Some(task);
    }

    fn closed(&mut self, summary: RoundSummary) {
        self.history.closed(self.now.unix, &summary, self.room.update_counts());
        let done = self.outer.closed(&summary);
        let RoundSummary { round, updates, clipped, large, opposed, loss, losses, void, late, .. } = summary;
        for (client, loss) in losses {
            if let Some(entry) = self.roster.get_mut(client) {
                entry.set_loss(loss);
            }
        }
        self.attacks.round_closed();
        self.timers.end();
        self.journaling.closed(self.now.moment, updates > 0);
        self.task = None;
        info!(round, updates, loss, "round closed");
        if let Some(void) = void {
            self.say(format!("Round {round} is void: {void}. The model stays as it was."));
        }
        if let Some(done) = done {
            self.contribute(done, updates, loss);
        }
        if !large.is_empty() {
            let names: Vec<&str> = large.iter().map(|client| self.roster.name(*client)).collect();
            let were = if large.len() == 1 {
                "is much larger than the others and was"
            } else {
                "are much larger than the others and were"
            };
            let line = format!("Round {round}: what came from {} {were} scaled down or left out.", names.join(", "));
            self.say_of(large, line);
        } else if clipped > 0 {
            self.say(format!("Round {round}: updates grew, and {clipped} of them counted in part."));
        }
        if opposed > 0 {
            let (updates, were) = if opposed == 1 { ("update", "was") } else { ("updates", "were") };
            self.say(format!("Round {round}: {opposed} {updates} pointed against the others and {were} left out."));
        }
        if !late.is_empty() {
            let names: Vec<&str> = late.iter().map(|client| self.roster.name(*client)).collect();
            let line = format!("Round {round} closed without {}: no update in time.", names.join(", "));
            self.say_of(late, line);
        }
        let closed = RelayMessage::Closed { round, loss, updates };
        let Some(message) = OutboxMessage::encode(&closed, &[]) else { return };
        self.put_to_all(Slot::All, &message);
        self.publish_list(round);
        self.deal_loans(round);
    }

    pub(super) fn put_to_all(&mut self, slot: Slot, message: &OutboxMessage) {
        let present: Vec<ClientId> = self.roster.present().map(Entry::id).collect();
        for client in present {
            self.put(client, slot, message.clone());
        }
    }
}
