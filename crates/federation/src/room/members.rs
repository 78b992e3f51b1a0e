//! The state that the room keeps of each client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::{ClientId, ClientState};

/// After this many refused updates in a row, a client is left out until the teacher lets it back in.
pub(super) const MAX_REFUSALS: u32 = 3;

/// After this many unanswered rounds in a row, a client sits out until it asks to come back.
const MAX_MISSED: u32 = 2;

/// A round that waits for a client in vain, or takes no step because its update is left out, adds this to its debt; a
/// quick answer takes one off.
const MISS: u8 = 8;

/// With this debt, no round waits for a client. Each that stalls as often as it can makes two rounds wait, and then one
/// in nine.
const UNRELIABLE: u8 = 2 * MISS;

/// Whom rounds ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Asked {
    #[default]
    Everybody,
    /// Those who agree to be attacked in front of the class.
    Consenting,
}

#[derive(Debug, Clone, Default)]
struct Member {
    state: ClientState,
    is_robot: bool,
    consents: bool,
    is_hidden: bool,
    /// Whether a round ended without its answer while it was in the background, and it has not answered since.
    was_away: bool,
    /// Rounds in a row that ended without its answer while it was in the foreground. A late update counts as one.
    missed: u32,
    /// How often it cost others a round or made them wait, see [`MISS`].
    debt: u8,
    /// Whether the running round waits for it in vain so far. Nothing but an answer changes that.
    is_charged: bool,
    refusals: u32,
    /// Number of pictures that the room gave it.
    given: Option<u32>,
}

impl Member {
    /// Whether a round waits for it. A client in the background may never answer; one that was there when a round ended
    /// without it must answer first; one that missed two rounds, in a row or nearly, has had its chance.
    fn is_counted(&self) -> bool {
        !self.is_hidden && !self.was_away && self.missed < MAX_MISSED && self.debt < UNRELIABLE
    }

    /// Whether there is anything to remember after it leaves.
    fn is_remarkable(&self) -> bool {
        self.missed > 0 || self.debt > 0 || self.is_charged || self.refusals > 0 || self.was_away
    }

    fn is_there(&self) -> bool {
        self.state != ClientState::Gone
    }
}

/// What the room remembers of a client that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MemberRecord {
    missed: u32,
    refusals: u32,
    was_away: bool,
}

/// Clients in the room, and those that left after silence or refusals, because leaving must not clear their record.
/// Records stay until they are [forgotten](Self::forget), so there are never more than the caller has clients.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(BTreeMap<ClientId, Member>);

/// Clients that had not answered when a round ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Silent {
    /// Clients of the cohort in the foreground.
    pub(super) late: Vec<ClientId>,
    /// Clients that have now missed two rounds in a row.
    pub(super) sitting_out: Vec<ClientId>,
}

impl Members {
    /// The records that would remain if everybody left.
    pub(super) fn records(&self) -> BTreeMap<ClientId, MemberRecord> {
        // Whom rounds wait for is learned again.
        let is_kept = |member: &Member| member.missed > 0 || member.refusals > 0 || member.was_away;
        let remarkable = self.0.iter().filter(|(_, member)| is_kept(member));
        remarkable
            .map(|(&client, &Member { missed, refusals, was_away, .. })| {
                (client, MemberRecord { missed, refusals, was_away })
            })
            .collect()
    }

    /// Restores records, with nobody connected.
    pub(super) fn restore(records: BTreeMap<ClientId, MemberRecord>) -> Self {
        let member =
            |MemberRecord { missed, refusals, was_away }| Member { missed, refusals, was_away, ..Member::default() };
        Self(records.into_iter().map(|(client, record)| (client, member(record))).collect())
    }

    pub(super) fn state(&self, client: ClientId) -> ClientState {
        self.0.get(&client).map_or(ClientState::Gone, |member| member.state)
    }

    /// Whether it is connected and in the background.
    pub(super) fn is_hidden(&self, client: ClientId) -> bool {
        self.0.get(&client).is_some_and(|member| member.is_there() && member.is_hidden)
    }

    pub(super) fn free(&self) -> impl Iterator<Item = ClientId> {
        self.0.iter().filter(|(_, member)| member.state.is_free()).map(|(client, _)| *client)
    }

    /// The clients that a round may ask.
    pub(super) fn askable(&self, asked: Asked) -> impl Iterator<Item = ClientId> {
        let is_asked = move |client: &ClientId| match asked {
            Asked::Everybody => true,
            Asked::Consenting => self.0.get(client).is_some_and(|member| member.consents),
        };
        self.free().filter(is_asked)
    }

    /// A client connected, for the first time or again. It counts as free and in the foreground.
    pub(super) fn join(&mut self, client: ClientId) {
        let member = self.0.entry(client).or_default();
        member.is_hidden = false;
        member.state = match member.state {
            ClientState::Gone if member.refusals >= MAX_REFUSALS => ClientState::Excluded,
            ClientState::Gone => ClientState::Joined,
            state if state.is_behind() => ClientState::Joined,
            state => state,
        };
    }

