//! Clients that join, leave, or cannot take part.

use tracing::{info, warn};
use unmask_core::{ClientId, ClientState};
use unmask_federation::Event;
use unmask_wire::{RelayMessage, TAKEN_OVER};

use super::{
    Classroom,
    classroom::MAX_REASON,
    door::{NoEntry, PER_BROWSER, PROGRAMS},
    input::{Admission, Hello},
    moderation::ModerationError,
    peer::Peer,
    roster::{Connection, Entrance, Entry},
};
use crate::{outbox::Slot, text::clean, ticket::Ticket};

impl Classroom {
    /// Admits a client that is new or returns with its ticket.
    pub(super) fn admit(&mut self, hello: &Hello) -> Admission {
        let known = hello.resume.and_then(|ticket| self.roster.holder(&ticket));
        let (known, is_present) = (known.map(Entry::id), known.is_some_and(Entry::is_present));
        let objection =
            self.door.objection(&hello.peer).or((hello.keys < self.door.keys()).then_some(NoEntry::EarlierKey));
        if known.is_none()
            && let Some(objection) = objection
        {
            self.say_turned_away(&objection);
            return Err(objection);
        }
        if !is_present && let Some(objection) = self.no_place(hello, known.is_some()) {
            self.say_turned_away(&objection);
            return Err(objection);
        }
        if is_present && let Some(client) = known {
            self.take_over(client);
        }
        let entrance = self.roster.connect(hello.resume, self.randomness.bytes(), &hello.nickname, &hello.device);
        let Entrance { connection, ticket: resume, nickname, waiting } = entrance;
        let client = connection.client;
        if let Some(entry) = self.roster.get_mut(client) {
            entry.set_robot(hello.is_robot);
            entry.set_own(hello.is_own);
            entry.says_hello_with(hello.page, hello.commitment);
            entry.set_peer(hello.peer);
        }
        let here = self.roster.present().filter(|entry| !entry.is_own()).count();
        let is_surplus = self.config.limits.expected.is_some_and(|expected| here > expected);
        if known.is_none() && !hello.is_own && (self.door.approves() || is_surplus) {
            self.wait(client, resume, hello, is_surplus);
        } else {
            let came = if known.is_some() { "is back" } else { "joined" };
            self.welcome(client, (resume, nickname), came, (hello.may_show, hello.may_lend));
        }
        Ok((connection, waiting))
    }

    /// Lets a newcomer wait until the teacher lets it in. Until then it has no part in the room, and no name in the log.
    fn wait(&mut self, client: ClientId, ticket: Ticket, hello: &Hello, is_surplus: bool) {
        if let Some(entry) = self.roster.get_mut(client) {
            entry.wait_with(ticket);
            entry.set_consent(hello.may_show, hello.may_lend);
        }
        info!(client = client.0, "waits to be let in");
        let line = match self.config.limits.expected.filter(|_| is_surplus) {
            Some(expected) => format!("One more than the {expected} expected devices waits to be let in."),
            None => "Somebody waits to be let in.".to_owned(),
        };
        self.log.say_if_shown_nowhere(self.room.round(), line);
        self.send(client, Slot::All, &RelayMessage::Waiting, &[]);
    }

    /// Lets in a client that waits, or all of them.
    ///
    /// # Errors
    /// If there is no such client.
    pub(super) fn approve(&mut self, client: Option<ClientId>) -> Result<(), ModerationError> {
        let waiting: Vec<ClientId> = match client {
            Some(client) if self.roster.get(client).is_none() => return Err(ModerationError::Unknown { client }),
            Some(client) => vec![client],
            None => self.roster.waiting().map(Entry::id).collect(),
        };
        for client in waiting {
            let Some(entry) = self.roster.get(client) else { continue };
            let consent = (entry.may_show(), entry.may_lend());
            if let Some(let_in) = self.roster.let_in(client) {
                self.welcome(client, let_in, "joined", consent);
            }
        }
        Ok(())
    }

    /// Makes a connected client part of the room.
    fn welcome(
        &mut self,
        client: ClientId,
        (resume, nickname): (Ticket, String),
        came: &str,
        (may_show, may_lend): (bool, bool),
    ) {
        info!(client = client.0, %nickname, came, "joined");
        self.say_of([client], format!("{nickname} {came}."));
        self.send(client, Slot::All, &RelayMessage::Welcome { client, resume, nickname }, &[]);
        self.send(client, Slot::Lesson, &RelayMessage::Lesson(self.stage.state()), &[]);
        self.consents(client, may_show, may_lend);
        self.attacks.came(client);
        // The room had not noticed the loss of the old socket, and its task may have been lost with it. A page that was
        // loaded again has lost the nonce of its mask as well, and waits for the next round.
        // Nor can it go on with a secure sum whose messages the old socket may have taken along.
        if self.room.is_in_sum(client) {
            self.feed(Event::Left(client));
        }
        let is_at_work = self.room.member(client) == ClientState::Training;
        let lost_its_nonce = !self.roster.get(client).is_some_and(Entry::holds_its_nonce);
        if is_at_work && lost_its_nonce && self.room.settings().defence().has_own_mask() {
            self.feed(Event::Left(client));
        } else if is_at_work && let Some(task) = &self.task {
            let message = task.message(self.room.round_model());
            if let Some(message) = message {
                self.hand_out(&[client]);
                self.put(client, Slot::Task, message);
            }
        }
        let entry = self.roster.get(client);
        let (device, is_robot) = (entry.and_then(|entry| entry.peer().device), entry.is_some_and(Entry::is_robot));
        let consents = entry.is_some_and(Entry::may_show);
        if device.is_some_and(|device| self.door.leaves_out(device)) {
            self.feed(Event::LeaveOut(client));
            let name = self.roster.name(client);
            self.say_of(
                [client],
                format!("{name} comes from a browser that is left out; the teacher can take it in again."),
            );
        }
        if is_robot {
            self.feed(Event::Robot(client));
        }
        // To have left a sum has undone it.
        self.feed(Event::Consent { client, consents });
        self.feed(Event::Joined(client));
        self.catch_up(client);
    }

