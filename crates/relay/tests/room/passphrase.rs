//! Rooms that wait for a client with the passphrase.

use crate::support::{Client, Relay, cipher, gradient};
use unmask_wire::{
    ClientMessage,
    view::{Control, Phase, RoomView},
};

async fn encrypted() -> Relay {
    Relay::with(|config| config.room.defence = "encrypted".parse().unwrap()).await
}

async fn lacks_passphrase(client: &mut Client, round: u32, policy: u32) {
    let reason = "this client has no passphrase yet".to_owned();
    let message = ClientMessage::Unable { round, policy, reason, is_locked: true };
    client.socket.send(&message, &[]).await;
}

fn lines(room: &RoomView, part: &str) -> usize {
    room.log.iter().filter(|line| line.text.contains(part)).count()
}

#[tokio::test]
async fn room_without_a_passphrase_says_that_it_waits_for_one() {
    let relay = encrypted().await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::Start).await;
    // Both are asked in turn, and neither can encrypt.
    for _ in 0..2 {
        let seal = ada.seal().await;
        lacks_passphrase(&mut ada, 0, seal.policy).await;
        let seal = bob.seal().await;
        lacks_passphrase(&mut bob, 0, seal.policy).await;
    }
    relay.room_when("the locked room", |room| room.phase == Phase::Locked).await;
    // A new client may have the passphrase, so it is asked.
    let mut cleo = relay.client("Cleo").await;
    relay.room_when("another phase", |room| room.phase != Phase::Locked).await;
    let seal = loop {
        tokio::select! {
            seal = ada.seal() => lacks_passphrase(&mut ada, 0, seal.policy).await,
            seal = bob.seal() => lacks_passphrase(&mut bob, 0, seal.policy).await,
            seal = cleo.seal() => break seal,
        }
    };
    cleo.send_sealed(&seal, &cipher("violet otter 1867", &seal.salt), seal.weights.clone()).await;
    let plan = cleo.plan().await;
    assert_eq!(plan.round, 1);
    relay.room_when("training", |room| room.phase == Phase::Training).await;
}

/// A client's repeated excuse is logged only once.
#[tokio::test]
async fn same_excuse_is_heard_once_until_the_client_takes_part_again() {
    let relay = encrypted().await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let seal = ada.seal().await;
    let key = cipher("violet otter 1867", &seal.salt);
    ada.send_sealed(&seal, &key, seal.weights.clone()).await;
    let first = ada.plan().await;
    let mut bob = relay.client("Bob").await;
    ada.encrypted_update(&first, gradient(1), &key).await;
    for round in 1..=5 {
        // Bob joined during round 1.
        if round > 1 {
            let plan = ada.plan().await;
            ada.encrypted_update(&plan, gradient(1), &key).await;
            let plan = bob.plan().await;
            if round == 4 {
                bob.encrypted_update(&plan, gradient(2), &key).await;
            } else {
                lacks_passphrase(&mut bob, plan.round, plan.policy).await;
            }
        }
        relay.room_when("the round's end", |room| room.losses.len() >= round).await;
    }
    let room = relay.room().await;
    assert_ne!(room.phase, Phase::Locked);
    assert_eq!(lines(&room, "Bob cannot take part"), 2, "{:#?}", room.log);
}
