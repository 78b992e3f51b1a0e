//! The time budget of attacks. Rounds do not wait for them.

use std::time::Duration;

use crate::support::{
    Client, Relay, card,
    private::{picture, revealing_gradient},
};
use unmask_wire::view::Control;

async fn round(client: &mut Client, number: u8) {
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(1), 3), [number; 32]).await;
}

#[tokio::test]
async fn without_a_budget_nothing_runs_and_training_goes_on() {
    let relay = Relay::with(|config| config.room.attack_budget = Duration::ZERO).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    for number in 1..=5 {
        round(&mut ada, number).await;
    }
    let everything = ["label", "embedding", "embedding-aware", "april", "april-aware"];
    let room = relay.room_when("the skipped", |room| room.losses.len() >= 5 && room.budget.skipped.len() == 5).await;
    assert_eq!(room.budget.skipped, everything);
    assert!(room.attacks.is_empty() && room.label.is_none(), "{:?}", room.attacks);
    assert_eq!((room.budget.seconds, room.budget.spent), (0.0, 0.0));

    relay.control(Control::AttackBudget { seconds: 300.0 }).await;
    round(&mut ada, 6).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some()).await;
    assert!(room.budget.spent > 0.0 && room.budget.skipped.is_empty(), "{:?}", room.budget);
    assert!(room.attacks.iter().all(|card| card.round == 6));
}

/// If the first attack uses up the budget, each update runs a different one, and cards name their round.
#[tokio::test]
async fn attacks_left_out_go_first_on_the_next_update() {
    let relay = Relay::with(|config| {
        config.room.attack_budget = Duration::from_nanos(1);
        config.room.defence = "random-binary:0.5".parse().unwrap();
    })
    .await;
    let mut ada = relay.client("Ada").await;
    let mut rounds = Vec::new();
    for number in 1..=12 {
        relay.control(Control::OneRound).await;
        round(&mut ada, number).await;
        let settled = |room: &unmask_wire::view::RoomView| {
            let cards = room.attacks.iter().map(|card| (card.picture.is_some() || card.remark.is_some(), card.round));
            let done = cards.filter(|(is_shown, round)| *is_shown && *round == u32::from(number)).count();
            let labels = usize::from(room.label.as_ref().is_some_and(|label| label.round == u32::from(number)));
            // There are seven: labels, four closed forms, completion, several rounds.
            done + labels >= 1 && done + labels + room.budget.skipped.len() == 7
        };
        let room = relay.room_when("the turn", settled).await;
        rounds.push(room.budget.skipped.len());
    }
    assert!(rounds.iter().all(|skipped| *skipped >= 1), "{rounds:?}");
    let room = relay.room().await;
    let mut newest: Vec<u32> = room.attacks.iter().map(|card| card.round).collect();
    newest.push(room.label.as_ref().unwrap().round);
    assert_eq!(newest.len(), 7, "every attack had its turn: {:#?}", room.attacks);
    newest.sort_unstable();
    newest.dedup();
    assert!(newest.len() > 2, "the turns went to different updates: {newest:?}");
    assert_eq!(card(&room, "rounds").gathered.as_ref().map(|view| view.rounds), Some(12));
}

#[tokio::test]
async fn budgets_that_are_none_are_refused() {
    let relay = Relay::start().await;
    for seconds in [-1.0, 600.5, 1e300] {
        let (status, sentence) = relay.try_control(&Control::AttackBudget { seconds }).await;
        assert_eq!(status, 400);
        assert!(sentence.contains("0 to 600"), "{sentence}");
    }
    for seconds in [0.0, 0.5, 600.0] {
        relay.control(Control::AttackBudget { seconds }).await;
        assert_eq!(relay.room().await.budget.seconds, seconds);
    }
}
