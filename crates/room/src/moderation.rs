//! The teacher's control over clients, and the clients' consent.

use std::time::Duration;

use unmask_core::ClientId;
use unmask_data::{ImageError, Picture, PictureError, encode_png};
use unmask_federation::Event;
use unmask_wire::{FORGOTTEN, FORGOTTEN_BUT, ORIGINAL_SIDE, OriginalError, RelayMessage, check_original};

use super::{Classroom, control_error::ControlError, roster::Entry};
use crate::{
    attacks::CandidatePicture,
    outbox::{Outbox, OutboxMessage, Slot},
    time::Moment,
};

/// Why the teacher's wish for a client is refused, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum ModerationError {
    #[error("There is no client {client} in the room.")]
    Unknown { client: ClientId },
    #[error("{wanted:?} shows nothing that could be a nickname; give one with letters or digits.")]
    NoName { wanted: String },
    #[error("{nickname} (client {client}) has left; choose somebody who is present.")]
    HasLeft { nickname: String, client: ClientId },
    #[error("{nickname} (client {client}) waits to be let in; let it in first, or choose somebody who is present.")]
    Waits { nickname: String, client: ClientId },
    #[error(
        "{nickname} (client {client}) has not agreed that the class sees what leaks of its picture; choose somebody else."
    )]
    NoConsent { nickname: String, client: ClientId },
    #[error(
        "The picture of {nickname} (client {client}) waits until you let the class see it: press Show picture in the expert \
         view, or choose somebody else."
    )]
    PictureWaits { nickname: String, client: ClientId },
    #[error("{nickname} (client {client}) shows the class no picture; choose somebody who does.")]
    NoPicture { nickname: String, client: ClientId },
    #[error("The picture cannot be resized for the room's model: {0}.")]
    Resize(ShowError),
}

/// Why the class is not shown a client's own picture, as a clause.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("a picture to show, without the consent that the class may see it; agree first")]
    NoConsent,
    #[error(transparent)]
    Message(#[from] OriginalError),
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error(transparent)]
    Encoding(#[from] ImageError),
}

/// Longest wait for the disk before a goodbye.
const PATIENCE: Duration = Duration::from_secs(8);
/// Upper limit of sockets that wait for the disk; those beyond it hear at once that it may still hold something.
pub(super) const MOST_FAREWELLS: usize = 256;

/// The socket of a client whose data is being deleted.
pub(crate) struct Farewell {
    outbox: Outbox,
    /// See [`Journaling::clean_after`](super::journaling::Journaling::clean_after).
    clean_after: u64,
    since: Moment,
}

impl Farewell {
    pub(super) fn due(&self) -> Moment {
        self.since + PATIENCE
    }

    fn say(&self, reason: &str) {
        if let Some(message) = OutboxMessage::encode(&RelayMessage::Goodbye { reason: reason.to_owned() }, &[]) {
            // An outbox that was just emptied takes a message.
            let _ = self.outbox.put(Slot::All, message);
        }
    }
}

/// The sockets of all clients of a room that ended. They close when this is dropped.
pub struct Everybody(Vec<Farewell>);

impl Everybody {
    /// Says goodbye to them; `is_erased` if nothing of theirs is left on the disk.
    pub fn say_goodbye(self, is_erased: bool) {
        self.0.iter().for_each(|farewell| farewell.say(if is_erased { FORGOTTEN } else { FORGOTTEN_BUT }));
    }
}

impl Classroom {
    pub(super) fn lock(&mut self, on: bool) {
        self.door.lock(on);
        self.say(match on {
            true => "The teacher locked the room: present clients stay and can come back, but nobody new can join.",
            false => "The teacher unlocked the room.",
        });
    }

    /// Renames a client; the name is cleaned and made unique, as for any client.
    pub(super) fn rename(&mut self, client: ClientId, wanted: &str) -> Result<(), ModerationError> {
        self.known(client)?;
        let no_name = || ModerationError::NoName { wanted: wanted.to_owned() };
        let nickname = self.roster.rename(client, wanted).ok_or_else(no_name)?;
        if self.known(client)?.is_waiting() {
            // The welcome will bring the name.
            return Ok(());
        }
        self.send(client, Slot::All, &RelayMessage::Renamed { nickname: nickname.clone() }, &[]);
        if self.stage.rename(client, &nickname) {
            self.tell_lesson();
        }
        // The old name may be the reason for the change, so do not repeat it.
        self.say_of([client], format!("The teacher gave a client the name {nickname}."));
        Ok(())
    }

