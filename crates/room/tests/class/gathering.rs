//! The attack on several rounds of one client under fresh masks.

use crate::support::{
    Class, Client, card, find_card,
    private::{distance, picture, revealing_gradient},
};
use unmask_wire::view::{Control, GatheredView, RoomView};

/// At this rate one update has too few values for low-rank completion, which says so at once.
const RATE: f64 = 0.6;

fn masked(defence: &str) -> Class {
    Class::with(|config| config.defence = defence.parse().unwrap())
}

fn round(class: &Class, client: &mut Client) {
    class.control(Control::OneRound);
    let plan = client.plan();
    client.update(&plan, revealing_gradient(&picture(1), 3));
}

fn gathered(room: &RoomView) -> GatheredView {
    card(room, "rounds").gathered.clone().expect("what was gathered")
}

fn gathered_when(class: &Class, rounds: u32) -> GatheredView {
    let is_there = |room: &RoomView| {
        find_card(room, "rounds").and_then(|card| card.gathered.as_ref()).is_some_and(|view| view.rounds == rounds)
    };
    gathered(&class.room_when("the rounds", is_there))
}

/// An entry is still hidden after K rounds with probability R^K. Once enough equations are complete, the picture is
/// exact.
#[test]
fn hidden_share_falls_with_every_round_until_the_picture_is_there() {
    let class = masked(&format!("random-binary:{RATE}"));
    let mut ada = class.client("Ada");
    for rounds in 1..=10u8 {
        round(&class, &mut ada);
        let view = gathered_when(&class, rounds.into());
        let wanted = RATE.powi(rounds.into());
        assert!((view.hidden - wanted).abs() < 0.02, "round {rounds}: {view:?}");
        assert!((view.expected_hidden - wanted).abs() < 0.2 * wanted, "round {rounds}: {view:?}");
        assert_eq!((view.needed_equations, view.has_drifted), (16, false));
    }
    let view = gathered_when(&class, 10);
    assert!(view.whole_equations >= view.needed_equations, "{view:?}");
    assert!(view.rounds_needed.is_some_and(|rounds| (4..=10).contains(&rounds)), "{view:?}");
    let (mut last, mut found) = (0, Vec::new());
    while last < 10 {
        (last, found) = ada.reconstruction("rounds");
    }
    assert!(distance(&found, &picture(1)) < 0.01, "{}", distance(&found, &picture(1)));
}

/// Rounds are gathered even without an attack budget. Gathering restarts with another client and on request.
#[test]
fn gathering_goes_on_without_a_budget_and_begins_anew() {
    let class = masked(&format!("random-binary:{RATE}"));
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::AttackBudget { seconds: 0.0 });
    let mut both = || {
        class.control(Control::OneRound);
        for client in [&mut ada, &mut bob] {
            let plan = client.plan();
            client.update(&plan, revealing_gradient(&picture(1), 3));
        }
    };
    both();
    both();
    gathered_when(&class, 2);
    assert_eq!(card(&class.room(), "rounds").picture, None);

    class.control(Control::GatherAnew);
    assert!(find_card(&class.room(), "rounds").is_none());
    both();
    gathered_when(&class, 1);
    both();
    gathered_when(&class, 2);

    let id = class.room().clients[1].id;
    class.control(Control::Target { client: id });
    both();
    gathered_when(&class, 1);
    assert_eq!(card(&class.room(), "rounds").nickname, "Bob");

    class.control(Control::AttackBudget { seconds: 600.0 });
    both();
    let room = class.room_when("a picture", |room| card(room, "rounds").picture.is_some());
    assert_eq!((card(&room, "rounds").round, gathered(&room).rounds), (6, 2));
}

/// One mask for all rounds always hides the same entries.
#[test]
fn frozen_masks_show_no_further_entries() {
    let class = masked(&format!("frozen-binary:{RATE}"));
    let mut ada = class.client("Ada");
    for _ in 1..=3 {
        round(&class, &mut ada);
    }
    let view = gathered_when(&class, 3);
    assert!((view.hidden - RATE).abs() < 0.02 && view.rounds_needed.is_none(), "{view:?}");
    let room = class.room_when("a picture", |room| card(room, "rounds").picture.is_some());
    let remark = crate::support::remark(&room, "rounds");
    assert!(remark.contains("no further entries") && remark.contains("further equations"), "{remark}");
}
