//! Clients' updates, and what the attacks report about them.

use unmask_core::AttackMethod;
use unmask_federation::{Event, ReceivedUpdate};

use super::{Classroom, roster::Entry};
use crate::{
    attacks::{Reconstruction, Report},
    outbox::Slot,
};

impl Classroom {
    /// Takes an update whose values end with batch norm's running statistics, if the model has any.
    pub(super) fn take_update(&mut self, mut received: ReceivedUpdate) {
        let values = &mut received.update.values;
        let statistics = self.room.model().state.statistics.len();
        received.statistics = values.split_off(values.len().saturating_sub(statistics));
        let client = received.client;
        let loan = self.loan(client, (received.round, received.samples), &received.update);
        let is_quick = self.timers.is_quick(self.now.moment, received.round, received.policy);
        let checked = self.room.accept(received);
        if let Ok(accepted) = &checked {
            let may_show = self.roster.get(client).is_some_and(Entry::may_show);
            let beat = self.stage.place().beat();
            self.attacks.read(accepted, &self.room.settings(), self.room.model(), may_show, beat);
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