    /// Disconnects a client and invalidates its ticket.
    pub(super) fn remove_for_good(&mut self, client: ClientId) -> Result<(), ModerationError> {
        self.known(client)?;
        self.expel(client, "the teacher removed this client from the room; it may join again");
        Ok(())
    }

    /// Removes a client with its other tabs, and bans it as far as it can be told from others.
    pub(super) fn ban(&mut self, client: ClientId) -> Result<(), ModerationError> {
        let peer = self.known(client)?.peer();
        let is_same =
            |entry: &Entry| entry.id() == client || (peer.device.is_some() && entry.peer().device == peer.device);
        let all: Vec<ClientId> = self.roster.iter().filter(|entry| is_same(entry)).map(Entry::id).collect();
        let is_shared = self.roster.with_socket().any(|other| !is_same(other) && other.peer().address == peer.address);
        let is_waiting = self.known(client)?.is_waiting();
        let name = if is_waiting { "somebody who waited".to_owned() } else { self.roster.name(client).to_owned() };
        if self.door.ban(peer, is_shared) {
            self.say_of([client], format!("The teacher banned {name}."));
        } else {
            let line = format!(
                "The teacher banned {name}, but cannot tell it from other clients at its address: approve newcomers \
                 first to keep it out."
            );
            self.say_of([client], line);
        }
        for client in all {
            self.expel(client, "the teacher banned this client from the room");
        }
        Ok(())
    }

    /// Removes everybody who comes from this client's address.
    pub(super) fn remove_from(&mut self, client: ClientId) -> Result<(), ModerationError> {
        let address = self.known(client)?.peer().address;
        let is_same = |entry: &&Entry| entry.id() == client || (address.is_some() && entry.peer().address == address);
        let all: Vec<ClientId> = self.roster.iter().filter(is_same).map(Entry::id).collect();
        for client in all {
            self.expel(client, "the teacher removed everybody at this address from the room; you may join again");
        }
        Ok(())
    }

