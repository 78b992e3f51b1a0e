//! Rounds over real sockets.

use std::time::Duration;

use crate::support::{RATE, Relay, gradient, layout, state, view};
use unmask_core::{Architecture, GroupRates, MaskSeed, VitPreset, ZeroRate};
use unmask_defence::Mask;
use unmask_wire::{
    RelayMessage,
    view::{ClientState, Control, NextView, Phase},
};

/// With two masked clients, the second plan agrees with Eq. 2, computed in f64 with explicit masks.
#[tokio::test]
async fn two_masked_rounds_agree_with_equation_2() {
    let relay = Relay::with(|config| config.room.defence = "random-binary:0.5".parse().unwrap()).await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    assert_eq!(relay.room().await.phase, Phase::Paused);
    relay.control(Control::Start).await;
    let (layout, rates) = (layout(), GroupRates::uniform(ZeroRate::new(0.5).unwrap()));
    let mut earlier: Option<(Vec<f32>, Vec<[u8; 32]>)> = None;
    for round in 1..=3u8 {
        let plans = [ada.plan().await, bob.plan().await];
        assert_eq!(plans[0].weights, plans[1].weights);
        assert_eq!((plans[0].round, plans[1].round), (round.into(), round.into()));
        if let Some((before, seeds)) = earlier {
            let masks: Vec<Vec<bool>> =
                seeds.iter().map(|seed| Mask::new(MaskSeed(*seed), &rates, &layout).entries().collect()).collect();
            let gradients = [gradient(1), gradient(2)];
            for i in 0..before.len() {
                let present = masks.iter().zip(&gradients).filter(|(mask, _)| mask[i]).map(|(_, g)| f64::from(g[i]));
                let count = present.clone().count();
                let step = if count == 0 { 0.0 } else { f64::from(RATE) * present.sum::<f64>() / count as f64 };
                let expected = f64::from(before[i]) - step;
                assert!((f64::from(plans[0].weights[i]) - expected).abs() < 1e-6, "value {i} of round {round}");
            }
        }
        let seeds = vec![[round; 32], [100 + round; 32]];
        ada.update(&plans[0], gradient(1), seeds[0]).await;
        bob.update(&plans[1], gradient(2), seeds[1]).await;
        assert_eq!(ada.answer().await, RelayMessage::Accepted { round: round.into() });
        earlier = Some((plans[0].weights.clone(), seeds));
    }
    let room = relay.room_when("three rounds", |room| room.losses.len() == 3).await;
    assert_eq!(room.losses[2].updates, 2);
    assert_eq!(room.losses[2].defence.to_string(), "random-binary:0.5");
    let ada = view(&room, "Ada");
    let dense = 3 * 4 * layout.len() as u64;
    assert_eq!(ada.updates, 3);
    assert!(ada.bytes_sent > dense * 2 / 5 && ada.bytes_sent < dense * 3 / 5, "{} of {dense}", ada.bytes_sent);
}

#[tokio::test]
async fn closed_is_told_to_everybody() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let mut late_comer = relay.client("Bob").await;
    ada.update(&plan, gradient(1), [0; 32]).await;
    let closed = RelayMessage::Closed { round: 1, loss: Some(1.0), updates: 1 };
    assert_eq!(late_comer.socket.message().await.unwrap().0, closed);
    assert_eq!(ada.socket.message().await.unwrap().0, RelayMessage::Accepted { round: 1 });
    assert_eq!(ada.socket.message().await.unwrap().0, closed);
    let room = relay.room_when("the pause", |room| room.phase == Phase::Paused).await;
    assert_eq!((room.round, room.deadline_seconds), (1, None));
}

