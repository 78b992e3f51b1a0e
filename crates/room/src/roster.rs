//! The clients that are, or were, in the room.

use std::{collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};
use unmask_core::ClientId;
use unmask_defence::commitment;
use unmask_federation::Refusal;

use crate::{
    config::RoomLimits,
    outbox::{Outbox, OutboxMessage, Slot, Waiting, outbox},
    peer::{DeviceId, Peer},
    recent::Recent,
    text::{clean, clean_name, look_alike},
    ticket::{Ticket, TicketHash},
    time::Moment,
};

/// Stands for the name of a client that was forgotten.
pub(crate) const GONE: &str = "a client that is gone";

/// Upper limit of clients remembered after they can no longer come back.
pub(super) const MOST_FORMER: usize = 1000;
/// How long the place of a client that left is kept from strangers.
const KEPT: Duration = Duration::from_secs(120);
const MAX_NICKNAME: usize = 24;
const MAX_DEVICE: usize = 100;
/// Upper limit of log lines that one client causes between two rounds.
const MAX_LINES: u8 = 5;

/// A client on one of its sockets. Messages from the client's older sockets are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    pub client: ClientId,
    /// Counts the sockets of the room.
    pub(crate) number: u64,
}

#[derive(Debug)]
struct Link {
    connection: u64,
    outbox: Outbox,
}

#[derive(Debug)]
pub(crate) struct Entry {
    id: ClientId,
    nickname: String,
    /// The name it asked for, cleaned. Another client may have had it.
    wanted: String,
    device: String,
    /// The ticket given to its newest socket.
    ticket: TicketHash,
    /// The previous ticket, until a message comes on its newest socket: a Welcome may get lost.
    earlier: Option<TicketHash>,
    /// The last plausible loss it reported.
    loss: Option<f32>,
    bytes_sent: u64,
    updates: u32,
    /// Number of the division whose shard was sent on this socket.
    shard: Option<u32>,
    /// Why it could not take part, until it can again.
    excuse: Option<String>,
    /// Whether it lacks only the room's passphrase.
    is_locked: bool,
    /// Why its last update was refused, until one is accepted.
    refusal: Option<String>,
    /// Whether the class may see what leaks of its picture.
    may_show: bool,
    /// Whether other clients may get its masked updates. A relay that restarts hears it again from the client.
    may_lend: bool,
    /// Whether nobody sits at it.
    is_robot: bool,
    is_own: bool,
    /// Whether the teacher need not be asked any more before the class sees its picture.
    is_allowed: bool,
    /// Whether its owner agrees to be shown, and waits for the teacher.
    picture_waits: bool,
    /// What its page calls itself, so that one that was loaded again is known. A restart forgets it.
    page: Option<[u8; 32]>,
    /// Its last commitment to the nonce of a mask, and the one that held when the running round began.
    commitment: [u8; 32],
    asked: [u8; 32],
    /// The origin of its current or last socket.
    peer: Peer,
    /// Log lines it has caused since the last round began.
    lines: u8,
    /// The ticket that it gets once the teacher lets it in, while it waits for that.
    waits_with: Option<Ticket>,
    /// Its socket, while it is connected.
    link: Option<Link>,
    /// When its socket closed, while it is away.
    gone_since: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct RosterRecord {
    clients: Vec<ClientRecord>,
    former: Vec<Former>,
    next: u32,
}

/// A client that can no longer come back, while the log and the recording may still name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Former {
    id: ClientId,
    nickname: String,
    device: Option<DeviceId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ClientRecord {
    id: ClientId,
    nickname: String,
    device: String,
    ticket: TicketHash,
    earlier: Option<TicketHash>,
    loss: Option<f32>,
    bytes_sent: u64,
    updates: u32,
    refusal: Option<String>,
    may_show: bool,
    is_robot: bool,
    peer: Peer,
}

#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) connection: Connection,
    /// Lets the client come back once.
    pub(crate) ticket: Ticket,
    /// The name on show, which may differ from the one it asked for.
    pub(crate) nickname: String,
    /// Its outgoing messages.
    pub(crate) waiting: Waiting,
}

/// All known clients, in the order of joining.
#[derive(Debug)]
pub(crate) struct Roster {
    entries: Vec<Entry>,
    former: Recent<Former>,
    /// Counts the clients.
    next: u32,
    /// Counts the sockets.
    connections: u64,
}

impl Default for Roster {
    fn default() -> Self {
        Self { entries: Vec::new(), former: Recent::new(MOST_FORMER), next: 0, connections: 0 }
    }
}

