//! The relay's attacks on a client's update.

use std::sync::Arc;

use crate::support::{
    Client, Plan, Relay, card, find_card, gradient,
    private::{distance, picture, revealing_gradient},
    protect, remark,
};
use unmask_attack::{AttackError, Searches, WholeUpdate};
use unmask_core::{AttackMethod, MaskSeed};
use unmask_defence::KeyMaterial;
use unmask_wire::{
    ClientMessage,
    view::{Control, RoomView},
};

const LABEL: usize = 3;

fn revealing() -> Vec<f32> {
    revealing_gradient(&picture(1), LABEL)
}

async fn round(relay: &Relay, ada: &mut Client, bob: &mut Client, number: u8) -> Plan {
    relay.control(Control::OneRound).await;
    let (plan, other) = (ada.plan().await, bob.plan().await);
    ada.update(&plan, revealing(), [number; 32]).await;
    bob.update(&other, gradient(4), [100 + number; 32]).await;
    plan
}

fn are_of(room: &RoomView, cards: usize, round: u32) -> bool {
    room.attacks.len() == cards && room.attacks.iter().all(|card| card.round == round)
}

/// Runs one round under a defence with Ada as the only client.
async fn attacked(defence: &str, values: Vec<f32>) -> (Relay, Client) {
    let relay = Relay::with(|config| config.room.defence = defence.parse().unwrap()).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, values, [1; 32]).await;
    (relay, ada)
}

#[tokio::test]
async fn picture_is_recovered_and_scored() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    round(&relay, &mut ada, &mut bob, 1).await;
    let (of_round, values) = ada.reconstruction("embedding").await;
    assert_eq!(of_round, 1);
    assert!(distance(&values, &picture(1)) < 1e-4, "{}", distance(&values, &picture(1)));
    let room = relay.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some()).await;
    let names: Vec<&str> = room.attacks.iter().map(|card| card.attack.name()).collect();
    assert_eq!(names, ["embedding", "embedding-aware", "april", "april-aware"]);
    let embedding = card(&room, "embedding");
    assert_eq!((embedding.nickname.as_str(), embedding.round, embedding.pictures), ("Ada", 1, 1));
    assert!(embedding.seconds > 0.0 && embedding.explanation.equation.contains("G_pos"));
    assert_eq!((embedding.family.name(), embedding.attacker.as_str()), ("embedding", "What the papers tested"));
    assert!(remark(&room, "embedding-aware").contains("knowing masks adds nothing"));
    assert!(remark(&room, "april").contains("normalises"), "{}", remark(&room, "april"));
    let label = room.label.clone().unwrap();
    assert_eq!((label.counts[LABEL], label.counts.iter().sum::<u32>(), label.samples), (1, 1, 1));
    assert!((label.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && label.shares[LABEL] > 0.8, "{label:?}");

    let path = embedding.picture.clone().unwrap();
    let (status, head, png) = relay.get(&path).await;
    assert_eq!((status, &png[1..4]), (200, &b"PNG"[..]));
    assert!(head.contains("content-type: image/png"));
    let (status, ..) = relay.get("/api/reconstruction/embedding/99-1.png").await;
    assert_eq!(status, 404);

    let score = |round, ssim| ClientMessage::Score { round, attack: AttackMethod::Embedding, psnr: 60.0, ssim };
    bob.socket.send(&score(1, 0.99), &[]).await;
    assert!(bob.refusal().await.contains("not under attack"));
    ada.socket.send(&score(1, 1.5), &[]).await;
    assert!(ada.refusal().await.contains("1.5"));
    ada.socket.send(&score(1, 0.99), &[]).await;
    let room = relay.room_when("the score", |room| card(room, "embedding").ssim.is_some()).await;
    assert_eq!((card(&room, "embedding").psnr, card(&room, "embedding").ssim), (Some(60.0), Some(0.99)));
}

/// With G_pos unmasked, masks on everything else stop the papers' attacker, but not a mask-aware one.
#[tokio::test]
async fn naive_and_aware_stand_side_by_side_on_one_update() {
    let (relay, mut ada) = attacked("random-binary:pos=0,0.3", revealing()).await;
    let (_, naive) = ada.reconstruction("embedding").await;
    let (_, aware) = ada.reconstruction("embedding-aware").await;
    let (naive, aware) = (distance(&naive, &picture(1)), distance(&aware, &picture(1)));
    assert!(naive > 0.05 && aware < 1e-4, "{naive} {aware}");
    let room = relay.room_when("all results", |room| room.attacks.len() == 6).await;
    assert!(room.attacks.iter().all(|card| card.round == 1 && card.defence.to_string() == "random-binary:pos=0,0.3"));
    assert!(remark(&room, "embedding-aware").contains("arrived whole"), "{}", remark(&room, "embedding-aware"));
    assert!(!remark(&room, "embedding-aware").contains("adds nothing"));
}

/// A model with a known formula for a picture's gradient.
#[derive(Debug)]
struct Formula;

impl Searches for Formula {
    fn gradient(&self, _: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        Ok(revealing_gradient(pictures, labels[0]).into_iter().map(f64::from).collect())
    }
}

