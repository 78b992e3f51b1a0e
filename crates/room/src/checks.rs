//! What lets clients check the relay: whether a plan's weights follow from those before, and the published list of each
//! round's updates.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use unmask_core::ClientId;
use unmask_defence::published::{Hash, PublishedList, four_words, leaf, weights};
use unmask_federation::GlobalModel;
use unmask_wire::{ListPath, Listing, RelayMessage, ServerPlan, view::ListedView};

use super::{Classroom, fishing::Fishing, outbox::Slot};

#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// See [`ServerPlan::start`].
    start: u64,
    /// Hash of the running round's weights.
    weights: Hash,
    /// How the running round's weights were doctored.
    fishing: Option<Fishing>,
    /// The content of each update that the running round has taken.
    taken: BTreeMap<ClientId, Hash>,
    /// If the running round's weights are doctored and clients are asked to look: who can take part, and who left the round
    /// out because of a doubt.
    tested: Option<(BTreeSet<ClientId>, BTreeSet<ClientId>)>,
    /// How many clients noticed in the last such round, and how many could take part.
    noticed: Option<(u32, u32)>,
    /// The list of the last round with an update, for the class.
    last: Option<ListedView>,
}

impl Checks {
    /// `start` must be random, so that clients notice a relay that has come back.
    pub(crate) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// The weights of the next plan do not follow from those before.
    pub(crate) fn begin_again(&mut self, start: u64) {
        (self.start, self.last, self.noticed) = (start, None, None);
    }

    /// A round begins with the weights of `model`, doctored by `fishing`. `tested` are the clients that are asked to look.
    pub(crate) fn begin_round(
        &mut self,
        model: &GlobalModel,
        fishing: Option<Fishing>,
        tested: Option<BTreeSet<ClientId>>,
    ) {
        self.fishing = fishing;
        self.weights = weights(&[&model.state.weights, &model.state.statistics]);
        self.taken.clear();
        self.tested = tested.map(|asked| (asked, BTreeSet::new()));
    }

    pub(crate) fn fishing(&self) -> Option<Fishing> {
        self.fishing
    }

    /// A client leaves the running round out because its weights look doctored.
    pub(crate) fn doubts(&mut self, client: ClientId) {
        if let Some((asked, left)) = &mut self.tested
            && asked.contains(&client)
        {
            left.insert(client);
        }
    }

    /// A client cannot take part in the running round, whatever its weights are.
    pub(crate) fn cannot_take_part(&mut self, client: ClientId) {
        if let Some((asked, left)) = &mut self.tested
            && !left.contains(&client)
        {
            asked.remove(&client);
        }
    }

    /// Counts the clients that left out the round that has closed.
    pub(crate) fn close_round(&mut self) {
        if let Some((asked, left)) = self.tested.take() {
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            let noticed = (number(left.len()), number(asked.len()));
            self.noticed = (!asked.is_empty()).then_some(noticed);
        }
    }

    /// How many clients left out the last round with doctored weights in which they were asked to look, and how many could
    /// have.
    pub(crate) fn noticed(&self) -> Option<(u32, u32)> {
        self.noticed
    }

    pub(crate) fn forget_noticed(&mut self) {
        (self.tested, self.noticed) = (None, None);
    }

    pub(crate) fn take(&mut self, client: ClientId, content: Hash) {
        self.taken.insert(client, content);
    }

