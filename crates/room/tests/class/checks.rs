//! What clients can check about the relay.

use std::collections::BTreeSet;

use crate::support::{Class, Client, Plan, gradient};
use unmask_core::OptimiserKind;
use unmask_defence::{
    ProtectedUpdate,
    published::{SentContent, four_words, leaf, root_from, weights},
};
use unmask_wire::{ClientMessage, ListPath, Listing, RelayMessage, view::Control};

fn listing(client: &mut Client) -> Listing {
    client.next("list", |message, _| match message {
        RelayMessage::Listed(listing) => Some(listing),
        _ => None,
    })
}

/// The hash of the update that [`Client::update`] sends for this plan.
fn content(plan: &Plan, values: &[f32]) -> [u8; 32] {
    let (round, policy, form) = (plan.round, plan.policy, unmask_core::UpdateForm::Dense);
    SentContent { round, policy, loss: 1.0, samples: 1, form, values: [values, &[]] }.hash()
}

fn leads_to(listing: &Listing, content: [u8; 32]) -> Option<[u8; 32]> {
    let ListPath { nonce, place, beside } = listing.path.as_ref()?;
    root_from(&leaf(nonce, &content), (*place, listing.leaves), beside)
}

#[test]
fn each_client_finds_its_update_in_the_list_that_the_wall_shows() {
    let class = Class::unattacked(|_| {});
    let mut clients: Vec<Client> = ["Ada", "Bob", "Cleo", "Dan", "Eve"].map(|name| class.client(name)).into();
    class.control(Control::OneRound);
    let plans: Vec<Plan> = clients.iter_mut().map(Client::plan).collect();
    let mut silent = class.client("Late");
    // The last one cannot take part.
    for (number, (client, plan)) in clients.iter_mut().zip(&plans).take(4).enumerate() {
        client.update(plan, gradient(number));
    }
    let (round, policy, reason) = (plans[4].round, plans[4].policy, "no battery".to_owned());
    clients[4].socket.send(&ClientMessage::Unable { round, policy, reason, is_locked: false }, &[]);
    let lists: Vec<Listing> = clients.iter_mut().map(listing).collect();
    let root = lists[0].root;
    for (number, (list, plan)) in lists.iter().zip(&plans).take(4).enumerate() {
        assert_eq!((list.round, list.root, list.leaves), (1, root, 4));
        assert_eq!(leads_to(list, content(plan, &gradient(number))), Some(root));
        assert_ne!(leads_to(list, content(plan, &gradient(number + 1))), Some(root), "another's values");
    }
    for list in [&lists[4], &listing(&mut silent)] {
        assert_eq!((list.root, &list.path), (root, &None));
    }
    let places: BTreeSet<u32> = lists.iter().filter_map(|list| Some(list.path.as_ref()?.place)).collect();
    assert_eq!(places.len(), 4);
    let room = class.room_when("the list", |room| room.listed.is_some());
    let wall = room.listed.unwrap();
    assert_eq!((wall.round, wall.updates, wall.words), (1, 4, four_words(&root, &weights(&[&plans[0].weights]))));
}

#[test]
fn a_refused_update_and_a_forgotten_client_are_not_listed() {
    let class = Class::unattacked(|_| {});
    let (mut ada, mut bob, mut cleo) = (class.client("Ada"), class.client("Bob"), class.client("Cleo"));
    class.control(Control::OneRound);
    let (plan, _, _) = (ada.plan(), bob.plan(), cleo.plan());
    ada.update(&plan, gradient(1));
    bob.send_update(&plan, 1.0, ProtectedUpdate::dense(gradient(2)[1..].to_vec()));
    cleo.update(&plan, gradient(3));
    let list = listing(&mut ada);
    assert_eq!((list.leaves, listing(&mut bob).path), (2, None));
    // A client that is forgotten in the middle of a round takes its hash along.
    class.control(Control::OneRound);
    let (plan, _, _) = (ada.plan(), bob.plan(), cleo.plan());
    ada.update(&plan, gradient(1));
    ada.socket.send(&ClientMessage::Forget, &[]);
    ada.socket.goodbye();
    bob.update(&plan, gradient(2));
    cleo.update(&plan, gradient(3));
    assert_eq!(listing(&mut bob).leaves, 2);
}

/// What a careful client needs to compare two plans: the step between them, and where the weights began.
#[test]
fn a_plan_announces_the_step_and_the_start() {
    let class = Class::unattacked(|config| config.optimiser = OptimiserKind::Sgd { rate: 0.25 });
    let mut ada = class.client("Ada");
    let mut round = || {
        class.control(Control::OneRound);
        let plan = ada.plan();
        ada.update(&plan, gradient(1));
        listing(&mut ada);
        plan
    };
    let (first, second) = (round(), round());
    assert_eq!(first.server.optimiser, OptimiserKind::Sgd { rate: 0.25 });
    assert_eq!(first.server, second.server);
    let optimiser = OptimiserKind::Adam { rate: 0.5 };
    class.control(Control::Optimiser { optimiser });
    let third = round();
    assert_eq!((third.server.optimiser, third.server.start), (optimiser, first.server.start));
    class.control(Control::Reset);
    let reset = round();
    assert_eq!(reset.round, 1);
    assert_ne!(reset.server.start, first.server.start);
}

#[test]
fn the_teacher_asks_everybody_to_be_careful() {
    let class = Class::unattacked(|_| {});
    let mut ada = class.client("Ada");
    assert!(!class.room().is_careful);
    class.control(Control::Careful { on: true });
    ada.lesson_when("carefulness", |lesson| lesson.is_careful);
    let room = class.room();
    assert!(room.is_careful && room.log.iter().any(|line| line.text.contains("look at the weights")));
    // Newcomers hear it as well.
    let mut bob = class.client("Bob");
    class.control(Control::Careful { on: false });
    bob.lesson_when("its end", |lesson| !lesson.is_careful);
    assert!(!class.room().is_careful);
}