/// If a client does not answer, the deadline ends the round for the others, and the next round does not wait for it.
#[tokio::test]
async fn silent_client_is_late_and_comes_back() {
    let relay = Relay::with(|config| config.room.deadline = Duration::from_secs(2)).await;
    let (mut ada, mut mute) = (relay.client("Ada").await, relay.client("Mute").await);
    relay.control(Control::Start).await;
    let (plan, missed) = (ada.plan().await, mute.plan().await);
    let room = relay.room().await;
    assert_eq!(room.phase, Phase::Training);
    assert!(room.deadline_seconds.is_some_and(|left| left > 0.0 && left <= 2.0), "{:?}", room.deadline_seconds);
    ada.update(&plan, gradient(1), [0; 32]).await;
    let plan = ada.plan().await;
    assert_eq!(plan.round, 2);
    relay.log_line("Round 1 closed without Mute").await;
    assert_eq!(state(&relay.room().await, "Mute"), Some(ClientState::Late));
    ada.update(&plan, gradient(1), [1; 32]).await;
    assert_eq!(ada.plan().await.round, 3);
    mute.update(&missed, gradient(2), [2; 32]).await;
    relay.log_line("the update is for round 1").await;
    assert!(mute.plan().await.round >= 3);
}

#[tokio::test]
async fn client_that_vanishes_in_mid_upload_holds_nobody_up() {
    let relay = Relay::start().await;
    let (mut ada, mut eve) = (relay.client("Ada").await, relay.client("Eve").await);
    relay.control(Control::Start).await;
    let (plan, half) = (ada.plan().await, eve.plan().await);
    ada.update(&plan, gradient(1), [0; 32]).await;
    let message = unmask_wire::ClientMessage::Update {
        round: half.round,
        policy: half.policy,
        loss: 1.0,
        samples: 1,
        form: unmask_core::UpdateForm::Dense,
    };
    let frame = unmask_wire::frames(&message, &vec![0.0; 100_000]).unwrap().swap_remove(0);
    eve.socket.frame(frame).await;
    drop(eve);
    assert_eq!(ada.plan().await.round, 2);
    let room = relay.room().await;
    assert_eq!(room.losses[0].updates, 1);
    assert_eq!(state(&room, "Eve"), Some(ClientState::Gone));
}

#[tokio::test]
async fn controls_take_effect_from_the_next_round_on() {
    let relay = Relay::start().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let plan = ada.plan().await;
    relay.control(Control::Defence { defence: "random-binary:0.25".parse().unwrap() }).await;
    let room = relay.room().await;
    let next = NextView { defence: Some("random-binary:0.25".parse().unwrap()), ..NextView::default() };
    assert_eq!((room.defence.to_string().as_str(), room.next), ("none", Some(next)));
    ada.update(&plan, gradient(1), [0; 32]).await;
    let plan = ada.plan().await;
    assert_eq!((plan.round, plan.defence.to_string().as_str()), (2, "random-binary:0.25"));
    relay.control(Control::AprilBlock { on: true }).await;
    let april = Architecture::from(VitPreset::Pico).with_april_block(true);
    let next = NextView { architecture: Some(april), ..NextView::default() };
    assert_eq!(relay.room().await.next, Some(next));
    // A reverted choice changes nothing.
    relay.control(Control::AprilBlock { on: false }).await;
    assert_eq!(relay.room().await.next, None);
    relay.control(Control::AprilBlock { on: true }).await;
    ada.update(&plan, gradient(1), [1; 32]).await;
    let plan = ada.plan().await;
    assert_eq!((plan.round, plan.model.april_block), (1, true));
    let room = relay.room().await;
    assert!(room.architecture == april && room.next.is_none() && room.losses.is_empty());
    assert_eq!(room.parameters, plan.weights.len());
    relay.control(Control::Reset).await;
    let room = relay.room().await;
    assert_eq!((room.phase, room.round, room.architecture), (Phase::Paused, 0, april));
    // After it answers the dropped round, it can take part in the next one.
    relay.control(Control::Start).await;
    ada.send_update(&plan, 1.0, unmask_defence::ProtectedUpdate::dense(Vec::new())).await;
    relay.log_line("no round is running").await;
    let fresh = ada.plan().await;
    assert_eq!(fresh.round, 1);
    assert_ne!(fresh.weights, plan.weights);
}

#[tokio::test]
async fn seeded_room_that_starts_by_itself() {
    let start = || Relay::with(|config| (config.room.seed, config.room.start) = (Some(7), true));
    let (one, other) = (start().await, start().await);
    assert_eq!(one.room().await.phase, Phase::Waiting);
    let weights = one.client("Ada").await.plan().await.weights;
    assert_eq!(weights, other.client("Ada").await.plan().await.weights);
}