impl Roster {
    /// Admits a client on a new socket: the ticket's holder, or a new client. Either gets the ticket `next` for the next
    /// time.
    pub(crate) fn connect(&mut self, ticket: Option<Ticket>, next: Ticket, nickname: &str, device: &str) -> Entrance {
        self.connections += 1;
        let number = self.connections;
        let (outbox, waiting) = outbox();
        let entry = match ticket.and_then(|ticket| self.resume(&ticket, &next, device)) {
            Some(entry) => entry,
            None => self.add(nickname, device, &next),
        };
        entry.link = Some(Link { connection: number, outbox });
        let connection = Connection { client: entry.id, number };
        Entrance { connection, ticket: next, nickname: entry.nickname.clone(), waiting }
    }

    /// Gives the sockets to come numbers after this one, so that nobody takes them for those of an earlier room.
    pub(crate) fn count_sockets_from(&mut self, number: u64) {
        self.connections = number;
    }

    pub(crate) fn holder(&self, ticket: &Ticket) -> Option<&Entry> {
        let hash = TicketHash::of(ticket);
        self.entries.iter().find(|entry| entry.has(&hash))
    }

    /// Puts a message into a client's outbox, if the client is present. Returns its connection if it has left too many
    /// messages unread and must be disconnected.
    #[must_use]
    pub(crate) fn put(&self, client: ClientId, slot: Slot, message: OutboxMessage) -> Option<Connection> {
        let link = self.get(client)?.link.as_ref()?;
        (!link.outbox.put(slot, message)).then_some(Connection { client, number: link.connection })
    }

    /// Drops a client's queued messages, so that a last message is sent immediately.
    pub(crate) fn drop_waiting(&self, client: ClientId) {
        if let Some(link) = self.get(client).and_then(|entry| entry.link.as_ref()) {
            link.outbox.clear();
        }
    }

    /// The numbers of clients that it knows nothing of: those that were forgotten, and the next ones.
    pub(crate) fn strangers(&self, next: u32) -> impl Iterator<Item = ClientId> {
        let is_known =
            |client: &ClientId| self.get(*client).is_some() || self.former.iter().any(|former| former.id == *client);
        (1..=self.next.saturating_add(next)).map(ClientId).filter(move |client| !is_known(client))
    }

    /// Number of clients that were retired.
    pub(crate) fn former(&self) -> usize {
        self.former.len()
    }

    /// Takes a client's socket away from it.
    pub(crate) fn take_outbox(&mut self, client: ClientId) -> Option<Outbox> {
        self.get_mut(client)?.link.take().map(|link| link.outbox)
    }

    /// Drops the messages in this slot that wait for a client.
    pub(crate) fn take_back(&self, client: ClientId, slot: Slot) {
        if let Some(link) = self.get(client).and_then(|entry| entry.link.as_ref()) {
            link.outbox.take_back(slot);
        }
    }

    /// Whether a client lacked the shard of this division; marks the shard as sent.
    pub(crate) fn takes_shard(&mut self, client: ClientId, division: u32) -> bool {
        self.get_mut(client).is_some_and(|entry| entry.shard.replace(division) != Some(division))
    }

    /// Adds a new client; its nickname is cleaned and made unique among those present.
    pub(crate) fn add(&mut self, nickname: &str, device: &str, ticket: &Ticket) -> &mut Entry {
        self.next += 1;
        let entry = Entry {
            id: ClientId(self.next),
            nickname: self.free_name(nickname, None),
            wanted: clean_name(nickname, MAX_NICKNAME),
            device: clean(device, MAX_DEVICE),
            ticket: TicketHash::of(ticket),
            earlier: None,
            loss: None,
            bytes_sent: 0,
            updates: 0,
            shard: None,
            excuse: None,
            is_locked: false,
            refusal: None,
            may_show: false,
            may_lend: false,
            is_robot: false,
            is_own: false,
            is_allowed: false,
            picture_waits: false,
            page: None,
            commitment: [0; 32],
            asked: [0; 32],
            waits_with: None,
            peer: Peer::default(),
            lines: 0,
            link: None,
            gone_since: None,
        };
        let index = self.entries.len();
        self.entries.push(entry);
        &mut self.entries[index]
    }

    /// Returns the holder of a ticket and replaces the ticket by `next`. Makes the nickname unique again, because
    /// another client may have taken it in the meantime.
    pub(crate) fn resume(&mut self, ticket: &Ticket, next: &Ticket, device: &str) -> Option<&mut Entry> {
        let hash = TicketHash::of(ticket);
        let index = self.entries.iter().position(|entry| entry.has(&hash))?;
        // Try the name it first asked for, which may be free again.
        let nickname = self.free_name(&self.entries[index].wanted, Some(self.entries[index].id));
        let entry = &mut self.entries[index];
        (entry.ticket, entry.earlier) = (TicketHash::of(next), Some(hash));
        entry.nickname = nickname;
        entry.set_device(device);
        entry.gone_since = None;
        // A reloaded page has lost these.
        (entry.shard, entry.excuse, entry.is_locked) = (None, None, false);
        Some(entry)
    }

