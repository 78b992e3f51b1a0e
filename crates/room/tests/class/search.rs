//! The background search through the model: its schedule and its cards.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::support::{
    Class, Client, Plan, card,
    descent::{Descent, Source},
    find_card, gradient, layout,
    private::{distance, picture, revealing_gradient},
};
use unmask_attack::{AttackError, Search, SearchOptions, SearchProgress, SearchTarget, Searches};
use unmask_core::{AttackMethod, ClientId};
use unmask_lesson::Scene;
use unmask_wire::{
    RelayMessage,
    view::{Control, Phase, RoomView, SearchState},
};

const LABEL: usize = 7;
/// The time of a step by the room's clock.
const QUICK: Duration = Duration::from_millis(1);

fn searching(defence: &str, descent: &Arc<Descent>) -> Class {
    searching_slowly(defence, descent, QUICK)
}

fn searching_slowly(defence: &str, descent: &Arc<Descent>, step: Duration) -> Class {
    let source = Arc::new(Source(Arc::clone(descent)));
    let class = Class::searching(source, step, |config| config.defence = defence.parse().unwrap());
    class.control(Control::Search { on: true });
    class
}

fn round(class: &Class, client: &mut Client) -> Plan {
    class.control(Control::OneRound);
    let plan = client.plan();
    client.update(&plan, revealing_gradient(&picture(1), LABEL));
    plan
}

fn state(room: &RoomView, method: AttackMethod) -> Option<SearchState> {
    find_card(room, method.name()).and_then(|card| card.search.as_ref()).map(|search| search.state)
}

fn is(method: AttackMethod, state: SearchState) -> impl Fn(&RoomView) -> bool {
    move |room| self::state(room, method) == Some(state)
}

#[test]
fn room_without_searches_says_so() {
    let class = Class::start();
    assert_eq!(class.room().search, None);
    let sentence = class.refusal_of(&Control::Search { on: true });
    assert!(sentence.contains("without token matching"), "{sentence}");
}

/// Both attackers search the same update, each from its own closed form's picture. Only one of them knows the mask.
#[test]
fn pair_takes_its_steps_in_turns_on_one_update() {
    let descent = Descent::new(60, Duration::ZERO);
    let class = searching("random-binary:pos=0,0.3", &descent);
    assert_eq!(class.room().search, Some(true));
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    let room = class.room_when("the end", is(AttackMethod::Matching, SearchState::Done));
    let begun = descent.begun();
    assert_eq!(
        begun.iter().map(|begun| begun.method).collect::<Vec<_>>(),
        [AttackMethod::MatchingAware, AttackMethod::Matching]
    );
    assert!(begun[0].has_mask && !begun[1].has_mask);
    assert!(begun.iter().all(|begun| begun.labels == [LABEL]));
    assert_eq!(descent.steps(), 120);
    for method in [AttackMethod::Matching, AttackMethod::MatchingAware] {
        let card = card(&room, method.name());
        let search = card.search.as_ref().unwrap();
        assert_eq!((card.round, search.iteration, search.iterations, search.state), (1, 60, 60, SearchState::Done));
        assert!(card.picture.is_some() && card.remark.as_deref().unwrap().starts_with("All steps are done."));
    }
    let last = last(&mut ada);
    let [naive, aware] = ["matching", "matching-aware"].map(|attack| distance(&last[attack], &picture(1)));
    assert!(naive > 0.05 && aware < 0.01, "{naive} {aware}");
    assert!(distance(&begun[0].start, &picture(1)) < 0.01, "the aware search begins with the closed form's picture");
    assert!(distance(&begun[1].start, &picture(1)) > 0.05);
}

/// Returns the last picture of each attack that has arrived.
fn last(client: &mut Client) -> BTreeMap<String, Vec<f32>> {
    let mut last = BTreeMap::new();
    while let Some((message, values)) = client.socket.waiting() {
        if let RelayMessage::Reconstruction { attack, .. } = message {
            last.insert(attack.to_string(), values);
        }
    }
    last
}