    /// Takes the update of a client that is forgotten out of the running round's list. The words of a list that is already
    /// published tell nothing about it.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.cannot_take_part(client);
        self.taken.remove(&client);
    }

    pub(crate) fn view(&self) -> Option<ListedView> {
        self.last.clone()
    }

    /// Publishes the list of the round that has closed: what each of its clients is told, and what the others are told.
    /// `nonce` draws a random nonce.
    fn publish(
        &mut self,
        round: u32,
        mut nonce: impl FnMut() -> Hash,
    ) -> Option<(Listing, BTreeMap<ClientId, Listing>)> {
        let taken = mem::take(&mut self.taken);
        let leaves: BTreeMap<ClientId, (Hash, Hash)> = taken
            .into_iter()
            .map(|(client, content)| {
                let nonce = nonce();
                (client, (nonce, leaf(&nonce, &content)))
            })
            .collect();
        let list = PublishedList::new(leaves.values().map(|(_, leaf)| *leaf).collect());
        let (root, count) = (list.root()?, list.leaves());
        self.last = Some(ListedView { round, updates: count, words: four_words(&root, &self.weights) });
        let listing = |path| Listing { round, root, leaves: count, path };
        let own = |(client, (nonce, leaf)): (ClientId, (Hash, Hash))| {
            let path = list.path(&leaf).map(|(place, beside)| ListPath { nonce, place, beside });
            (client, listing(path))
        };
        Some((listing(None), leaves.into_iter().map(own).collect()))
    }
}

impl Classroom {
    /// What the relay announces about its steps.
    pub(super) fn server_plan(&self) -> ServerPlan {
        ServerPlan { optimiser: self.room.settings().optimiser(), start: self.checks.start }
    }

    /// Lets clients know that the weights of the next plan do not follow from those before.
    pub(super) fn weights_begin_again(&mut self) {
        let start = self.randomness.seed();
        self.checks.begin_again(start);
        self.end_fishing();
    }

    /// Tells everybody the list of a round's updates, and each client where its own is.
    pub(super) fn publish_list(&mut self, round: u32) {
        let randomness = &mut self.randomness;
        let Some((others, mut own)) = self.checks.publish(round, || randomness.nonce()) else { return };
        let present: Vec<ClientId> = self.roster.present().map(|entry| entry.id()).collect();
        for client in present {
            let listing = own.remove(&client).unwrap_or_else(|| others.clone());
            self.send(client, Slot::Listing, &RelayMessage::Listed(listing), &[]);
        }
    }

    /// Asks clients to check plans carefully, or no longer.
    pub(super) fn set_careful(&mut self, is_careful: bool) {
        if self.stage.set_careful(is_careful) {
            self.checks.forget_noticed();
            let line = if is_careful {
                "The teacher asks all devices to look at the weights of each round before they train."
            } else {
                "Devices need not look at the weights of each round any more."
            };
            self.say(line);
            self.tell_lesson();
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitPreset};
    use unmask_defence::published::root_from;

    use super::*;

    #[test]
    fn each_client_finds_its_own_update_and_only_that() {
        let mut checks = Checks::new(5);
        assert_eq!(checks.publish(1, || [0; 32]), None);
        for client in 0..9 {
            checks.take(ClientId(client), [client as u8; 32]);
        }
        checks.forget(ClientId(4));
        let mut drawn = 0u8;
        let nonce = || {
            drawn += 1;
            [drawn; 32]
        };
        let (others, own) = checks.publish(2, nonce).unwrap();
        assert_eq!((others.round, others.leaves, &others.path, own.len()), (2, 8, &None, 8));
        for (client, listing) in own {
            let found = |content: [u8; 32]| {
                let ListPath { nonce, place, beside } = listing.path.as_ref().unwrap();
                root_from(&leaf(nonce, &content), (*place, listing.leaves), beside)
            };
            assert_eq!(listing.root, others.root);
            assert_eq!(found([client.0 as u8; 32]), Some(others.root));
            assert_ne!(found([4; 32]), Some(others.root));
        }
        let view = checks.view().unwrap();
        assert_eq!((view.round, view.updates, view.words), (2, 8, four_words(&others.root, &[0; 32])));
        // A round without an update has no list, and the last one stays on the wall until the model begins again.
        let architecture = Architecture::from(VitPreset::Pico);
        checks.begin_round(&GlobalModel { architecture, state: architecture.initial(1) }, None, None);
        assert!(checks.publish(3, || [0; 32]).is_none() && checks.view().is_some());
        checks.begin_again(6);
        assert_eq!((checks.view(), checks.start), (None, 6));
    }
}