    /// Renames a client; the name is cleaned and made unique. Returns `None` if no printable character is left.
    pub(crate) fn rename(&mut self, client: ClientId, wanted: &str) -> Option<String> {
        if clean_name(wanted, MAX_NICKNAME).is_empty() {
            return None;
        }
        let nickname = self.free_name(wanted, Some(client));
        let entry = self.get_mut(client)?;
        (entry.nickname, entry.wanted) = (nickname.clone(), nickname.clone());
        Some(nickname)
    }

    pub(crate) fn begin_round(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.lines = 0);
    }

    /// From now on, an update of the round that begins must reveal the nonce that its client has committed to.
    pub(crate) fn fix_commitments(&mut self, cohort: &[ClientId]) {
        for entry in self.entries.iter_mut().filter(|entry| cohort.contains(&entry.id)) {
            entry.asked = entry.commitment;
        }
    }

    /// Lets a client in that waits. Returns its ticket and its name, which others may have taken in the meantime.
    pub(crate) fn let_in(&mut self, client: ClientId) -> Option<(Ticket, String)> {
        let wanted = self.get(client)?.wanted.clone();
        let nickname = self.free_name(&wanted, Some(client));
        let entry = self.get_mut(client)?;
        let ticket = entry.waits_with.take()?;
        entry.nickname.clone_from(&nickname);
        Some((ticket, nickname))
    }

    /// Lets a client not come back.
    pub(crate) fn expel(&mut self, client: ClientId) {
        self.retire(|entry| entry.id == client);
    }

    fn retire(&mut self, is_retired: impl Fn(&Entry) -> bool) {
        for entry in self.entries.iter().filter(|entry| is_retired(entry)) {
            let (id, nickname, device) = (entry.id, entry.nickname.clone(), entry.peer.device);
            self.former.push(Former { id, nickname, device });
        }
        self.entries.retain(|entry| !is_retired(entry));
    }

    /// Clients that were this one, as far as can be told: those that came from its browser and are away or can no longer
    /// come back. Programs have no cookie and are told by their names.
    pub(crate) fn earlier(&self, client: ClientId) -> Vec<ClientId> {
        let Some(entry) = self.get(client) else { return Vec::new() };
        let is_same_browser = |device: Option<DeviceId>| device.is_some() && device == entry.peer.device;
        // Programs have no cookie.
        let is_namesake = |former: &Former| {
            let has_cookie = former.device.is_some() || entry.peer.device.is_some();
            !has_cookie && [&entry.nickname, &entry.wanted].contains(&&former.nickname)
        };
        let is_same = |former: &&Former| is_namesake(former) || is_same_browser(former.device);
        let is_same_away =
            |other: &&Entry| other.id != client && other.link.is_none() && is_same_browser(other.peer.device);
        let former = self.former.iter().filter(is_same).map(|former| former.id);
        former.chain(self.entries.iter().filter(is_same_away).map(Entry::id)).collect()
    }

    /// Deletes what it knows of a client.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.entries.retain(|entry| entry.id != client);
        self.former.retain(|former| former.id != client);
    }

    pub(crate) fn record(&self) -> RosterRecord {
        let record = |entry: &Entry| ClientRecord {
            id: entry.id,
            nickname: entry.nickname.clone(),
            device: entry.device.clone(),
            ticket: entry.ticket,
            earlier: entry.earlier,
            loss: entry.loss,
            bytes_sent: entry.bytes_sent,
            updates: entry.updates,
            refusal: entry.refusal.clone(),
            // Else the recording would lose what the class saw of an owner that agrees and waits again.
            may_show: entry.may_show || entry.picture_waits,
            is_robot: entry.is_robot,
            peer: entry.peer,
        };
        let former = self.former.iter().cloned().collect();
        let kept = self.entries.iter().filter(|entry| !entry.is_waiting());
        RosterRecord { clients: kept.map(record).collect(), former, next: self.next }
    }

    /// Restores a roster without anyone present. Every client has as long to come back as if it had just left.
    pub(crate) fn restore(RosterRecord { clients, former, next }: RosterRecord, now: Moment) -> Self {
        let entry = |client: ClientRecord| Entry {
            id: client.id,
            wanted: client.nickname.clone(),
            nickname: client.nickname,
            device: client.device,
            ticket: client.ticket,
            earlier: client.earlier,
            loss: client.loss,
            bytes_sent: client.bytes_sent,
            updates: client.updates,
            shard: None,
            excuse: None,
            is_locked: false,
            refusal: client.refusal,
            may_show: client.may_show,
            may_lend: false,
            is_robot: client.is_robot,
            is_own: false,
            // A page that comes back may have another picture.
            is_allowed: false,
            picture_waits: false,
            page: None,
            commitment: [0; 32],
            asked: [0; 32],
            waits_with: None,
            peer: client.peer,
            lines: 0,
            link: None,
            gone_since: Some(now),
        };
        let former = Recent::new(MOST_FORMER).refilled(former);
        Self { entries: clients.into_iter().map(entry).collect(), former, next, connections: 0 }
    }

    pub(crate) fn get(&self, client: ClientId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == client)
    }

    pub(crate) fn get_mut(&mut self, client: ClientId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == client)
    }

    /// Returns a client if this is its current socket.
    pub(crate) fn connected(&mut self, Connection { client, number }: Connection) -> Option<&mut Entry> {
        self.get_mut(client).filter(|entry| entry.link.as_ref().is_some_and(|link| link.connection == number))
    }

    pub(crate) fn name(&self, client: ClientId) -> &str {
        self.get(client).map_or(GONE, |entry| &entry.nickname)
    }

    /// The clients on show, in the order of joining. A client that is away is hidden while a present one has the same
    /// name; it can still come back, under a different name.
    pub(crate) fn shown(&self) -> Vec<&Entry> {
        let present: HashSet<&str> = self.present().map(|entry| entry.nickname.as_str()).collect();
        let is_shown = |entry: &&Entry| entry.link.is_some() || !present.contains(entry.nickname.as_str());
        self.entries.iter().filter(is_shown).collect()
    }

    /// Gives the name of a client that left to a present one that asked for it from the same browser but was given
    /// another name. Returns that client and the name.
    pub(crate) fn give_back_name(&mut self, gone: ClientId) -> Option<(ClientId, String)> {
        let gone = self.get(gone).filter(|entry| entry.link.is_none() && entry.peer.device.is_some())?;
        let (nickname, peer) = (gone.nickname.clone(), gone.peer);
        let is_same = |entry: &&Entry| entry.peer.device == peer.device && entry.wanted == nickname;
        let heir = self.present().find(is_same).filter(|entry| entry.nickname != nickname)?.id;
        (self.free_name(&nickname, Some(heir)) == nickname).then_some(())?;
        self.get_mut(heir)?.nickname.clone_from(&nickname);
        Some((heir, nickname))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_present())
    }

    /// Those who are present, and those who wait to be let in.
    pub(crate) fn with_socket(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.link.is_some())
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_waiting())
    }

    /// Number of places of clients that sent updates and left a short while ago.
    pub(crate) fn kept_places(&self, now: Moment) -> usize {
        let is_kept = |entry: &&Entry| entry.updates > 0 && entry.gone_since.is_some_and(|since| now - since < KEPT);
        self.entries.iter().filter(is_kept).count()
    }

    /// Forgets clients that have been away for too long, and the longest away if there are more than the limit of
    /// present clients. Returns the clients forgotten.
    pub(crate) fn sweep(&mut self, now: Moment, limits: &RoomLimits) -> Vec<ClientId> {
        // Clients that never sent an update go first, so that passers-by do not crowd out students.
        let gone = |entry: &Entry| Some((entry.updates > 0, entry.gone_since?, entry.id));
        let mut gone: Vec<(bool, Moment, ClientId)> = self.entries.iter().filter_map(gone).collect();
        gone.sort_unstable();
        let too_many = gone.len().saturating_sub(limits.clients);
        let mut forgotten: Vec<ClientId> = gone.into_iter().take(too_many).map(|(.., id)| id).collect();
        let expired = |entry: &&Entry| entry.expires(limits).is_some_and(|expires| expires <= now);
        forgotten.extend(self.entries.iter().filter(expired).map(|entry| entry.id));
        self.retire(|entry| forgotten.contains(&entry.id));
        forgotten
    }

    /// When [`sweep`](Self::sweep) next has work to do.
    pub(crate) fn next_sweep(&self, limits: &RoomLimits) -> Option<Moment> {
        self.entries.iter().filter_map(|entry| entry.expires(limits)).min()
    }

    /// Returns `wanted`, with the smallest number after it that makes it unlike the names of all others present, if
    /// needed.
    fn free_name(&self, wanted: &str, own: Option<ClientId>) -> String {
        let wanted = match clean_name(wanted, MAX_NICKNAME) {
            empty if empty.is_empty() => "guest".to_owned(),
            name => name,
        };
        let is_taken =
            |name: &str| self.present().any(|entry| Some(entry.id) != own && look_alike(&entry.nickname, name));
        if !is_taken(&wanted) {
            return wanted;
        }
        let numbered = |number: usize| {
            let suffix = format!(" {number}");
            let stem: String = wanted.chars().take(MAX_NICKNAME - suffix.len()).collect();
            stem + &suffix
        };
        // There are more numbers than names, so one is free.
        (2..self.entries.len() + 3).map(numbered).find(|name| !is_taken(name)).unwrap_or(wanted)
    }
}

