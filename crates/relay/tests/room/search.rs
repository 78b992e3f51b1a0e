//! The background search through the model: its schedule, and that nothing waits for it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Plan, Relay, card,
    descent::{Descent, Source},
    find_card, gradient,
    private::{distance, picture, revealing_gradient},
};
use unmask_attack::{AttackError, Search, SearchOptions, SearchProgress, SearchTarget, Searches};
use unmask_core::AttackMethod;

use unmask_wire::{
    RelayMessage,
    view::{Control, Phase, RoomView, SearchState},
};

const LABEL: usize = 7;
const QUICK: Duration = Duration::from_millis(1);

async fn searching(defence: &str, descent: &Arc<Descent>) -> Relay {
    let relay = idle(defence, descent).await;
    relay.control(Control::Search { on: true }).await;
    relay
}

async fn idle(defence: &str, descent: &Arc<Descent>) -> Relay {
    Relay::with(|config| {
        config.room.defence = defence.parse().unwrap();
        config.searches = Some(Arc::new(Source(Arc::clone(descent))));
    })
    .await
}

async fn round(relay: &Relay, client: &mut Client, number: u8) -> Plan {
    relay.control(Control::OneRound).await;
    let plan = client.plan().await;
    client.update(&plan, revealing_gradient(&picture(1), LABEL), [number; 32]).await;
    plan
}

fn state(room: &RoomView, method: AttackMethod) -> Option<SearchState> {
    find_card(room, method.name()).and_then(|card| card.search.as_ref()).map(|search| search.state)
}

fn is(method: AttackMethod, state: SearchState) -> impl Fn(&RoomView) -> bool {
    move |room| self::state(room, method) == Some(state)
}

#[tokio::test]
async fn relay_without_searches_says_so() {
    let relay = Relay::start().await;
    assert_eq!(relay.room().await.search, None);
    let (status, sentence) = relay.try_control(&Control::Search { on: true }).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("without token matching"), "{sentence}");
}

/// Both attackers search the same update, each from its own closed form's picture. Only one of them knows the mask.
#[tokio::test]
async fn pair_takes_its_steps_in_turns_on_one_update() {
    let descent = Descent::new(60, QUICK);
    let relay = searching("random-binary:pos=0,0.3", &descent).await;
    assert_eq!(relay.room().await.search, Some(true));
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    let room = relay.room_when("the end", is(AttackMethod::Matching, SearchState::Done)).await;
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
    let last = last(&mut ada).await;
    let [naive, aware] = ["matching", "matching-aware"].map(|attack| distance(&last[attack], &picture(1)));
    assert!(naive > 0.05 && aware < 0.01, "{naive} {aware}");
    assert!(distance(&begun[0].start, &picture(1)) < 0.01, "the aware search begins with the closed form's picture");
    assert!(distance(&begun[1].start, &picture(1)) > 0.05);
}

/// Returns the last picture of each attack, once no more arrive.
async fn last(client: &mut Client) -> BTreeMap<String, Vec<f32>> {
    let mut last = BTreeMap::new();
    while let Ok(Some((message, values))) =
        tokio::time::timeout(Duration::from_millis(500), client.socket.message()).await
    {
        if let RelayMessage::Reconstruction { attack, .. } = message {
            last.insert(attack.to_string(), values);
        }
    }
    last
}

/// Twenty rounds run while each step of the search takes two seconds.
#[tokio::test]
async fn slow_search_delays_no_round() {
    let descent = Descent::new(1000, Duration::from_secs(2));
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    relay.room_when("a picture", |room| find_card(room, "matching-aware").is_some()).await;
    let started = Instant::now();
    for _ in 0..20 {
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        ada.update(&plan, revealing_gradient(&picture(1), LABEL), [0; 32]).await;
    }
    let room = relay.room_when("all rounds", |room| room.losses.len() == 21).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(descent.steps() < 8, "{}", descent.steps());
    assert_eq!(card(&room, "matching-aware").round, 1, "it stays on one update until it is over");
}

