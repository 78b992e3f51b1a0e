//! Held-out accuracy on the projector.

use std::{sync::Arc, time::Duration};
use unmask_core::TrainOn;

use crate::support::{
    Client, RATE, Relay, cipher,
    colours::{self, ByColour, COLOURS},
    layout,
};
use unmask_relay::RelayConfig;
use unmask_wire::view::{Control, EvaluationView, Phase};

/// Number of held-out pictures, two of each colour.
const HELD_OUT: u32 = 6;

async fn measuring(change: impl FnOnce(&mut RelayConfig)) -> Relay {
    Relay::with(|config| {
        colours::share(config);
        config.room.data.train_on = TrainOn::Shared;
        config.evaluator = Some(Arc::new(ByColour));
        change(config);
    })
    .await
}

/// Runs a round that moves every weight to about this value.
async fn round_to(client: &mut Client, value: f32) {
    let plan = client.plan().await;
    let gradient = vec![(plan.weights[0] - value) / RATE; layout().len()];
    client.update(&plan, gradient).await;
}

async fn measured(relay: &Relay, round: u32) -> EvaluationView {
    let is_measured = |found: &EvaluationView| found.round == round && found.pictures > 0;
    let room = relay.room_when("an evaluation", |room| room.evaluation.as_ref().is_some_and(is_measured)).await;
    room.evaluation.unwrap()
}

#[tokio::test]
async fn accuracy_follows_the_model() {
    let relay = measuring(|config| config.room.pace = Duration::from_millis(200)).await;
    // Before the first round, the model always predicts the first colour.
    let start = measured(&relay, 0).await;
    assert_eq!((start.accuracy, start.pictures, start.loss), (1.0 / 3.0, HELD_OUT, 0.25));
    assert_eq!(start.confusion, [2, 0, 0, 2, 0, 0, 2, 0, 0]);
    assert_eq!(start.classes, COLOURS);
    assert!(start.interval[0] > 0.08 && start.interval[1] < 0.72 && start.remark.is_none(), "{start:?}");
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    round_to(&mut ada, 200.0).await;
    let trained = measured(&relay, 1).await;
    assert_eq!((trained.accuracy, trained.confusion), (1.0, vec![2, 0, 0, 0, 2, 0, 0, 0, 2]));
    round_to(&mut ada, 0.0).await;
    assert_eq!(measured(&relay, 2).await.accuracy, 1.0 / 3.0);
    let room = relay.room().await;
    let curve: Vec<(u32, f64)> = room.accuracies.iter().map(|point| (point.round, point.accuracy)).collect();
    assert_eq!(curve, [(0, 1.0 / 3.0), (1, 1.0), (2, 1.0 / 3.0)]);

    // If the model cannot run, the reason is shown next to the last result.
    round_to(&mut ada, -200.0).await;
    let room =
        relay.room_when("a remark", |room| room.evaluation.as_ref().is_some_and(|found| found.remark.is_some())).await;
    let found = room.evaluation.unwrap();
    assert_eq!(found.remark.unwrap(), "The model of round 3 is not measured: this model cannot see.");
    assert_eq!(found.round, 2);
    // A reset removes the old model's results.
    relay.control(Control::Reset).await;
    let start = measured(&relay, 0).await;
    assert!(start.remark.is_none());
    assert_eq!(relay.room().await.accuracies.len(), 1);
}

#[tokio::test]
async fn budget_bounds_it_and_stops_it() {
    let relay = measuring(|config| config.room.data.test_pictures = 4).await;
    assert_eq!(measured(&relay, 0).await.pictures, 4);
    relay.control(Control::EvaluationBudget { seconds: 0.0 }).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    for _ in 0..2 {
        round_to(&mut ada, 200.0).await;
    }
    ada.plan().await;
    let room = relay.room().await;
    assert_eq!((room.accuracies.len(), room.losses.len()), (1, 2));
    assert!(room.evaluation.unwrap().remark.unwrap().contains("budget is 0 s"));
    relay.control(Control::EvaluationBudget { seconds: 1.0 }).await;
    assert_eq!(measured(&relay, 2).await.accuracy, 1.0);
}

/// Private pictures have no class of this data set, so there are no held-out pictures for them.
#[tokio::test]
async fn rooms_that_cannot_be_measured_say_why() {
    let private = measuring(|config| config.room.data.train_on = TrainOn::Private).await;
    let remark = private.room().await.evaluation.unwrap().remark.unwrap();
    assert!(remark.contains("whose classes are not those of colours"), "{remark}");
    let on_demand = Relay::with(|config| config.evaluator = Some(Arc::new(ByColour))).await;
    let remark = on_demand.room().await.evaluation.unwrap().remark.unwrap();
    assert!(remark.contains("they are made when rounds are to train on shared pictures"), "{remark}");
    let without = Relay::start().await;
    assert!(without.room().await.evaluation.unwrap().remark.unwrap().contains("without the means"));
}

#[tokio::test]
async fn encrypted_model_is_not_measured() {
    let relay = measuring(|_| {}).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    round_to(&mut ada, 200.0).await;
    measured(&relay, 1).await;
    // Wait for the plan: between rounds the choice would take effect immediately, without a second plan.
    let plan = ada.plan().await;
    relay.control(Control::Defence { defence: "encrypted".parse().unwrap() }).await;
    ada.update(&plan, vec![0.0; layout().len()]).await;
    let seal = ada.seal().await;
    let cipher = cipher("violet otter 1867", &seal.salt);
    ada.send_sealed(&seal, &cipher, seal.weights.clone()).await;
    ada.plan().await;
    let room = relay.room_when("training", |room| room.phase == Phase::Training).await;
    let found = room.evaluation.unwrap();
    assert!(found.remark.unwrap().contains("it cannot read"));
    // Earlier results are still shown.
    assert!(found.round >= 1 && found.accuracy == 1.0 && !room.accuracies.is_empty());
}