/// The gradient check distinguishes right pictures from wrong ones, and says nothing without a model.
#[tokio::test]
async fn closed_forms_are_checked_by_their_own_gradient() {
    let relay = Relay::with(|config| {
        config.room.defence = "random-binary:pos=0,0.3".parse().unwrap();
        config.searches = Some(Arc::new(Formula));
    })
    .await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing(), [1; 32]).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 6).await;
    let unexplained = |attack: &str| -> f64 {
        let (_, rest) = remark(&room, attack).split_once("Its own gradient leaves ").unwrap();
        rest.split_once(" % of what arrived unexplained.").unwrap().0.parse().unwrap()
    };
    let (naive, aware) = (unexplained("embedding"), unexplained("embedding-aware"));
    assert!(naive > 5.0 && aware == 0.0, "{naive} % and {aware} %");

    relay.control(Control::Defence { defence: "encrypted".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    ada.encrypted_round("seven grey herons", revealing()).await;
    let room =
        relay.room_when("cipher text", |room| find_card(room, "embedding").is_some_and(|card| card.round == 2)).await;
    assert!(!remark(&room, "embedding").contains("own gradient"), "{}", remark(&room, "embedding"));
}

#[tokio::test]
async fn cards_follow_the_defence() {
    let (relay, mut ada) = attacked("fixed-position", revealing_with_zero_position()).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some()).await;
    for card in &room.attacks {
        assert_eq!((card.picture.as_deref(), card.ssim), (None, None));
        let remark = card.remark.as_deref().unwrap_or_default();
        assert!(remark.starts_with("Cannot, because") && remark.contains("position embedding"), "{remark}");
    }
    assert_eq!(room.label.unwrap().counts[LABEL], 1);

    relay.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing(), [2; 32]).await;
    let room = relay.room_when("the rounds", |room| room.attacks.len() == 6).await;
    let names: Vec<&str> = room.attacks.iter().map(|card| card.attack.name()).collect();
    assert_eq!(names[4..], ["completion", "rounds"]);
    let room = relay.room_when("round 2", |room| are_of(room, 6, 2)).await;
    assert_eq!(room.label.as_ref().map(|label| label.round), Some(2));

    relay.control(Control::Defence { defence: "none".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing(), [0; 32]).await;
    let room = relay.room_when("round 3", |room| are_of(room, 4, 3)).await;
    assert!(room.attacks.iter().all(|card| card.attack.name() != "rounds"));
}

fn revealing_with_zero_position() -> Vec<f32> {
    let mut values = revealing();
    values[crate::support::layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    values
}

/// Under FedAvg, the change of the weights also reveals the picture and the label.
#[tokio::test]
async fn weights_that_moved_give_the_picture_away() {
    let relay = Relay::with(|config| config.room.rule = "fedavg:epochs=1,rate=0.1".parse().unwrap()).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let local = plan.weights.iter().zip(revealing()).map(|(w, g)| w - 0.1 * g).collect();
    ada.update(&plan, local, [0; 32]).await;
    let (_, values) = ada.reconstruction("embedding").await;
    assert!(distance(&values, &picture(1)) < 1e-2, "{}", distance(&values, &picture(1)));
    let room = relay.room_when("label", |room| room.label.is_some() && !room.attacks.is_empty()).await;
    assert!(remark(&room, "embedding").contains("weight differences after 1 local epoch"));
    assert_eq!(room.label.unwrap().counts[LABEL], 1);
}

/// Zeros and overflowing values are explained, and the next update is attacked normally.
#[tokio::test]
async fn worthless_updates_are_told_in_words() {
    let (relay, mut ada) = attacked("none", vec![0.0; crate::support::layout().len()]).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some()).await;
    assert!(room.attacks.iter().all(|card| card.remark.is_some() && card.picture.is_none()), "{:#?}", room.attacks);
    let label = room.label.unwrap();
    assert!(label.counts.is_empty() && label.remark.as_deref().is_some_and(|remark| remark.contains("all zero")));
    for (round, defence, cards) in [(2, "random-binary:0.5", 6), (3, "none", 4)] {
        relay.control(Control::Defence { defence: defence.parse().unwrap() }).await;
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        ada.update(&plan, vec![f32::MAX; crate::support::layout().len()], [9; 32]).await;
        relay.room_when(defence, |room| are_of(room, cards, round)).await;
    }
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    ada.update(&plan, revealing(), [0; 32]).await;
    let (round, values) = ada.reconstruction("embedding").await;
    let (round, values) = if round == 4 { (round, values) } else { ada.reconstruction("embedding").await };
    assert_eq!(round, 4);
    assert!(distance(&values, &picture(1)) < 1e-4);
}

#[tokio::test]
async fn mixtures_are_called_mixtures() {
    let relay = Relay::with(|config| config.room.batch = 4).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let update = protect(&plan, revealing(), KeyMaterial { seed: MaskSeed([0; 32]), cipher: None });
    ada.send_samples(&plan, 1.0, 4, update).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some()).await;
    let remark = remark(&room, "embedding");
    assert!(remark.contains("4 pictures are mixed") && remark.contains("at most 0.15"), "{remark}");
    let label = room.label.unwrap();
    assert_eq!((label.samples, label.counts.iter().sum::<u32>()), (4, 4));
}
