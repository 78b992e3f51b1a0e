//! Removes traces from a recording.

use std::collections::BTreeSet;

use unmask_core::ClientId;
use unmask_wire::view::{MembershipView, PollView, RoomView};

use crate::line::Picture;

/// Replaces a forgotten name.
const SOMEBODY: &str = "somebody";

/// The traces to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Clients whose pictures and attack results are removed.
    pub shown: BTreeSet<ClientId>,
    /// Clients that are also removed from the roster, and whose names are removed from the log.
    pub known: BTreeSet<ClientId>,
    /// Clients whose own picture is removed.
    pub originals: BTreeSet<ClientId>,
    /// Whether all pictures are removed.
    pub all_pictures: bool,
}

impl Forgotten {
    /// Removes all pictures and results of this client.
    pub fn shown(client: ClientId) -> Self {
        Self { shown: [client].into(), ..Self::default() }
    }

    /// Removes every trace of this client.
    pub fn known(client: ClientId) -> Self {
        Self { known: [client].into(), ..Self::default() }
    }

    /// Removes every trace of these clients.
    pub fn known_all(clients: impl IntoIterator<Item = ClientId>) -> Self {
        Self { known: clients.into_iter().collect(), ..Self::default() }
    }

    /// Removes this client's own picture, but not the reconstructions from its updates.
    pub fn original(client: ClientId) -> Self {
        Self { originals: [client].into(), ..Self::default() }
    }

    /// Removes all pictures.
    pub fn all_pictures() -> Self {
        Self { all_pictures: true, ..Self::default() }
    }

    /// Adds the traces of another request.
    pub fn add(&mut self, other: Self) {
        self.shown.extend(other.shown);
        self.known.extend(other.known);
        self.originals.extend(other.originals);
        self.all_pictures |= other.all_pictures;
    }

    /// Whether there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this picture is removed.
    pub(crate) fn hides(&self, picture: &Picture) -> bool {
        self.all_pictures
            || self.is_of(picture.client)
            || self.breaks_sum([picture.client].iter().chain(&picture.others).filter(|_| !picture.others.is_empty()))
            || (picture.is_original && self.originals.contains(&picture.client))
    }

    /// Whether a sum of these clients' updates is removed: its pictures are copies of what each of them showed.
    fn breaks_sum<'a>(&self, clients: impl IntoIterator<Item = &'a ClientId>) -> bool {
        clients.into_iter().any(|client| self.is_of(*client) || self.originals.contains(client))
    }

    fn is_of(&self, client: ClientId) -> bool {
        self.shown.contains(&client) || self.known.contains(&client)
    }

    /// Adds the names that a room has for forgotten clients.
    pub(crate) fn names(&self, room: &RoomView, names: &mut BTreeSet<String>) {
        let known = room.clients.iter().filter(|client| self.known.contains(&client.id));
        names.extend(known.map(|client| client.nickname.clone()));
    }

    /// Removes the traces from a room.
    pub(crate) fn take_out(&self, names: &BTreeSet<String>, room: &mut RoomView) {
        room.attacks.retain(|card| !self.is_of(card.client));
        room.leaks.retain(|leak| !self.is_of(leak.client));
        room.sum.take_if(|sum| self.breaks_sum(&sum.clients));
        if room.label.as_ref().is_some_and(|label| self.is_of(label.client)) {
            room.label = None;
        }
        if let Some(told) = room.membership.take_if(|told| self.is_of(told.client)) {
            room.membership = Some(MembershipView { picture: told.picture, ..MembershipView::default() });
        }
        for client in &mut room.clients {
            if self.is_of(client.id) || self.originals.contains(&client.id) {
                client.original = None;
            }
        }
        room.clients.retain(|client| !self.known.contains(&client.id));
        room.target = room.target.filter(|target| !self.known.contains(target));
        if let Some(encryption) = &mut room.encryption {
            encryption.sealed_by = encryption.sealed_by.take().map(|name| without_names(&name, names));
        }
        for line in &mut room.log {
            line.text = without_names(&line.text, names);
        }
        if let Some(podium) = &mut room.podium {
            podium.winners.retain(|winner| !self.known.contains(&winner.client));
        }
        if let Some(PollView { poll, .. }) = &mut room.lesson.poll {
            let known = poll.suspects.iter_mut().filter(|suspect| self.known.contains(&suspect.client));
            known.for_each(|suspect| suspect.nickname = SOMEBODY.to_owned());
        }
    }
}

/// Replaces these names in a text, where they are separate words.
pub(crate) fn without_names(text: &str, names: &BTreeSet<String>) -> String {
    let mut names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // The longer of "Ada" and "Ada 2" first.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, name| without_name(&text, name))
}

fn without_name(text: &str, name: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, found) = rest.split_at(at);
        let after = &found[name.len()..];
        let ends = |edge: Option<char>| !edge.is_some_and(char::is_alphanumeric);
        let is_word = ends(before.chars().next_back().or(result.chars().next_back())) && ends(after.chars().next());
        result += before;
        result += if is_word { SOMEBODY } else { name };
        rest = after;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use unmask_wire::view::{PodiumView, WinnerView};

    use super::*;

    #[test]
    fn a_forgotten_winner_leaves_the_podium() {
        let winner = |id| WinnerView { client: ClientId(id), nickname: format!("Ada {id}"), place: 1, points: 2 };
        let podium = PodiumView { winners: vec![winner(1), winner(2)], ..PodiumView::default() };
        let mut room = RoomView { podium: Some(podium), ..RoomView::default() };
        Forgotten::known(ClientId(1)).take_out(&BTreeSet::new(), &mut room);
        assert_eq!(room.podium.unwrap().winners, [winner(2)]);
    }

    #[test]
    fn names_go_where_they_are_words() {
        let without = |text: &str, names: &[&str]| {
            without_names(text, &names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>())
        };
        assert_eq!(without("Ada joined.", &["Ada"]), "somebody joined.");
        assert_eq!(
            without("Round 2 closed without Ada, Ada 2: no update.", &["Ada 2"]),
            "Round 2 closed without Ada, somebody: no update."
        );
        assert_eq!(without("Adam and Ada left.", &["Ada"]), "Adam and somebody left.");
        assert_eq!(without("a: refused, a loss of a", &["a"]), "somebody: refused, somebody loss of somebody");
        assert_eq!(without("\u{5c0f}\u{660e} left", &["\u{5c0f}\u{660e}", ""]), "somebody left");
    }
}
