//! Looks for the client's own update in the published list of a round.

use unmask_defence::published::{Hash, SentContent, four_words, leaf, root_from, weights};
use unmask_wire::Listing;

/// What the published list of a round shows this client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRound {
    pub round: u32,
    /// The list's root and this client's weights as four words, which are the same for everybody if the relay shows
    /// everybody the same list and has sent everybody the same weights. `None` if it has sent this client none.
    pub words: Option<String>,
    /// The whole root.
    pub root: [u8; 32],
    /// Number of updates in the list.
    pub updates: u32,
    pub own: OwnUpdate,
}

/// Whether a client's update is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnUpdate {
    /// It is, exactly as the client sent it.
    Listed,
    /// The client sent one in this round, and the list does not prove that it is in it.
    Missing,
    /// The client sent none.
    None,
}

/// The last update that this client sent, and the last weights that it got.
#[derive(Debug, Default)]
pub(crate) struct SentUpdates {
    /// Its round and the hash of its content.
    last: Option<(u32, Hash)>,
    /// The round of the last update that the relay says it took.
    accepted: Option<u32>,
    /// The round of the last plan and the hash of its weights.
    planned: Option<(u32, Hash)>,
}

impl SentUpdates {
    /// Remembers the values of a plan, as they came.
    pub(crate) fn planned(&mut self, round: u32, values: &[f32]) {
        self.planned = Some((round, weights(&[values])));
    }

    pub(crate) fn sent(&mut self, content: &SentContent<'_>) {
        self.last = Some((content.round, content.hash()));
        self.accepted = None;
    }

    pub(crate) fn accepted(&mut self, round: u32) {
        self.accepted = Some(round);
    }

    pub(crate) fn look(&self, listing: Listing) -> ListedRound {
        let Listing { round, root, leaves, path } = listing;
        let last = self.last.filter(|(sent, _)| *sent == round);
        let own = match (last, path) {
            (Some((_, content)), Some(path)) => {
                let leaf = leaf(&path.nonce, &content);
                let found = root_from(&leaf, (path.place, leaves), &path.beside);
                if found == Some(root) { OwnUpdate::Listed } else { OwnUpdate::Missing }
            }
            // The relay said that it took the update.
            (Some(_), None) if self.accepted == Some(round) => OwnUpdate::Missing,
            // It came too late, or was refused in words.
            (Some(_), None) | (None, _) => OwnUpdate::None,
        };
        let planned = self.planned.filter(|(planned, _)| *planned == round);
        let words = planned.map(|(_, weights)| four_words(&root, &weights));
        ListedRound { round, words, root, updates: leaves, own }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::UpdateForm;
    use unmask_defence::published::PublishedList;
    use unmask_wire::ListPath;

    use super::*;

    fn content(values: &[f32]) -> SentContent<'_> {
        SentContent { round: 3, policy: 1, loss: 2.0, samples: 1, form: UpdateForm::Dense, values: [values, &[]] }
    }

    /// The list of five updates, and the way to it from one with these values.
    fn listing(values: &[f32]) -> Listing {
        let own = leaf(&[1; 32], &content(values).hash());
        let list = PublishedList::new([own].into_iter().chain((2..6).map(|k| [k; 32])).collect());
        let (place, beside) = list.path(&own).unwrap();
        let path = Some(ListPath { nonce: [1; 32], place, beside });
        Listing { round: 3, root: list.root().unwrap(), leaves: 5, path }
    }

    #[test]
    fn what_was_sent_is_found_and_nothing_else() {
        let mut sent = SentUpdates::default();
        let values = [1.0, -2.0];
        assert_eq!(sent.look(listing(&values)).own, OwnUpdate::None, "nothing was sent");
        sent.sent(&content(&values));
        let seen = sent.look(listing(&values));
        assert_eq!((seen.own, seen.updates), (OwnUpdate::Listed, 5));
        assert_eq!(sent.look(listing(&[1.0, 2.0])).own, OwnUpdate::Missing, "the list has other values");
        let other = Listing { root: [0; 32], ..listing(&values) };
        assert_eq!(sent.look(other).own, OwnUpdate::Missing, "another root");
        assert_eq!(seen.words, None, "it got no weights");
        sent.planned(3, &[0.5, 0.25]);
        let words = |sent: &SentUpdates, listing| sent.look(listing).words.unwrap();
        let seen = words(&sent, listing(&values));
        assert_ne!(words(&sent, Listing { root: [0; 32], ..listing(&values) }), seen);
        sent.planned(3, &[0.5, 0.125]);
        assert_ne!(words(&sent, listing(&values)), seen, "other weights than its neighbours");
        sent.planned(4, &[0.5, 0.25]);
        assert_eq!(sent.look(listing(&values)).words, None, "they are of another round");
    }

    #[test]
    fn an_update_that_was_taken_must_be_listed() {
        let mut sent = SentUpdates::default();
        sent.sent(&content(&[1.0]));
        let without = || Listing { path: None, ..listing(&[1.0]) };
        assert_eq!(sent.look(without()).own, OwnUpdate::None, "it came too late");
        sent.accepted(3);
        assert_eq!(sent.look(without()).own, OwnUpdate::Missing);
        assert_eq!(sent.look(Listing { round: 4, ..without() }).own, OwnUpdate::None, "of another round");
    }
}
