//! What is taken out of a recording.

use std::collections::BTreeSet;

use unmask_core::ClientId;
use unmask_wire::view::{Answers, MembershipView, PollView, RoomView};

use crate::line::Picture;

/// Whose traces are to go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Clients of whom nothing is to be shown any more: no picture, and no result of an attack.
    pub shown: BTreeSet<ClientId>,
    /// Clients that are not to be known either: nothing on the roster, and no name in the log.
    pub known: BTreeSet<ClientId>,
    /// Clients whose own picture is not to be shown any more.
    pub originals: BTreeSet<ClientId>,
    /// Whether all pictures are to go.
    pub all_pictures: bool,
}

impl Forgotten {
    /// Nothing of this client is shown any more.
    pub fn shown(client: ClientId) -> Self {
        Self { shown: [client].into(), ..Self::default() }
    }

    /// This client was never there.
    pub fn known(client: ClientId) -> Self {
        Self { known: [client].into(), ..Self::default() }
    }

    /// This client's own picture is not shown any more; what was made of its updates is.
    pub fn original(client: ClientId) -> Self {
        Self { originals: [client].into(), ..Self::default() }
    }

    /// No picture of anybody is shown any more.
    pub fn all_pictures() -> Self {
        Self { all_pictures: true, ..Self::default() }
    }

    /// That of both.
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

    /// Whether this picture goes.
    pub(crate) fn hides(&self, picture: &Picture) -> bool {
        self.all_pictures
            || self.is_of(picture.client)
            || (picture.is_original && self.originals.contains(&picture.client))
    }

    fn is_of(&self, client: ClientId) -> bool {
        self.shown.contains(&client) || self.known.contains(&client)
    }

    /// Adds the names that a room has for those who are not to be known.
    pub(crate) fn names(&self, room: &RoomView, names: &mut BTreeSet<String>) {
        let known = room.clients.iter().filter(|client| self.known.contains(&client.id));
        names.extend(known.map(|client| client.nickname.clone()));
    }

    /// Takes out of a room what is to be forgotten.
    pub(crate) fn take_out(&self, names: &BTreeSet<String>, room: &mut RoomView) {
        room.attacks.retain(|card| !self.is_of(card.client));
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
        if let Some(PollView { poll, .. }) = &mut room.lesson.poll {
            poll.question = without_names(&poll.question, names);
            if let Answers::Choice(answers) = &mut poll.answers {
                answers.iter_mut().for_each(|answer| *answer = without_names(answer, names));
            }
        }
    }
}

/// The text with other words in place of these names, where they stand as words of their own.
pub(crate) fn without_names(text: &str, names: &BTreeSet<String>) -> String {
    let mut names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // Of "Ada" and "Ada 2" the longer one first.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, name| without_name(&text, name))
}

fn without_name(text: &str, name: &str) -> String {
    const SOMEBODY: &str = "somebody";
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
    use super::*;

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