/// The client under attack still computes for the model before, and the first round does not wait for it.
#[test]
fn a_search_that_lacks_its_update_gets_the_first_round_again() {
    let descent = Descent::new(60, Duration::ZERO);
    let class = searching("none", &descent);
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    class.control(Control::OneRound);
    let (of_ada, of_bob) = (ada.plan(), bob.plan());
    bob.update(&of_bob, gradient(1));
    let controls = vec![Control::Lesson { scene: Scene::Patience, beat: 1 }, Control::Reset, Control::OneRound];
    class.control(Control::Together { controls });
    let first = bob.plan();
    bob.update(&first, gradient(1));
    class.room_when("the end of a round without Ada", |room| room.phase == Phase::Paused && room.round == 1);
    assert!(descent.begun().is_empty());
    ada.update(&of_ada, revealing_gradient(&picture(1), LABEL));
    let again = ada.plan();
    assert_eq!(again.round, 1);
    ada.update(&again, revealing_gradient(&picture(1), LABEL));
    class.room_when("the end", is(AttackMethod::MatchingAware, SearchState::Done));
}

/// Another client comes under attack after the round that was searched, unless the teacher has paused the room.
#[test]
fn a_search_of_another_client_gets_the_first_round_again() {
    let descent = Descent::new(60, Duration::ZERO);
    let class = searching("none", &descent);
    let (mut ada, mut bob) = (class.client("Ada"), class.client("Bob"));
    let [first, second] = [ada.id, bob.id];
    class.control(Control::Lesson { scene: Scene::Patience, beat: 1 });
    class.control(Control::OneRound);
    let mut round = |of: ClientId| {
        for client in [&mut ada, &mut bob] {
            let plan = client.plan();
            assert_eq!(plan.round, 1);
            client.update(&plan, revealing_gradient(&picture(1), LABEL));
        }
        let is_done = is(AttackMethod::MatchingAware, SearchState::Done);
        class.room_when("the end", |room| is_done(room) && card(room, "matching-aware").client == of);
    };
    round(first);
    class.control(Control::Target { client: second });
    round(second);
    class.control(Control::Pause);
    class.control(Control::Target { client: first });
    class.pass(Duration::from_secs(2));
    assert_eq!((class.room().phase, class.room().losses.len()), (Phase::Paused, 1));
}

#[test]
fn search_stops_and_goes_on() {
    let descent = Descent::new(100_000, Duration::ZERO);
    let class = searching("none", &descent);
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    class.room_when("a picture", is(AttackMethod::MatchingAware, SearchState::Running));
    class.control(Control::Search { on: false });
    let room = class.room_when("the stop", is(AttackMethod::MatchingAware, SearchState::Stopped));
    assert!(card(&room, "matching-aware").picture.is_some());
    assert_eq!(room.search, Some(false));
    let steps = descent.steps();
    class.pass(Duration::from_millis(200));
    assert_eq!(descent.steps(), steps);

    class.control(Control::Search { on: true });
    class.room_when("more steps", is(AttackMethod::MatchingAware, SearchState::Running));
    assert!(descent.steps() > steps);
    assert_eq!(descent.begun().len(), 1, "it goes on where it was");

    // If the search is overtaken while it is off, it resumes with the newest update.
    class.control(Control::Search { on: false });
    class.room_when("the stop", is(AttackMethod::MatchingAware, SearchState::Stopped));
    round(&class, &mut ada);
    class.room_when("round 2", |room| room.attacks.iter().any(|card| card.round == 2));
    class.control(Control::Search { on: true });
    round(&class, &mut ada);
    let room = class.room_when("round 3", |room| card(room, "matching-aware").round == 3);
    assert_eq!(state(&room, AttackMethod::MatchingAware), Some(SearchState::Running));
    assert_eq!(descent.begun().len(), 2);
    assert!(descent.begun().iter().all(|begun| !begun.is_retarget));
}

