//! Clients' updates, and what the attacks report about them.

use unmask_core::{AttackMethod, ClientId, ClientState, RoundSettings, UpdateForm};
use unmask_defence::{drawn_seed, published::SentContent};
use unmask_federation::{Accepted, Event, GlobalModel, ReceivedUpdate, Refusal};
use unmask_lesson::SumKind;
use unmask_wire::SeedDraw;

use super::{Classroom, roster::Entry, tasks::Task};
use crate::{
    attacks::{Reconstruction, Report},
    outbox::Slot,
};

impl Classroom {
    /// Takes an update whose values end with batch norm's running statistics, if the model has any.
    pub(super) fn take_update(&mut self, mut received: ReceivedUpdate, draw: Option<SeedDraw>) {
        let values = &mut received.update.values;
        let statistics = self.room.model().state.statistics.len();
        received.statistics = values.split_off(values.len().saturating_sub(statistics));
        let client = received.client;
        // An update that nobody waits for is not worth the time of a hash.
        let is_awaited = self.room.member(client) == ClientState::Training;
        let content = is_awaited.then(|| content(&received).hash());
        let loan = self.loan(client, (received.round, received.samples), &received.update);
        let is_quick = self.timers.is_quick(self.now.moment, received.round, received.policy);
        let checked = self.room.accept(received).and_then(|accepted| match self.check_draw(client, &accepted, draw) {
            Ok(()) => Ok(accepted),
            Err(refusal) => Err(accepted.refused(refusal)),
        });
        if let (Some(SeedDraw { next, .. }), Some(entry)) = (draw, self.roster.get_mut(client)) {
            entry.commits(next);
        }
        if let (Ok(_), Some(content)) = (&checked, content) {
            self.checks.take(client, content);
        }
        if let Ok(accepted) = &checked {
            let may_show = self.roster.get(client).is_some_and(Entry::may_show);
            let beat = self.stage.place().beat();
            let members = || self.published.situation().suspects().into_iter().map(|suspect| suspect.client).collect();
            self.attacks.read(accepted, &self.room.settings(), self.room.round_model(), may_show, beat, members);
            if let Some(((header, values), contest)) = loan.zip(self.contest.as_mut()) {
                contest.take(client, header, values);
            }
        }
        if is_quick && checked.is_err() {
            self.feed(Event::Quick(client));
        }
        self.feed(Event::Checked(checked));
        self.attacks.forget_read();
    }

    /// Reads the mean of updates that came only as a sum, if each of the clients agreed to be attacked in front of the class.
    pub(super) fn read_sum(
        &mut self,
        (round, settings, is_doctored): (u32, RoundSettings, bool),
        clients: Vec<ClientId>,
        mean: Vec<f32>,
        model: &GlobalModel,
    ) {
        let members: Vec<ClientId> =
            self.published.situation().suspects().into_iter().map(|suspect| suspect.client).collect();
        // To take a sum apart, the class must see whose pictures are in it.
        let is_apart = self.stage.place().beat().sum() == Some(SumKind::OfFew) && !is_doctored;
        let agrees = |client: &ClientId| {
            (!is_apart || members.contains(client)) && self.roster.get(*client).is_some_and(Entry::may_show)
        };
        if clients.iter().all(agrees) {
            let fishing = self.checks.fishing().filter(|_| is_doctored);
            // The relay has turned to other weights while the round ran.
            if is_doctored && fishing != self.stage.fishing() {
                return;
            }
            self.attacks.read_sum((round, settings, fishing), clients, mean, model);
        }
    }

    /// Checks that client and relay drew the seed of a mask together.
    fn check_draw(&self, client: ClientId, accepted: &Accepted, draw: Option<SeedDraw>) -> Result<(), Refusal> {
        let UpdateForm::Masked { seed, .. } = accepted.update().form() else { return Ok(()) };
        if self.room.settings().defence().has_common_mask() {
            return Ok(());
        }
        let (entry, relay) = (self.roster.get(client), self.task.as_ref().and_then(Task::nonce));
        let (Some(SeedDraw { nonce, .. }), Some(entry), Some(relay)) = (draw, entry, relay) else {
            return Err(Refusal::SeedChosen);
        };
        entry.reveals(&nonce)?;
        if seed == drawn_seed(&nonce, &relay) { Ok(()) } else { Err(Refusal::SeedChosen) }
    }

    /// Takes a report of an attack and sends any reconstruction to the attacked client, which scores it.
    pub(super) fn take_report(&mut self, report: Report) {
        let config = self.room.model().architecture.vit();
        let shown = |client| self.roster.get(client).filter(|entry| entry.is_present() && entry.may_show());
        let nickname = |client| shown(client).map(|entry| entry.nickname().to_owned());
        if let Some(Reconstruction { client, method, message, values }) =
            self.attacks.take_report(report, config.as_ref(), nickname)
        {
            let slot = AttackMethod::ALL.iter().position(|other| *other == method).unwrap_or_default();
            self.send(client, Slot::Reconstruction(slot), &message, &values);
        }
    }
}

/// What the client sent, for the published list.
fn content(received: &ReceivedUpdate) -> SentContent<'_> {
    let ReceivedUpdate { round, policy, loss, samples, update, statistics, .. } = received;
    let (round, policy, loss, samples) = (*round, *policy, *loss, *samples);
    SentContent { round, policy, loss, samples, form: update.form, values: [&update.values, statistics] }
}
