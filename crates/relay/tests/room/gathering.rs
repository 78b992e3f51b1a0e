//! The attack on several rounds of one client under fresh masks.

use crate::support::{
    Client, Relay, card, find_card,
    private::{distance, picture, revealing_gradient},
};
use unmask_wire::view::{Control, GatheredView, RoomView};

const RATE: f64 = 0.5;

async fn masked() -> Relay {
    Relay::with(|config| config.room.defence = format!("random-binary:{RATE}").parse().unwrap()).await
}

async fn round(relay: &Relay, client: &mut Client, number: u8) {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(1), 3), [number; 32]).await;
}

fn gathered(room: &RoomView) -> GatheredView {
    card(room, "rounds").gathered.clone().expect("what was gathered")
}

async fn gathered_when(relay: &Relay, rounds: u32) -> GatheredView {
    let is_there = |room: &RoomView| {
        find_card(room, "rounds").and_then(|card| card.gathered.as_ref()).is_some_and(|view| view.rounds == rounds)
    };
    gathered(&relay.room_when("the rounds", is_there).await)
}

/// An entry is still hidden after K rounds with probability R^K. Once enough equations are complete, the picture is
/// exact.
#[tokio::test]
async fn hidden_share_falls_with_every_round_until_the_picture_is_there() {
    let relay = masked().await;
    let mut ada = relay.client("Ada").await;
    for rounds in 1..=10u8 {
        round(&relay, &mut ada, rounds).await;
        let view = gathered_when(&relay, rounds.into()).await;
        let wanted = RATE.powi(rounds.into());
        assert!((view.hidden - wanted).abs() < 0.02, "round {rounds}: {view:?}");
        assert!((view.expected_hidden - wanted).abs() < 0.2 * wanted, "round {rounds}: {view:?}");
        assert_eq!((view.needed_equations, view.has_drifted), (16, false));
    }
    let view = gathered_when(&relay, 10).await;
    assert!(view.whole_equations >= view.needed_equations, "{view:?}");
    assert!(view.rounds_needed.is_some_and(|rounds| (4..=10).contains(&rounds)), "{view:?}");
    let (mut last, mut found) = (0, Vec::new());
    while last < 10 {
        (last, found) = ada.reconstruction("rounds").await;
    }
    assert!(distance(&found, &picture(1)) < 0.01, "{}", distance(&found, &picture(1)));
}

/// Rounds are gathered even without an attack budget. Gathering restarts with another client and on request.
#[tokio::test]
async fn gathering_goes_on_without_a_budget_and_begins_anew() {
    let relay = masked().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::AttackBudget { seconds: 0.0 }).await;
    let mut both = async |number: u8| {
        relay.control(Control::OneRound).await;
        for (client, seed) in [(&mut ada, number), (&mut bob, 100 + number)] {
            let plan = client.plan().await;
            client.update(&plan, revealing_gradient(&picture(1), 3), [seed; 32]).await;
        }
    };
    both(1).await;
    both(2).await;
    gathered_when(&relay, 2).await;
    assert_eq!(card(&relay.room().await, "rounds").picture, None);

    relay.control(Control::GatherAnew).await;
    assert!(find_card(&relay.room().await, "rounds").is_none());
    both(3).await;
    gathered_when(&relay, 1).await;
    both(4).await;
    gathered_when(&relay, 2).await;

    let id = relay.room().await.clients[1].id;
    relay.control(Control::Target { client: id }).await;
    both(5).await;
    gathered_when(&relay, 1).await;
    assert_eq!(card(&relay.room().await, "rounds").nickname, "Bob");

    relay.control(Control::AttackBudget { seconds: 600.0 }).await;
    both(6).await;
    let room = relay.room_when("a picture", |room| card(room, "rounds").picture.is_some()).await;
    assert_eq!((card(&room, "rounds").round, gathered(&room).rounds), (6, 2));
}

/// One mask for all rounds always hides the same entries.
#[tokio::test]
async fn frozen_masks_show_no_further_entries() {
    let relay = Relay::with(|config| config.room.defence = "frozen-binary:0.5".parse().unwrap()).await;
    let mut ada = relay.client("Ada").await;
    for number in 1..=3 {
        round(&relay, &mut ada, number).await;
    }
    let view = gathered_when(&relay, 3).await;
    assert!((view.hidden - 0.5).abs() < 0.02 && view.rounds_needed.is_none(), "{view:?}");
    let room = relay.room_when("a picture", |room| card(room, "rounds").picture.is_some()).await;
    let remark = crate::support::remark(&room, "rounds");
    assert!(remark.contains("no further entries") && remark.contains("further equations"), "{remark}");
}