#[tokio::test]
async fn search_stops_and_goes_on() {
    let descent = Descent::new(100_000, QUICK);
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    relay.room_when("a picture", is(AttackMethod::MatchingAware, SearchState::Running)).await;
    relay.control(Control::Search { on: false }).await;
    let room = relay.room_when("the stop", is(AttackMethod::MatchingAware, SearchState::Stopped)).await;
    assert!(card(&room, "matching-aware").picture.is_some());
    assert_eq!(room.search, Some(false));
    let steps = descent.steps();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(descent.steps(), steps);

    relay.control(Control::Search { on: true }).await;
    relay.room_when("more steps", is(AttackMethod::MatchingAware, SearchState::Running)).await;
    assert!(descent.steps() > steps);
    assert_eq!(descent.begun().len(), 1, "it goes on where it was");

    // If the search is overtaken while it is off, it resumes with the newest update.
    relay.control(Control::Search { on: false }).await;
    relay.room_when("the stop", is(AttackMethod::MatchingAware, SearchState::Stopped)).await;
    round(&relay, &mut ada, 2).await;
    relay.room_when("round 2", |room| room.attacks.iter().any(|card| card.round == 2)).await;
    relay.control(Control::Search { on: true }).await;
    round(&relay, &mut ada, 3).await;
    let room = relay.room_when("round 3", |room| card(room, "matching-aware").round == 3).await;
    assert_eq!(state(&room, AttackMethod::MatchingAware), Some(SearchState::Running));
    assert_eq!(descent.begun().len(), 2);
    assert!(descent.begun().iter().all(|begun| !begun.is_retarget));
}

/// If the teacher changes the target between rounds, the search stops instead of continuing unseen.
#[tokio::test]
async fn search_ends_with_its_target() {
    let descent = Descent::new(100_000, QUICK);
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    relay.room_when("a picture", is(AttackMethod::MatchingAware, SearchState::Running)).await;
    relay.control(Control::Target { client: ada.id }).await;
    let steps = descent.steps();
    relay.room_when("more steps", |_| descent.steps() > steps + 10).await;
    assert_eq!(state(&relay.room().await, AttackMethod::MatchingAware), Some(SearchState::Running), "still the same");

    let mut bob = relay.client("Bob").await;
    relay.control(Control::Target { client: bob.id }).await;
    let room = relay.room_when("the end", is(AttackMethod::MatchingAware, SearchState::Stopped)).await;
    assert!(card(&room, "matching-aware").client == ada.id && card(&room, "matching-aware").picture.is_some());
    let steps = descent.steps();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((descent.steps(), room.search), (steps, Some(true)));

    relay.control(Control::OneRound).await;
    for (client, number) in [(&mut ada, 2), (&mut bob, 3)] {
        let plan = client.plan().await;
        client.update(&plan, revealing_gradient(&picture(1), LABEL), [number; 32]).await;
    }
    let room = relay.room_when("Bob's", |room| card(room, "matching-aware").client == bob.id).await;
    assert_eq!((card(&room, "matching-aware").round, descent.begun().len()), (2, 2));
}

/// A finished search starts on the same client's next update from the picture found, but not under another defence.
#[tokio::test]
async fn newer_updates_are_taken_up_and_other_defences_begin_afresh() {
    let descent = Descent::new(20, QUICK);
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    round(&relay, &mut ada, 1).await;
    relay.room_when("the end", is(AttackMethod::MatchingAware, SearchState::Done)).await;
    assert_eq!(descent.steps(), 20);
    let plan = round(&relay, &mut ada, 2).await;
    let is_second = |room: &RoomView| card(room, "matching-aware").round == 2;
    relay
        .room_when("round 2", |room| is_second(room) && is(AttackMethod::MatchingAware, SearchState::Done)(room))
        .await;
    let begun = descent.begun();
    assert_eq!((begun.len(), begun[1].is_retarget, begun[1].first_weight), (2, true, plan.weights[0]));

    relay.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() }).await;
    round(&relay, &mut ada, 3).await;
    relay.room_when("the pair", is(AttackMethod::Matching, SearchState::Done)).await;
    let begun = descent.begun();
    assert!(begun.len() == 4 && begun[2..].iter().all(|begun| !begun.is_retarget));
    assert!(distance(&begun[3].start, &picture(1)) > 0.05, "nothing found without masks is carried over");
    assert_eq!(card(&relay.room().await, "matching-aware").round, 3);
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