    /// Lets newcomers wait, or lets them in at once, with all who wait.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub(super) fn approve_first(&mut self, on: bool) -> Result<(), ModerationError> {
        self.door.approve_first(on);
        self.say(match on {
            true => "From now on, the teacher lets newcomers in one by one.",
            false => "From now on, newcomers come in at once.",
        });
        if on {
            return Ok(());
        }
        self.approve(None)?;
        self.allow_pictures(None)
    }

    pub(super) fn lift_bans(&mut self) {
        self.door.lift_bans();
        self.say("The teacher lifted all bans.");
    }

    pub(super) fn set_target(&mut self, client: ClientId) -> Result<(), ModerationError> {
        let entry = self.known(client)?;
        let nickname = entry.nickname().to_owned();
        if entry.is_waiting() {
            return Err(ModerationError::Waits { nickname, client });
        }
        if !entry.is_present() {
            return Err(ModerationError::HasLeft { nickname, client });
        }
        if entry.picture_waits() {
            return Err(ModerationError::PictureWaits { nickname, client });
        }
        if !entry.may_show() {
            return Err(ModerationError::NoConsent { nickname, client });
        }
        self.attacks.set_target(client);
        self.say_of([client], format!("The teacher chose {nickname} as the target of the attacks."));
        Ok(())
    }

    /// Takes a student's decision whether the class may see what leaks of its picture, and whether others may attack its
    /// masked updates. If the teacher approves newcomers, the picture waits for the teacher, too.
    pub(super) fn consents(&mut self, client: ClientId, may_show: bool, may_lend: bool) {
        let Some(entry) = self.roster.get_mut(client) else { return };
        let (was_shown, waited) = (entry.may_show(), entry.picture_waits());
        let is_shown = entry.decide((may_show, may_lend), self.door.approves());
        // Also where nothing changes: a new socket has not heard of it.
        if waited || entry.picture_waits() {
            self.tell_shown(client);
        }
        if !may_lend {
            self.stop_lending(client);
        }
        if is_shown {
            self.attacks.joined(client);
        }
        // A picture that waits goes on waiting.
        if !is_shown && (was_shown || !may_show) {
            self.hide(client);
        }
        if !is_shown && !may_show {
            self.recorder.hide(client);
        }
        self.feed(Event::Consent { client, consents: is_shown });
    }

    /// Lets the class see the picture of a client that waits for it, or all of them.
    ///
    /// # Errors
    /// If there is no such client.
    pub(super) fn allow_pictures(&mut self, client: Option<ClientId>) -> Result<(), ModerationError> {
        let all: Vec<ClientId> = match client {
            Some(client) => vec![self.known(client)?.id()],
            None => self.roster.present().map(Entry::id).collect(),
        };
        for client in all {
            let Some(entry) = self.roster.get_mut(client).filter(|entry| entry.picture_waits()) else { continue };
            let may_lend = entry.allow_picture();
            let sent = self.pictures.take_waiting(client);
            self.consents(client, true, may_lend);
            self.say_of([client], format!("The class may see the picture of {}.", self.roster.name(client)));
            if let Some(values) = sent
                && let Err(reason) = self.show_original(client, ORIGINAL_SIDE, &values)
            {
                self.refuse(client, &reason.to_string());
            }
        }
        Ok(())
    }

    /// Hides everything made from this client's updates, and its own picture. If it was the target, another client that
    /// consents takes its place.
    pub(super) fn hide(&mut self, client: ClientId) {
        self.hide_original(client);
        let is_one = |other: &ClientId| *other != client && self.roster.get(*other).is_some_and(Entry::may_show);
        // In some scenes not everybody takes part.
        let taking_part = self.published.situation().taking_part();
        let anybody = || self.roster.present().map(Entry::id).find(is_one);
        let next = taking_part.into_iter().find(is_one).or_else(anybody);
        self.attacks.left(client, next);
    }

    /// Shows the class a picture that a client sends of its own, until the client hides it, leaves or withdraws
    /// consent. It may have to wait for the teacher.
    ///
    /// # Errors
    /// If the client has not consented, or the picture does not have that size.
    pub(super) fn show_original(&mut self, client: ClientId, side: u8, values: &[f32]) -> Result<(), ShowError> {
        let entry = self.roster.get(client).filter(|entry| entry.may_show() || entry.picture_waits());
        let waits = entry.ok_or(ShowError::NoConsent)?.picture_waits();
        check_original(side, values)?;
        if waits {
            self.pictures.let_wait(client, values);
            self.tell_shown(client);
            return Ok(());
        }
        let side = usize::from(side);
        let picture = Picture::from_hwc(side, side, values)?;
        let png = encode_png(&picture)?;
        self.pictures.keep_original(client, values, png);
        self.tell_shown(client);
        Ok(())
    }

    /// Asks the update about the picture that a client shows to the class. It is exact where the model sees pictures in
    /// that size.
    ///
    /// # Errors
    /// If the client shows none.
    pub(super) fn test_picture(&mut self, client: ClientId) -> Result<(), ControlError> {
        let nickname = self.known(client)?.nickname().to_owned();
        let nothing = ModerationError::NoPicture { nickname, client };
        let original = self.pictures.original_values(client).ok_or(nothing)?;
        let side = self.room.model().architecture.side();
        let picture = if side == usize::from(ORIGINAL_SIDE) {
            original
        } else {
            resized(&original, side).map_err(ModerationError::Resize)?
        };
        self.take_candidate(CandidatePicture { owner: Some(client), ..picture })
    }

    pub(super) fn hide_original(&mut self, client: ClientId) {
        // Nobody could tell whose update it is.
        self.stop_lending(client);
        self.attacks.original_hidden(client);
        if self.pictures.forget_original(client) {
            self.tell_shown(client);
        }
    }

    pub(super) fn hide_originals(&mut self) {
        for client in self.pictures.forget_originals() {
            self.attacks.original_hidden(client);
            self.stop_lending(client);
            self.tell_shown(client);
        }
    }

    /// Tells a client whether the class sees its picture, or whether it waits for the teacher.
    fn tell_shown(&mut self, client: ClientId) {
        let is_shown = self.pictures.original(client).is_some();
        let waits = self.roster.get(client).is_some_and(Entry::picture_waits);
        self.send(client, Slot::Original, &RelayMessage::Original { is_shown, waits }, &[]);
    }

    /// Deletes a student's data at its request. Numbers that do not identify anyone stay: the model, its losses and
    /// accuracies, and the attacks' scores.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.forget_who_waits_beside(client);
        self.roster.drop_waiting(client);
        let outbox = self.roster.take_outbox(client);
        let earlier = self.roster.earlier(client);
        self.remove(client);
        for client in [client].into_iter().chain(earlier) {
            self.keepers().into_iter().for_each(|keeper| keeper.forget(client));
            self.feed(Event::Forgotten(client));
        }
        // The question may have named the client.
        self.tell_lesson();
        self.say("A client had its data deleted.");
        let clean_after = self.journaling.clean_after();
        let is_erased = self.journaling.is_kept() || self.host.erase_set_aside();
        let Some(outbox) = outbox else { return };
        let farewell = Farewell { outbox, clean_after, since: self.now.moment };
        if is_erased && self.farewells.len() < MOST_FAREWELLS {
            self.farewells.push(farewell);
        } else {
            farewell.say(FORGOTTEN_BUT);
        }
    }

    /// Sends away who waits to be let in from the same browser: a tab that was loaded again may still be open here.
    pub(super) fn forget_who_waits_beside(&mut self, client: ClientId) {
        let Some(device) = self.roster.get(client).and_then(|entry| entry.peer().device) else { return };
        let is_beside = |entry: &&Entry| entry.id() != client && entry.peer().device == Some(device);
        let beside: Vec<ClientId> = self.roster.waiting().filter(is_beside).map(Entry::id).collect();
        beside.into_iter().for_each(|other| self.turn_away(other, FORGOTTEN));
    }

    /// Says goodbye to those whose data was deleted, as soon as it is gone from the journal, too. They wait for a while
    /// only: a page that hears nothing takes its connection for lost.
    pub(super) fn say_farewells(&mut self) {
        let (journaling, now) = (&self.journaling, self.now.moment);
        self.farewells.retain(|farewell| {
            if journaling.is_clean(farewell.clean_after) {
                farewell.say(FORGOTTEN);
            } else if journaling.is_failing() || farewell.due() <= now {
                farewell.say(FORGOTTEN_BUT);
            } else {
                return true;
            }
            false
        });
    }

    /// Takes all sockets from a room that is about to be erased.
    pub fn take_everybody(&mut self) -> Everybody {
        let clients: Vec<ClientId> = self.roster.with_socket().map(Entry::id).collect();
        clients.iter().for_each(|client| self.roster.drop_waiting(*client));
        let outboxes = clients.into_iter().filter_map(|client| self.roster.take_outbox(client));
        let farewells = outboxes.map(|outbox| Farewell { outbox, clean_after: 0, since: self.now.moment });
        Everybody(farewells.chain(std::mem::take(&mut self.farewells)).collect())
    }

    /// Says goodbye before the room ends.
    pub(super) fn end_farewells(&mut self) {
        for farewell in std::mem::take(&mut self.farewells) {
            farewell.say(FORGOTTEN_BUT);
        }
    }

    fn known(&self, client: ClientId) -> Result<&Entry, ModerationError> {
        self.roster.get(client).ok_or(ModerationError::Unknown { client })
    }

    /// Disconnects a client for good. What the class saw of it goes from the recording.
    fn expel(&mut self, client: ClientId, reason: &str) {
        if self.roster.get(client).is_some_and(Entry::is_waiting) {
            return self.turn_away(client, reason);
        }
        if self.roster.get(client).is_some_and(Entry::is_present) {
            self.dismiss(client, reason);
        }
        self.roster.expel(client);
        self.recorder.hide(client);
        self.feed(Event::Forgotten(client));
    }
}

/// A copy of a picture that a client shows, in the size of another model.
fn resized(original: &CandidatePicture, side: usize) -> Result<CandidatePicture, ShowError> {
    let shown = usize::from(ORIGINAL_SIDE);
    Ok(CandidatePicture::copy(&Picture::from_hwc(shown, shown, &original.values)?, side)?)
}