/// If the teacher changes the target between rounds, the search stops instead of continuing unseen.
#[test]
fn search_ends_with_its_target() {
    let descent = Descent::new(100_000, Duration::ZERO);
    let class = searching("none", &descent);
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    class.room_when("a picture", is(AttackMethod::MatchingAware, SearchState::Running));
    class.control(Control::Target { client: ada.id });
    let steps = descent.steps();
    class.room_when("more steps", |_| descent.steps() > steps + 10);
    assert_eq!(state(&class.room(), AttackMethod::MatchingAware), Some(SearchState::Running), "still the same");

    let mut bob = class.client("Bob");
    class.control(Control::Target { client: bob.id });
    let room = class.room_when("the end", is(AttackMethod::MatchingAware, SearchState::Stopped));
    assert!(card(&room, "matching-aware").client == ada.id && card(&room, "matching-aware").picture.is_some());
    let steps = descent.steps();
    class.pass(Duration::from_millis(200));
    assert_eq!((descent.steps(), room.search), (steps, Some(true)));

    class.control(Control::OneRound);
    for client in [&mut ada, &mut bob] {
        let plan = client.plan();
        client.update(&plan, revealing_gradient(&picture(1), LABEL));
    }
    let room = class.room_when("Bob's", |room| card(room, "matching-aware").client == bob.id);
    assert_eq!((card(&room, "matching-aware").round, descent.begun().len()), (2, 2));
}

/// A finished search starts on the same client's next update from the picture found, but not under another defence.
#[test]
fn newer_updates_are_taken_up_and_other_defences_begin_afresh() {
    let descent = Descent::new(20, Duration::ZERO);
    let class = searching("none", &descent);
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    class.room_when("the end", is(AttackMethod::MatchingAware, SearchState::Done));
    assert_eq!(descent.steps(), 20);
    let plan = round(&class, &mut ada);
    let is_second = |room: &RoomView| card(room, "matching-aware").round == 2;
    class.room_when("round 2", |room| is_second(room) && is(AttackMethod::MatchingAware, SearchState::Done)(room));
    let begun = descent.begun();
    assert_eq!((begun.len(), begun[1].is_retarget, begun[1].first_weight), (2, true, plan.weights[0]));

    class.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() });
    round(&class, &mut ada);
    class.room_when("the pair", is(AttackMethod::Matching, SearchState::Done));
    let begun = descent.begun();
    assert!(begun.len() == 4 && begun[2..].iter().all(|begun| !begun.is_retarget));
    assert!(distance(&begun[3].start, &picture(1)) > 0.05, "nothing found without masks is carried over");
    assert_eq!(card(&class.room(), "matching-aware").round, 3);
}

/// Searches that panic at their second step.
#[derive(Debug)]
struct Breaking(usize);

impl Searches for Breaking {
    fn begin(&self, _: AttackMethod, _: &SearchTarget<'_>, _: SearchOptions) -> Result<Box<dyn Search>, AttackError> {
        Ok(Box::new(Breaking(0)))
    }
}

impl Search for Breaking {
    fn step(&mut self) -> Result<SearchProgress, AttackError> {
        self.0 += 1;
        assert!(self.0 < 2, "a search breaks down");
        let image = picture(2);
        Ok(SearchProgress { iteration: 1, iterations: 9, objective: 1.0, image, is_over: false, note: None })
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        None
    }

    fn retarget(&mut self, _: &SearchTarget<'_>) -> Result<(), AttackError> {
        Err(AttackError::Search { reason: "it never was over".to_owned() })
    }
}

#[test]
fn search_that_breaks_down_leaves_its_picture_and_a_sentence() {
    let class = Class::searching(Arc::new(Breaking(0)), QUICK, |_| {});
    class.control(Control::Search { on: true });
    let mut ada = class.client("Ada");
    for number in 1..=2 {
        round(&class, &mut ada);
        let room = class.room_when("the end", |room| {
            let is_of_round = find_card(room, "matching-aware").is_some_and(|card| card.round == number);
            is_of_round && is(AttackMethod::MatchingAware, SearchState::Done)(room)
        });
        let card = card(&room, "matching-aware");
        assert!(card.picture.is_some() && card.remark.as_deref().is_some_and(|r| r.contains("broke down")), "{card:?}");
    }
}