    pub(super) fn leave(&mut self, client: ClientId) {
        if let Some(member) = self.0.get_mut(&client) {
            (member.state, member.is_robot, member.is_hidden, member.given) = (ClientState::Gone, false, false, None);
            member.consents = false;
            if !member.is_remarkable() {
                self.0.remove(&client);
            }
        }
    }

    /// Nobody sits at this client, which is about to join.
    pub(super) fn is_a_robot(&mut self, client: ClientId) {
        self.0.entry(client).or_default().is_robot = true;
    }

    /// This client, which may be about to join, agrees to be attacked in front of the class, or no longer.
    pub(super) fn consent(&mut self, client: ClientId, consents: bool) {
        if consents {
            self.0.entry(client).or_default().consents = true;
        } else if let Some(member) = self.0.get_mut(&client) {
            member.consents = false;
        }
    }

    pub(super) fn is_robot(&self, client: ClientId) -> bool {
        self.0.get(&client).is_some_and(|member| member.is_robot)
    }

    /// Drops the record of a client that will not come back.
    pub(super) fn forget(&mut self, client: ClientId) {
        if self.state(client) == ClientState::Gone {
            self.0.remove(&client);
        }
    }

    pub(super) fn set(&mut self, client: ClientId, state: ClientState) {
        if let Some(member) = self.present(client) {
            member.state = state;
        }
    }

    /// The tab went to the background or came back. Coming back ends the wait for an answer to a closed round.
    pub(super) fn see(&mut self, client: ClientId, is_hidden: bool) {
        let Some(member) = self.present(client) else { return };
        member.is_hidden = is_hidden;
        member.state = match member.state {
            ClientState::Late if is_hidden => ClientState::Away,
            ClientState::Away if !is_hidden => ClientState::Joined,
            state => state,
        };
    }

    pub(super) fn return_to_rounds(&mut self, client: ClientId) {
        if let Some(member) = self.present(client)
            && member.state.is_behind()
        {
            member.state = ClientState::Joined;
        }
    }

    /// A client answered, well or badly, in time or late: it is active, and has no task any more.
    pub(super) fn free_after_answer(&mut self, client: ClientId) {
        if let Some(member) = self.present(client) {
            (member.state, member.missed, member.was_away) = (ClientState::Joined, 0, false);
        }
    }

    pub(super) fn accepted(&mut self, client: ClientId) {
        self.free_after_answer(client);
        if let Some(member) = self.present(client) {
            member.debt = member.debt.saturating_sub(1);
            member.is_charged = false;
            (member.state, member.refusals) = (ClientState::Sent, 0);
        }
        // The round has waited for this one, and not yet in vain for those still at work.
        self.at_work().for_each(|member| member.is_charged = false);
    }

    /// A client carried a secure sum to its end.
    pub(super) fn summed(&mut self, client: ClientId) {
        if let Some(member) = self.present(client) {
            (member.missed, member.was_away, member.refusals) = (0, false, 0);
            member.debt = member.debt.saturating_sub(1);
        }
    }

    /// A client is ready for a secure sum. What it missed stays until the sum is made: it may be silent in there.
    pub(super) fn keyed(&mut self, client: ClientId) {
        if let Some(member) = self.present(client) {
            (member.state, member.is_charged) = (ClientState::Sent, false);
        }
        self.at_work().for_each(|member| member.is_charged = false);
    }

    /// A client at work in a secure sum did not answer in time.
    pub(super) fn silent_in_sum(&mut self, client: ClientId) {
        if let Some(member) = self.present(client) {
            (member.state, member.is_charged) = (ClientState::Training, member.is_counted());
        }
    }

    fn at_work(&mut self) -> impl Iterator<Item = &mut Member> {
        self.0.values_mut().filter(|member| member.state == ClientState::Training)
    }

    /// For a while nobody has answered, and others wait for those still at work.
    pub(super) fn waited(&mut self) {
        self.at_work().for_each(|member| member.is_charged |= member.is_counted());
    }

    /// A round took no step for want of these clients' updates, for whatever reason: its end charges them.
    pub(super) fn spoiled(&mut self, clients: impl Iterator<Item = ClientId>) {
        clients.for_each(|client| self.0.entry(client).or_default().is_charged = true);
    }

    /// An answer is late for a client's round, and was still quick enough to wait for.
    pub(super) fn quick(&mut self, client: ClientId) {
        if let Some(member) = self.present(client)
            && member.state.is_behind()
        {
            member.debt = member.debt.saturating_sub(1);
        }
    }

    /// A client at work cannot do its task; returns whether it sits out from now on, as one that was unable twice in a
    /// row without an excuse.
    pub(super) fn unable(&mut self, client: ClientId, is_excused: bool) -> bool {
        let Some(member) = self.present(client) else { return false };
        let counts = !is_excused && !member.is_hidden;
        member.missed = member.missed.saturating_add(u32::from(counts));
        let sits_out = counts && member.missed >= MAX_MISSED;
        (member.state, member.was_away) = (if sits_out { ClientState::SittingOut } else { ClientState::Joined }, false);
        sits_out
    }