impl Entry {
    /// Whether this is its ticket, or the previous one while the newest may not have arrived.
    fn has(&self, ticket: &TicketHash) -> bool {
        self.ticket == *ticket || self.earlier.as_ref() == Some(ticket)
    }

    pub(crate) fn id(&self) -> ClientId {
        self.id
    }

    pub(crate) fn nickname(&self) -> &str {
        &self.nickname
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn loss(&self) -> Option<f32> {
        self.loss
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    pub(crate) fn updates(&self) -> u32 {
        self.updates
    }

    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    pub(crate) fn may_show(&self) -> bool {
        self.may_show
    }

    /// Whether other clients may get its masked updates.
    pub(crate) fn may_lend(&self) -> bool {
        self.may_show && self.may_lend
    }

    pub(crate) fn is_robot(&self) -> bool {
        self.is_robot
    }

    /// Whether the program that opened the room started it.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether it is connected and was let in.
    pub(crate) fn is_present(&self) -> bool {
        self.link.is_some() && !self.is_waiting()
    }

    /// Whether the teacher has yet to let it in.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits_with.is_some()
    }

    /// Lets it wait with this ticket.
    pub(crate) fn wait_with(&mut self, ticket: Ticket) {
        self.waits_with = Some(ticket);
    }

    /// Whether it lacks only the room's passphrase.
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Notes a message on the newest socket, which proves that the newest ticket has arrived.
    pub(crate) fn has_its_ticket(&mut self) {
        self.earlier = None;
    }

    pub(crate) fn set_consent(&mut self, may_show: bool, may_lend: bool) {
        (self.may_show, self.may_lend) = (may_show, may_lend);
    }

    /// Takes an owner's decision whether the class sees its picture; if `is_approved`, the teacher's is needed, too. Returns
    /// whether the class may see it now.
    pub(crate) fn decide(&mut self, (may_show, may_lend): (bool, bool), is_approved: bool) -> bool {
        // Who withdraws may come with another picture.
        self.is_allowed = may_show && (self.is_allowed || self.is_own || !is_approved);
        self.picture_waits = may_show && !self.is_allowed;
        self.set_consent(self.is_allowed, may_lend);
        self.is_allowed
    }

    /// Whether its owner agrees to be shown, and waits for the teacher.
    pub(crate) fn picture_waits(&self) -> bool {
        self.is_present() && self.picture_waits
    }

    /// The teacher lets the class see its picture. Returns its owner's decision whether to lend.
    pub(crate) fn allow_picture(&mut self) -> bool {
        self.is_allowed = true;
        self.may_lend
    }

    /// Takes page and commitment of a hello. A page that was loaded again may have another picture.
    pub(crate) fn says_hello_with(&mut self, page: [u8; 32], commitment: [u8; 32]) {
        self.is_allowed &= self.page.replace(page) == Some(page);
        self.commits(commitment);
    }

    pub(crate) fn commits(&mut self, commitment: [u8; 32]) {
        self.commitment = commitment;
    }

    /// Whether it can still reveal the nonce that the running round asks for.
    pub(crate) fn holds_its_nonce(&self) -> bool {
        self.commitment == self.asked
    }

    /// Whether this is the nonce that the running round asks for, or one to which it committed too late.
    pub(crate) fn reveals(&self, nonce: &[u8; 32]) -> Result<(), Refusal> {
        match commitment(nonce) {
            revealed if revealed == self.asked => Ok(()),
            revealed if revealed == self.commitment => Err(Refusal::SeedLate),
            _ => Err(Refusal::SeedChosen),
        }
    }

    pub(crate) fn set_robot(&mut self, is_robot: bool) {
        self.is_robot = is_robot;
    }

    pub(crate) fn set_own(&mut self, is_own: bool) {
        self.is_own = is_own;
    }

    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.peer = peer;
    }