#[test]
fn fixed_position_leaves_a_jigsaw() {
    let descent = Descent::new(5, Duration::ZERO);
    let class = searching("fixed-position", &descent);
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let mut values = gradient(3);
    values[layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    ada.update(&plan, values);
    let room = class.room_when("the end", is(AttackMethod::Jigsaw, SearchState::Done));
    assert!(find_card(&room, "matching-aware").is_none());
    let start = &descent.begun()[0].start;
    let mean = start.iter().sum::<f32>() / start.len() as f32;
    assert!((mean - 0.5).abs() < 0.05 && start[0] != start[3], "noise: {mean}");
}

#[test]
fn what_cannot_be_searched_is_told() {
    let descent = Descent::new(5, Duration::ZERO);
    let class = searching("none", &descent);
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let values = revealing_gradient(&picture(1), LABEL);
    ada.send_samples(&plan, 1.0, 3, unmask_defence::ProtectedUpdate::dense(values));
    let has_remark = |part: &'static str| {
        move |room: &RoomView| {
            find_card(room, "matching-aware").and_then(|card| card.remark.as_deref()).is_some_and(|r| r.contains(part))
        }
    };
    class.room_when("the refusal", has_remark("3 pictures are more than"));

    class.control(Control::Defence { defence: "encrypted".parse().unwrap() });
    class.control(Control::OneRound);
    ada.encrypted_round("seven grey herons", gradient(1));
    class.room_when("the refusal", has_remark("without the key"));
    assert_eq!(descent.steps(), 0);
}

/// While rounds run, the search may use only the time that closed forms leave in each round. A paused room has no such
/// limit.
#[test]
fn search_waits_for_the_next_round_when_its_time_is_spent() {
    let descent = Descent::new(100_000, Duration::ZERO);
    let class = searching_slowly("none", &descent, Duration::from_millis(20));
    class.control(Control::AttackBudget { seconds: 1.0 });
    let mut ada = class.client("Ada");
    class.control(Control::Start);
    let plan = ada.plan();
    ada.update(&plan, revealing_gradient(&picture(1), LABEL));
    let plan = ada.plan();
    let room = class.room_when("the wait", is(AttackMethod::MatchingAware, SearchState::Waiting));
    assert_eq!(room.phase, Phase::Training);
    assert!(room.budget.spent >= 1.0 && room.budget.spent < 3.0, "{:?}", room.budget);
    let steps = descent.steps();
    class.pass(Duration::from_millis(200));
    assert_eq!(descent.steps(), steps);

    class.control(Control::Pause);
    ada.update(&plan, revealing_gradient(&picture(1), LABEL));
    class.room_when("the pause", |room| room.phase == Phase::Paused);
    class.pass(Duration::from_millis(2500));
    let room = class.room();
    assert_eq!(state(&room, AttackMethod::MatchingAware), Some(SearchState::Running));
    // This is more steps than fit into two seconds, a round's budget.
    assert!(descent.steps() > steps + 55, "{} after {steps}", descent.steps());
    assert_eq!(card(&room, "matching-aware").round, 1);
}

#[test]
fn neither_of_a_pair_waits_for_the_others_end() {
    let descent = Descent::new(60, Duration::ZERO);
    let class = searching("random-binary:pos=0,0.3", &descent);
    let mut ada = class.client("Ada");
    round(&class, &mut ada);
    let states = |room: &RoomView| -> Vec<SearchState> {
        room.attacks.iter().filter_map(|card| card.search.as_ref()).map(|search| search.state).collect()
    };
    let room = class.room_when("both pictures", |room| states(room).len() == 2);
    assert!(!states(&room).contains(&SearchState::Done), "{:?}", states(&room));
}
