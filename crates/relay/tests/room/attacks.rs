//! The relay's attacks on a client's update, from the socket to the page.

use crate::support::{
    Client, Plan, Relay, card, gradient,
    private::{distance, picture, revealing_gradient},
    remark,
};
use unmask_core::AttackMethod;
use unmask_wire::{ClientMessage, view::Control};

const LABEL: usize = 3;

fn revealing() -> Vec<f32> {
    revealing_gradient(&picture(1), LABEL)
}

async fn round(relay: &Relay, ada: &mut Client, bob: &mut Client) -> Plan {
    relay.control(Control::OneRound).await;
    let (plan, other) = (ada.plan().await, bob.plan().await);
    ada.update(&plan, revealing()).await;
    bob.update(&other, gradient(4)).await;
    plan
}

#[tokio::test]
async fn picture_is_recovered_and_scored() {
    let relay = Relay::start().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    round(&relay, &mut ada, &mut bob).await;
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