    pub(crate) fn count_bytes(&mut self, bytes: u64) {
        self.bytes_sent += bytes;
    }

    pub(crate) fn set_loss(&mut self, loss: f32) {
        self.loss = Some(loss);
    }

    /// Its update was accepted.
    pub(crate) fn accepted(&mut self) {
        self.updates += 1;
        self.refusal = None;
        self.can_take_part();
    }

    pub(crate) fn refused(&mut self, reason: String) {
        self.refusal = Some(reason);
    }

    /// The teacher let it back in.
    pub(crate) fn readmitted(&mut self) {
        self.refusal = None;
    }

    pub(crate) fn can_take_part(&mut self) {
        (self.excuse, self.is_locked) = (None, false);
    }

    /// It cannot take part for this reason. Returns its earlier reason.
    pub(crate) fn cannot_take_part(&mut self, reason: String, is_locked: bool) -> Option<String> {
        self.is_locked = is_locked;
        self.excuse.replace(reason)
    }

    /// Whether the log takes another line that this client causes. The limit keeps one client from filling the log.
    pub(crate) fn takes_line(&mut self) -> bool {
        let is_taken = self.lines < MAX_LINES;
        self.lines = self.lines.saturating_add(1);
        is_taken
    }

    pub(crate) fn set_device(&mut self, device: &str) {
        self.device = clean(device, MAX_DEVICE);
    }