    /// A client could not do a task that is over. It is asked again; what it missed stays.
    pub(super) fn unable_late(&mut self, client: ClientId) {
        if self.state(client) != ClientState::SittingOut {
            self.return_to_rounds(client);
        }
    }

    /// An update was refused because it was faulty. Returns whether the client is now excluded.
    pub(super) fn refused(&mut self, client: ClientId) -> bool {
        let Some(member) = self.present(client) else { return false };
        member.refusals = member.refusals.saturating_add(1);
        let is_excluded = member.refusals >= MAX_REFUSALS;
        if is_excluded {
            member.state = ClientState::Excluded;
        }
        is_excluded
    }

    /// Leaves a client out as if its updates had been refused.
    pub(super) fn leave_out(&mut self, client: ClientId) {
        let member = self.0.entry(client).or_default();
        if !member.is_there() {
            member.refusals = MAX_REFUSALS;
        }
    }

    /// Lets a client back in that was left out for refused updates.
    pub(super) fn readmit(&mut self, client: ClientId) {
        if let Some(member) = self.0.get_mut(&client) {
            member.refusals = 0;
            if member.state == ClientState::Excluded {
                member.state = ClientState::Joined;
            }
        }
    }

    pub(super) fn readmit_all(&mut self) {
        let all: Vec<ClientId> = self.0.keys().copied().collect();
        all.into_iter().for_each(|client| self.readmit(client));
        self.0.retain(|_, member| member.is_there() || member.is_remarkable());
    }

    pub(super) fn give(&mut self, client: ClientId, pictures: u32) {
        if let Some(member) = self.present(client) {
            member.given = Some(pictures);
        }
    }

    pub(super) fn given(&self, client: ClientId) -> Option<u32> {
        self.0.get(&client).and_then(|member| member.given)
    }

    /// Asks all clients that a round may ask and returns them.
    pub(super) fn begin_round(&mut self, asked: Asked) -> Vec<ClientId> {
        let cohort: Vec<ClientId> = self.askable(asked).collect();
        cohort.iter().for_each(|&client| self.set(client, ClientState::Training));
        cohort
    }

    pub(super) fn is_anybody_training(&self) -> bool {
        self.0.values().any(|member| member.state == ClientState::Training)
    }

    /// Clients that a round waits for, and whether each is a robot.
    pub(super) fn counted(&self) -> Vec<(ClientId, bool)> {
        let counted = |member: &Member| member.state == ClientState::Training && member.is_counted();
        self.0.iter().filter(|(_, member)| counted(member)).map(|(client, member)| (*client, member.is_robot)).collect()
    }

    /// Number of working clients that a round waits for, and number of other working clients.
    pub(super) fn training(&self) -> (usize, usize) {
        let at_work = self.0.values().filter(|member| member.state == ClientState::Training);
        let (counted, others): (Vec<_>, Vec<_>) = at_work.partition(|member| member.is_counted());
        (counted.len(), others.len())
    }

    /// Ends a round or an encryption: clients still working are behind, the others are free again.
    pub(super) fn end_round(&mut self) -> Silent {
        let mut silent = Silent::default();
        for (client, member) in &mut self.0 {
            if std::mem::take(&mut member.is_charged) {
                member.debt = member.debt.saturating_add(MISS).min(UNRELIABLE + MISS);
            }
            let was_asked = member.state == ClientState::Training;
            member.state = match member.state {
                ClientState::Training | ClientState::Late if member.is_hidden => {
                    member.was_away = true;
                    ClientState::Away
                }
                ClientState::Training | ClientState::Late => {
                    member.missed = member.missed.saturating_add(1);
                    if was_asked {
                        silent.late.push(*client);
                    }
                    if member.missed < MAX_MISSED {
                        ClientState::Late
                    } else {
                        silent.sitting_out.push(*client);
                        ClientState::SittingOut
                    }
                }
                ClientState::Sent => ClientState::Joined,
                state => state,
            };
        }
        silent
    }

    /// Drops the current task; clients that work on it are not to blame.
    pub(super) fn drop_work(&mut self) {
        for member in self.0.values_mut() {
            member.is_charged = false;
            member.state = match member.state {
                ClientState::Training if member.is_hidden => ClientState::Away,
                ClientState::Training => ClientState::Late,
                ClientState::Sent => ClientState::Joined,
                state => state,
            };
        }
    }

    /// All that decides what the room does with a client, but for its debt, which only decides how long rounds wait.
    #[cfg(test)]
    pub(super) fn describe(&self, client: ClientId) -> String {
        let of = |member: &Member| {
            let Member { state, is_robot, consents, is_hidden, was_away, missed, refusals, given, .. } = member;
            let missed = (*missed).min(MAX_MISSED);
            format!("{state:?} {is_robot} {consents} {is_hidden} {was_away} {missed} {refusals} {given:?}")
        };
        self.0.get(&client).map_or_else(|| "unknown".to_owned(), of)
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.0.len()
    }

    fn present(&mut self, client: ClientId) -> Option<&mut Member> {
        self.0.get_mut(&client).filter(|member| member.is_there())
    }
}