#[tokio::test]
async fn search_that_breaks_down_leaves_its_picture_and_a_sentence() {
    let relay = Relay::with(|config| config.searches = Some(Arc::new(Breaking(0)))).await;
    relay.control(Control::Search { on: true }).await;
    let mut ada = relay.client("Ada").await;
    for number in 1..=2 {
        round(&relay, &mut ada, number).await;
        let room = relay.room_when("the end", |room| {
            let is_of_round = find_card(room, "matching-aware").is_some_and(|card| card.round == u32::from(number));
            is_of_round && is(AttackMethod::MatchingAware, SearchState::Done)(room)
        });
        let room = room.await;
        let card = card(&room, "matching-aware");
        assert!(card.picture.is_some() && card.remark.as_deref().is_some_and(|r| r.contains("broke down")), "{card:?}");
    }
}

#[tokio::test]
async fn fixed_position_leaves_a_jigsaw() {
    let descent = Descent::new(5, QUICK);
    let relay = searching("fixed-position", &descent).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let mut values = gradient(3);
    values[crate::support::layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    ada.update(&plan, values, [0; 32]).await;
    let room = relay.room_when("the end", is(AttackMethod::Jigsaw, SearchState::Done)).await;
    assert!(find_card(&room, "matching-aware").is_none());
    let start = &descent.begun()[0].start;
    let mean = start.iter().sum::<f32>() / start.len() as f32;
    assert!((mean - 0.5).abs() < 0.05 && start[0] != start[3], "noise: {mean}");
}

#[tokio::test]
async fn what_cannot_be_searched_is_told() {
    let descent = Descent::new(5, QUICK);
    let relay = searching("none", &descent).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let values = revealing_gradient(&picture(1), LABEL);
    ada.send_samples(&plan, 1.0, 3, unmask_defence::ProtectedUpdate::dense(values)).await;
    let has_remark = |part: &'static str| {
        move |room: &RoomView| {
            find_card(room, "matching-aware").and_then(|card| card.remark.as_deref()).is_some_and(|r| r.contains(part))
        }
    };
    relay.room_when("the refusal", has_remark("3 pictures are more than")).await;

    relay.control(Control::Defence { defence: "encrypted".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    ada.encrypted_round("seven grey herons", gradient(1)).await;
    relay.room_when("the refusal", has_remark("without the key")).await;
    assert_eq!(descent.steps(), 0);
}

/// While rounds run, the search may use only the time that closed forms leave in each round. A paused room has no such
/// limit.
#[tokio::test]
async fn search_waits_for_the_next_round_when_its_time_is_spent() {
    let descent = Descent::new(100_000, Duration::from_millis(20));
    let relay = searching("none", &descent).await;
    relay.control(Control::AttackBudget { seconds: 1.0 }).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing_gradient(&picture(1), LABEL), [0; 32]).await;
    let plan = ada.plan().await;
    let room = relay.room_when("the wait", is(AttackMethod::MatchingAware, SearchState::Waiting)).await;
    assert_eq!(room.phase, Phase::Training);
    assert!(room.budget.spent >= 1.0 && room.budget.spent < 3.0, "{:?}", room.budget);
    let steps = descent.steps();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(descent.steps(), steps);

    relay.control(Control::Pause).await;
    ada.update(&plan, revealing_gradient(&picture(1), LABEL), [0; 32]).await;
    relay.room_when("the pause", |room| room.phase == Phase::Paused).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let room = relay.room().await;
    assert_eq!(state(&room, AttackMethod::MatchingAware), Some(SearchState::Running));
    // This is more steps than fit into two seconds, a round's budget.
    assert!(descent.steps() > steps + 55, "{} after {steps}", descent.steps());
    assert_eq!(card(&room, "matching-aware").round, 1);
}