    /// Its socket closed, and it is away from now on.
    pub(crate) fn leave(&mut self, now: Moment) {
        self.gone_since = Some(now);
        self.link = None;
    }

    /// Drops its socket for a newer one.
    pub(crate) fn drop_socket(&mut self) {
        self.link = None;
    }

    fn expires(&self, limits: &RoomLimits) -> Option<Moment> {
        let kept: Duration = if self.updates == 0 { limits.gone } else { limits.remembered };
        self.gone_since.map(|since| since + kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;
    use unmask_wire::RelayMessage;

    use super::*;
    use crate::peer::DeviceId;

    fn enter(roster: &mut Roster, ticket: Option<Ticket>, nickname: &str, device: &str) -> Entrance {
        static TICKETS: AtomicU32 = AtomicU32::new(1000);
        let next = u128::from(TICKETS.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
        roster.connect(ticket, next, nickname, device)
    }

    fn join(roster: &mut Roster, nickname: &str) -> (ClientId, String) {
        let entry = roster.add(nickname, "CPU", &[0; 16]);
        entry.link = Some(Link { connection: 0, outbox: outbox().0 });
        (entry.id, entry.nickname.clone())
    }

    #[test]
    fn ticket_leads_back_to_its_client_on_another_socket() {
        let mut roster = Roster::default();
        let first = enter(&mut roster, None, "Ada", "CPU");
        let again = enter(&mut roster, Some(first.ticket), "Eve", "GPU");
        assert_eq!((again.connection.client, again.nickname.as_str()), (first.connection.client, "Ada"));
        assert!(roster.connected(first.connection).is_none() && roster.connected(again.connection).is_some());
        let stranger = enter(&mut roster, Some([7; 16]), "Eve", "GPU");
        assert_ne!(stranger.connection.client, first.connection.client);
    }

    #[test]
    fn whoever_reads_nothing_is_named() {
        let mut roster = Roster::default();
        let deaf = enter(&mut roster, None, "Ada", "CPU");
        let client = deaf.connection.client;
        let message = OutboxMessage::encode(&RelayMessage::Accepted { round: 1 }, &[]).unwrap();
        let put = || roster.put(client, Slot::All, message.clone());
        let named = (0..1000).find_map(|_| put());
        assert_eq!(named, Some(deaf.connection));
        roster.drop_waiting(client);
        assert_eq!(roster.put(client, Slot::All, message.clone()), None);
        assert_eq!(roster.put(ClientId(9), Slot::All, message), None);
    }

    #[test]
    fn shard_is_taken_once_a_socket() {
        let mut roster = Roster::default();
        let ada = enter(&mut roster, None, "Ada", "CPU");
        let client = ada.connection.client;
        assert_eq!([1, 1, 2].map(|division| roster.takes_shard(client, division)), [true, false, true]);
        enter(&mut roster, Some(ada.ticket), "Ada", "CPU");
        assert!(roster.takes_shard(client, 2) && !roster.takes_shard(ClientId(9), 2));
    }

    #[test]
    fn nicknames_are_clean_and_unique() {
        let mut roster = Roster::default();
        for (asked, shown) in [
            ("Ada", "Ada"),
            (" Ada\u{7}\n", "Ada 2"),
            ("Ada", "Ada 3"),
            ("", "guest"),
            ("\u{0}  ", "guest 2"),
            ("A\u{200b}d\u{430}", "Ad\u{430} 4"),
            ("\u{202e}Bob", "Bob"),
            ("\u{ff22}ob", "Bob 2"),
            ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwx"),
            ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuv 2"),
        ] {
            assert_eq!(join(&mut roster, asked).1, shown);
        }
    }

    #[test]
    fn another_name_is_clean_and_unlike_others_too() {
        let mut roster = Roster::default();
        let (ada, _) = join(&mut roster, "Ada");
        let (bob, _) = join(&mut roster, "Bob");
        assert_eq!(roster.rename(bob, "\u{202e}Ad\u{430}\n").as_deref(), Some("Ad\u{430} 2"));
        assert_eq!(roster.rename(ada, "Ada").as_deref(), Some("Ada"));
        for nothing in ["", " \u{200b}", "\u{2800}"] {
            assert_eq!(roster.rename(bob, nothing), None);
        }
        assert_eq!((roster.name(ada), roster.name(bob)), ("Ada", "Ad\u{430} 2"));
        roster.forget(bob);
        assert!(roster.get(bob).is_none() && roster.rename(bob, "Bob").is_none());
    }

    #[test]
    fn name_of_somebody_gone_is_free_until_they_come_back() {
        let mut roster = Roster::default();
        let entry = roster.add("Ada", "CPU", &[1; 16]);
        entry.leave(Moment::START);
        assert_eq!(join(&mut roster, "Ada").1, "Ada");
        assert_eq!(roster.resume(&[1; 16], &[3; 16], "CPU").unwrap().nickname, "Ada 2");
        assert!(roster.resume(&[2; 16], &[4; 16], "CPU").is_none());
    }

    #[test]
    fn who_is_gone_has_no_line_beside_a_namesake() {
        let mut roster = Roster::default();
        let ghost = enter(&mut roster, None, "Cleo", "CPU");
        roster.get_mut(ghost.connection.client).unwrap().leave(Moment::START);
        let lines = |roster: &Roster| roster.shown().into_iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!(lines(&roster), [ghost.connection.client]);
        let cleo = enter(&mut roster, None, "Cleo", "CPU").connection.client;
        assert_eq!(lines(&roster), [cleo]);
        // The ticket still works, but under another name while this one is taken.
        let back = enter(&mut roster, Some(ghost.ticket), "", "CPU");
        assert_eq!((back.connection.client, back.nickname.as_str()), (ghost.connection.client, "Cleo 2"));
        assert_eq!(lines(&roster).len(), 2);
        for client in [cleo, ghost.connection.client] {
            roster.get_mut(client).unwrap().leave(Moment::START);
        }
        assert_eq!(enter(&mut roster, Some(back.ticket), "", "CPU").nickname, "Cleo");
    }

    #[test]
    fn a_name_goes_back_to_the_same_browser_alone() {
        let cleo = |device: u32| Peer { address: None, device: DeviceId::parse(&format!("{device:x}")) };
        for (second, is_same) in [(1, true), (2, false)] {
            let mut roster = Roster::default();
            let [first, again] = [1, second].map(|device| {
                let client = enter(&mut roster, None, "Cleo", "CPU").connection.client;
                roster.get_mut(client).unwrap().peer = cleo(device);
                client
            });
            assert_eq!(roster.give_back_name(first), None, "it is still there");
            roster.get_mut(first).unwrap().leave(Moment::START);
            assert_eq!(roster.give_back_name(first), is_same.then(|| (again, "Cleo".to_owned())));
            assert_eq!(roster.name(again), if is_same { "Cleo" } else { "Cleo 2" });
        }
    }

    #[test]
    fn a_ticket_works_once() {
        let mut roster = Roster::default();
        let connect = |roster: &mut Roster, ticket| {
            let Entrance { connection, ticket, .. } = enter(roster, ticket, "Ada", "CPU");
            (connection.client, ticket)
        };
        let (ada, first) = connect(&mut roster, None);
        let (back, second) = connect(&mut roster, Some(first));
        assert!(back == ada && second != first);
        roster.get_mut(ada).unwrap().has_its_ticket();
        let (thief, _) = connect(&mut roster, Some(first));
        assert_ne!(thief, ada);
        assert_eq!(connect(&mut roster, Some(second)).0, ada);
        roster.get_mut(ada).unwrap().has_its_ticket();
        assert!(roster.holder(&second).is_none() && roster.holder(&first).is_none());
    }

    /// A phone that drops before the Welcome still has the previous ticket and is recognised.
    #[test]
    fn a_welcome_may_be_lost() {
        let mut roster = Roster::default();
        let first = enter(&mut roster, None, "Ada", "CPU");
        let ada = first.connection.client;
        let lost = enter(&mut roster, Some(first.ticket), "Ada", "CPU");
        let mut again = Roster::restore(roster.record(), Moment::START);
        for roster in [&mut roster, &mut again] {
            let back = enter(roster, Some(first.ticket), "Ada", "CPU");
            assert_eq!(back.connection.client, ada);
            assert!(roster.holder(&lost.ticket).is_none() && roster.holder(&back.ticket).is_some());
        }
    }

    #[test]
    fn one_client_fills_no_log() {
        let mut roster = Roster::default();
        let client = enter(&mut roster, None, "Ada", "CPU").connection.client;
        let said = |roster: &mut Roster| (0..1000).filter(|_| roster.get_mut(client).unwrap().takes_line()).count();
        assert_eq!(said(&mut roster), usize::from(MAX_LINES));
        roster.begin_round();
        assert_eq!(said(&mut roster), usize::from(MAX_LINES));
    }

    #[test]
    fn a_ticket_of_before_is_good_in_a_restored_roster() {
        let mut roster = Roster::default();
        let Entrance { connection, ticket, .. } = enter(&mut roster, None, "Ada", "CPU");
        let entry = roster.get_mut(connection.client).unwrap();
        (entry.updates, entry.bytes_sent, entry.loss) = (3, 1000, Some(0.5));
        let record = roster.record();
        assert!(!format!("{record:?}").contains(&format!("{ticket:?}")), "a ticket in the plain");
        let mut again = Roster::restore(record.clone(), Moment::START);
        assert_eq!((again.record(), again.present().count()), (record, 0));
        let bob = enter(&mut again, Some([7; 16]), "Bob", "CPU").connection.client;
        assert_eq!(bob, ClientId(connection.client.0 + 1));
        let back = enter(&mut again, Some(ticket), "anybody", "GPU");
        assert_eq!((back.connection.client, back.nickname.as_str()), (connection.client, "Ada"));
        assert_eq!(again.get(back.connection.client).unwrap().updates, 3);
    }

    /// The recording keeps what the class saw of an owner that agrees, though the picture waits for the teacher again.
    #[test]
    fn an_owners_agreement_outlasts_restarts_while_the_picture_waits() {
        let mut roster = Roster::default();
        let mut ada = enter(&mut roster, None, "Ada", "CPU");
        for agrees in [true, true, false] {
            let entry = roster.get_mut(ada.connection.client).unwrap();
            assert!(!entry.decide((agrees, false), true));
            roster = Roster::restore(roster.record(), Moment::START);
            assert_eq!(roster.get(ada.connection.client).map(Entry::may_show), Some(agrees));
            ada = enter(&mut roster, Some(ada.ticket), "Ada", "CPU");
        }
    }

    #[test]
    fn those_gone_are_forgotten_in_time() {
        let limits = RoomLimits { clients: 2, ..RoomLimits::default() };
        let mut roster = Roster::default();
        let now = Moment::START;
        let (visitor, _) = join(&mut roster, "visitor");
        let (worker, _) = join(&mut roster, "worker");
        join(&mut roster, "present");
        roster.get_mut(worker).unwrap().updates = 1;
        for client in [visitor, worker] {
            roster.get_mut(client).unwrap().leave(now);
        }
        assert_eq!(roster.next_sweep(&limits), Some(now + limits.gone));
        assert_eq!(roster.sweep(now + limits.gone / 2, &limits), []);
        assert_eq!(roster.sweep(now + limits.gone, &limits), [visitor]);
        assert!(roster.get(visitor).is_none() && roster.get(worker).is_some());
        assert_eq!(roster.sweep(now + limits.remembered, &limits), [worker]);
        assert_eq!(roster.iter().count(), 1);
    }

    #[test]
    fn crowd_that_comes_and_goes_does_not_pile_up() {
        let limits = RoomLimits { clients: 2, ..RoomLimits::default() };
        let mut roster = Roster::default();
        let now = Moment::START;
        for _ in 0..10 {
            let (client, _) = join(&mut roster, "passer-by");
            roster.get_mut(client).unwrap().leave(now);
            roster.sweep(now, &limits);
        }
        assert_eq!(roster.iter().count(), 2);
    }

    proptest! {
        #[test]
        fn names_stay_within_bounds(names in proptest::collection::vec(any::<String>(), 1..30)) {
            let mut roster = Roster::default();
            for name in &names {
                join(&mut roster, name);
            }
            for entry in roster.iter() {
                prop_assert!((1..=MAX_NICKNAME).contains(&entry.nickname.chars().count()));
                prop_assert!(!entry.nickname.chars().any(char::is_control));
                let alike = roster.iter().filter(|other| look_alike(&other.nickname, &entry.nickname));
                prop_assert_eq!(alike.count(), 1);
            }
        }
    }

    /// A client from this browser, or a program without one.
    fn from(roster: &mut Roster, nickname: &str, browser: Option<u8>) -> ClientId {
        let client = join(roster, nickname).0;
        let device = browser.map(|byte| DeviceId::of([byte; 16]));
        roster.get_mut(client).unwrap().set_peer(Peer { address: None, device });
        client
    }

    #[test]
    fn who_a_client_was_before_is_told_by_its_browser_or_a_programs_name() {
        let mut roster = Roster::default();
        let (ada, away, other) =
            (from(&mut roster, "Ada", Some(1)), from(&mut roster, "Eve", Some(1)), from(&mut roster, "Bob", Some(2)));
        assert_eq!(roster.get(ada).map(Entry::peer).unwrap().device, Some(DeviceId::of([1; 16])));
        assert!(roster.earlier(ada).is_empty(), "the others are there");
        for client in [away, other] {
            roster.get_mut(client).unwrap().leave(Moment::START);
        }
        assert_eq!(roster.earlier(ada), [away]);
        roster.expel(away);
        assert_eq!(roster.earlier(ada), [away]);
        let program = from(&mut roster, "script", None);
        roster.expel(program);
        let [same, another] = ["script", "robot"].map(|name| from(&mut roster, name, None));
        assert_eq!((roster.earlier(same), roster.earlier(another)), (vec![program], vec![]));
        roster.forget(away);
        assert!(roster.earlier(ada).is_empty());
    }

    #[test]
    fn strangers_are_those_forgotten_and_those_to_come() {
        let mut roster = Roster::default();
        let [ada, bob, eve] = ["Ada", "Bob", "Eve"].map(|name| from(&mut roster, name, None));
        roster.expel(ada);
        roster.forget(bob);
        assert_eq!(roster.strangers(2).collect::<Vec<_>>(), [bob, ClientId(eve.0 + 1), ClientId(eve.0 + 2)]);
    }
}