    /// Why there is no place for a client that is not present. Those who return with a ticket find their places kept for a
    /// while.
    fn no_place(&self, hello: &Hello, has_ticket: bool) -> Option<NoEntry> {
        let clients = self.config.limits.clients;
        let Peer { address, device } = hello.peer;
        let present =
            |is_same: &dyn Fn(Peer) -> bool| self.roster.with_socket().filter(|entry| is_same(entry.peer())).count();
        if address.is_some() {
            if device.is_some() && present(&|peer| peer.device == device) >= PER_BROWSER {
                return Some(NoEntry::Browser);
            }
            if device.is_none() && present(&|peer| peer == hello.peer) >= PROGRAMS {
                return Some(NoEntry::Programs);
            }
        }
        // Half of the room at most, since strangers too can send an update and leave.
        let kept = if has_ticket { 0 } else { self.roster.kept_places(self.now.moment).min(clients / 2) };
        (self.roster.with_socket().count() + kept >= clients).then_some(NoEntry::Full { clients })
    }

    /// Says that somebody was turned away, unless the log says so. Who is not in the room cannot have a name deleted, so
    /// none is kept.
    fn say_turned_away(&mut self, objection: &NoEntry) {
        self.log.say_if_shown_nowhere(self.room.round(), format!("Somebody was turned away: {objection}."));
    }

    /// Closes the old socket of a client that has returned on a new one.
    pub(super) fn take_over(&mut self, client: ClientId) {
        self.send(client, Slot::All, &RelayMessage::Goodbye { reason: TAKEN_OVER.to_owned() }, &[]);
        if let Some(entry) = self.roster.get_mut(client) {
            entry.drop_socket();
        }
        // The new socket has not shown a picture yet.
        self.hide_original(client);
    }

    /// Readmits a client that sat out because it had not answered.
    pub(super) fn come_back(&mut self, client: ClientId) {
        if self.room.member(client) == ClientState::SittingOut {
            self.say_of([client], format!("{} is in the rounds again.", self.roster.name(client)));
        }
        self.feed(Event::Return(client));
    }

    pub(super) fn dismiss(&mut self, client: ClientId, reason: &str) {
        if self.roster.get(client).is_some_and(Entry::is_waiting) {
            return self.turn_away(client, reason);
        }
        warn!(client = client.0, reason, "dismissed");
        self.say_of([client], format!("{} was disconnected: {reason}.", self.roster.name(client)));
        self.roster.drop_waiting(client);
        self.send(client, Slot::All, &RelayMessage::Goodbye { reason: clean(reason, MAX_REASON) }, &[]);
        self.remove(client);
    }

    /// Sends somebody away who waited to be let in, and keeps nothing.
    pub(super) fn turn_away(&mut self, client: ClientId, reason: &str) {
        self.send(client, Slot::All, &RelayMessage::Goodbye { reason: clean(reason, MAX_REASON) }, &[]);
        self.roster.forget(client);
    }

    pub(super) fn leave(&mut self, connection: Connection, reason: Option<String>) {
        if self.roster.connected(connection).is_none() {
            return;
        }
        if self.roster.get(connection.client).is_some_and(Entry::is_waiting) {
            self.roster.forget(connection.client);
            return;
        }
        let nickname = self.roster.name(connection.client).to_owned();
        info!(client = connection.client.0, %nickname, "left");
        let line = match reason {
            Some(reason) => format!("{nickname} is gone: {reason}."),
            None => format!("{nickname} left."),
        };
        self.say_of([connection.client], line);
        self.remove(connection.client);
    }

    pub(super) fn remove(&mut self, client: ClientId) {
        if let Some(entry) = self.roster.get_mut(client) {
            entry.leave(self.now.moment);
        }
        self.hide(client);
        self.feed(Event::Left(client));
        self.give_back_name(client);
    }

    /// When a page's first tab is gone, gives its name to the second tab, which asked for it too.
    fn give_back_name(&mut self, gone: ClientId) {
        if let Some((client, nickname)) = self.roster.give_back_name(gone) {
            self.say_of([client, gone], format!("{nickname} has its name back."));
            self.send(client, Slot::All, &RelayMessage::Renamed { nickname }, &[]);
        }
    }

    /// Notes why a client cannot take part or cannot encrypt the model. The same reason in consecutive rounds is logged
    /// once.
    pub(super) fn excused(&mut self, client: ClientId, round: u32, reason: String, is_locked: bool) {
        let name = self.roster.name(client).to_owned();
        let entry = self.roster.get_mut(client);
        let before = entry.and_then(|entry| entry.cannot_take_part(reason.clone(), is_locked));
        match round {
            0 => self.say_once(client, format!("{name} cannot encrypt the model: {reason}")),
            _ if before.as_ref() == Some(&reason) => {}
            _ if !self.roster.get_mut(client).is_none_or(Entry::takes_line) => {}
            _ => self.say_of([client], format!("{name} cannot take part in round {round}: {reason}")),
        }
    }
}
