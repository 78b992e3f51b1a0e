//! The time budget of attacks. Rounds do not wait for them.

use std::time::Duration;

use crate::support::{
    Class, Client, card,
    private::{picture, revealing_gradient},
};
use unmask_wire::view::Control;

/// How much later an attack finds the clock at each look.
const LOOK: Duration = Duration::from_millis(10);

fn round(client: &mut Client) {
    let plan = client.plan();
    client.update(&plan, revealing_gradient(&picture(1), 3));
}

#[test]
fn without_a_budget_nothing_runs_and_training_goes_on() {
    let class = Class::with(|config| config.attack_budget = Duration::ZERO);
    class.let_looks_take(LOOK);
    let mut ada = class.client("Ada");
    class.control(Control::Start);
    for _ in 1..=5 {
        round(&mut ada);
    }
    let everything = ["label", "embedding", "embedding-aware", "april", "april-aware"];
    let room = class.room_when("the skipped", |room| room.losses.len() >= 5 && room.budget.skipped.len() == 5);
    assert_eq!(room.budget.skipped, everything);
    assert!(room.attacks.is_empty() && room.label.is_none(), "{:?}", room.attacks);
    assert_eq!((room.budget.seconds, room.budget.spent), (0.0, 0.0));

    class.control(Control::AttackBudget { seconds: 300.0 });
    round(&mut ada);
    let room = class.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some());
    assert!(room.budget.spent > 0.0 && room.budget.skipped.is_empty(), "{:?}", room.budget);
    assert!(room.attacks.iter().all(|card| card.round == 6));
}

/// If the first attack uses up the budget, each update runs a different one, and cards name their round.
#[test]
fn attacks_left_out_go_first_on_the_next_update() {
    let class = Class::with(|config| {
        config.attack_budget = Duration::from_nanos(1);
        // Low-rank completion says at once that this keeps too few values.
        config.defence = "random-binary:0.6".parse().unwrap();
    });
    class.let_looks_take(LOOK);
    let mut ada = class.client("Ada");
    let mut rounds = Vec::new();
    for number in 1..=12 {
        class.control(Control::OneRound);
        round(&mut ada);
        let settled = |room: &unmask_wire::view::RoomView| {
            let cards = room.attacks.iter().map(|card| (card.picture.is_some() || card.remark.is_some(), card.round));
            let done = cards.filter(|(is_shown, round)| *is_shown && *round == number).count();
            let labels = usize::from(room.label.as_ref().is_some_and(|label| label.round == number));
            // There are seven: labels, four closed forms, completion, several rounds.
            done + labels >= 1 && done + labels + room.budget.skipped.len() == 7
        };
        let room = class.room_when("the turn", settled);
        rounds.push(room.budget.skipped.len());
    }
    assert!(rounds.iter().all(|skipped| *skipped >= 1), "{rounds:?}");
    let room = class.room();
    let mut newest: Vec<u32> = room.attacks.iter().map(|card| card.round).collect();
    newest.push(room.label.as_ref().unwrap().round);
    assert_eq!(newest.len(), 7, "every attack had its turn: {:#?}", room.attacks);
    newest.sort_unstable();
    newest.dedup();
    assert!(newest.len() > 2, "the turns went to different updates: {newest:?}");
    assert_eq!(card(&room, "rounds").gathered.as_ref().map(|view| view.rounds), Some(12));
}

#[test]
fn budgets_that_are_none_are_refused() {
    let class = Class::start();
    for seconds in [-1.0, 600.5, 1e300] {
        let sentence = class.refusal_of(&Control::AttackBudget { seconds });
        assert!(sentence.contains("0 to 600"), "{sentence}");
    }
    for seconds in [0.0, 0.5, 600.0] {
        class.control(Control::AttackBudget { seconds });
        assert_eq!(class.room().budget.seconds, seconds);
    }
}
