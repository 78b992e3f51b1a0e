//! Hostile input. Each sender is refused with a message, and the round continues for the others.

use std::time::Duration;

use crate::support::{Client, Plan, RATE, Relay, Socket, gradient, layout, protect, state, view};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use unmask_core::{Aggregation, AttackMethod, GroupRates, KeyCheck, MaskSeed, UpdateForm};
use unmask_defence::{KeyMaterial, ProtectedUpdate};
use unmask_wire::{
    ClientMessage, MAX_FRAME, RelayMessage, frames,
    view::{ClientState, Control, Phase},
};

fn update_message(plan: &Plan, form: UpdateForm) -> ClientMessage {
    ClientMessage::Update { round: plan.round, policy: plan.policy, loss: 1.0, samples: 1, form }
}

/// Bytes after the hello that close the connection, each with part of the reason.
#[tokio::test]
async fn bytes_that_are_no_message_close_the_connection() {
    let relay = Relay::with(|config| config.room.start = true).await;
    let mut honest = relay.client("Honest").await;
    let plan = honest.plan().await;
    let whole = frames(&ClientMessage::Device { device: "GPU".into() }, &[]).unwrap().swap_remove(0);
    let change = |position: usize, byte: u8| {
        let mut frame = whole.clone();
        frame[position] = byte;
        frame
    };
    let mut announces_too_much = whole.clone();
    announces_too_much[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let score = ClientMessage::Score { round: 1, attack: AttackMethod::Embedding, psnr: 20.0, ssim: 0.5 };
    let mut unknown_attack = frames(&score, &[]).unwrap().swap_remove(0);
    let name = unknown_attack.windows(9).position(|bytes| bytes == b"embedding").unwrap();
    unknown_attack[name..name + 9].copy_from_slice(b"palmistry");
    let cases: [(&str, Message, &str); 9] = [
        ("Foreign", Message::Binary(b"GET / HTTP/1.1".to_vec().into()), "unmask frame"),
        ("Empty", Message::Binary(Vec::new().into()), "unmask frame"),
        ("Version", Message::Binary(change(2, 9).into()), "version 9"),
        ("Truncated", Message::Binary(whole[..whole.len() - 1].to_vec().into()), "announced as"),
        ("Oversized", Message::Binary(announces_too_much.into()), "over the limit"),
        ("Unknown", Message::Binary(change(12, 99).into()), "unknown or malformed"),
        ("Scorer", Message::Binary(unknown_attack.into()), "unknown or malformed"),
        ("Text", Message::text("{\"hello\":1}"), "text messages"),
        ("Huge", Message::Binary(vec![0; MAX_FRAME + 1].into()), "too long"),
    ];
    for (nickname, bytes, reason) in cases {
        let mut eve = relay.client(nickname).await;
        eve.socket.raw(bytes).await;
        let said = eve.socket.goodbye().await;
        assert!(said.contains(reason), "{nickname}: {said}");
        relay.log_line(&format!("{nickname} was disconnected")).await;
        assert_eq!(state(&relay.room().await, nickname), Some(ClientState::Gone));
    }
    honest.update(&plan, gradient(1), [0; 32]).await;
    assert_eq!(honest.answer().await, RelayMessage::Accepted { round: 1 });
}

/// A client that crashes or loses the network within a frame has not misbehaved. The room logs that the connection
/// broke off, without blaming the client.
#[tokio::test]
async fn a_connection_that_breaks_is_no_misbehaviour() {
    let relay = Relay::start().await;
    for (nickname, is_reset, cut) in
        [("Ada", true, 3), ("Bob", true, 40), ("Cleo", false, 3), ("Dora", false, 40), ("Eve", true, 0)]
    {
        let mut client = relay.client(nickname).await;
        // Part of a 64-byte frame with a browser's masking.
        let frame = [&[0x82, 0x80 | 64, 1, 2, 3, 4][..], &[0; 64]].concat();
        let stream = client.socket.tcp();
        stream.write_all(&frame[..cut]).await.unwrap();
        if is_reset {
            // With zero linger, closing the socket resets the connection.
            stream.set_zero_linger().unwrap();
        }
        drop(client);
        relay.log_line(&format!("{nickname} is gone: its connection broke off")).await;
    }
    let room = relay.room().await;
    assert!(!room.log.iter().any(|line| line.text.contains("was disconnected")), "{:?}", room.log);
}

/// Invalid input before the hello.
#[tokio::test]
async fn strangers_are_turned_away() {
    let relay = Relay::with(|config| config.limits.hello = Duration::from_millis(200)).await;
    let mut early = Socket::open(&relay.running).await;
    early.send(&ClientMessage::Device { device: "GPU".into() }, &[]).await;
    assert!(early.goodbye().await.contains("not a hello"));
    let mut long = Socket::open(&relay.running).await;
    let hello = ClientMessage::Hello {
        nickname: "Long".into(),
        resume: None,
        device: "CPU".into(),
        may_show: true,
        may_lend: true,
        is_robot: false,
    };
    long.send(&hello, &vec![0.0; 10_000]).await;
    assert!(long.goodbye().await.contains("over the limit of 8192"));
    let mut mute = Socket::open(&relay.running).await;
    assert!(mute.goodbye().await.contains("no hello came within 0.2 s"));
    let room = relay.room_when("three lines", |room| room.log.len() == 3).await;
    assert!(room.clients.is_empty());
}

/// Invalid updates in valid messages. The client stays and takes part in the next round.
#[tokio::test]
async fn bad_updates_are_refused_and_the_round_goes_on() {
    let relay = Relay::with(|config| config.room.defence = "random-binary:0.5".parse().unwrap()).await;
    let (mut honest, mut eve) = (relay.client("Honest").await, relay.client("Eve").await);
    relay.control(Control::Start).await;
    let masked =
        |zero_rate| UpdateForm::Masked { seed: MaskSeed([200; 32]), rates: GroupRates::from_bits([zero_rate; 7]) };
    let cases: [(UpdateForm, Vec<f32>, &str); 5] = [
        (masked(32768), vec![0.0; 5], "has 5 values, its mask keeps"),
        (masked(32768), Vec::new(), "has 0 values, its mask keeps"),
        (masked(16384), Vec::new(), "the round's defence is random-binary:0.5"),
        (UpdateForm::Dense, gradient(2), "the round's defence is random-binary:0.5"),
        (UpdateForm::Encrypted { check: KeyCheck([1; 16]) }, gradient(2), "the round's defence is random-binary:0.5"),
    ];
    for (number, (kind, values, reason)) in cases.into_iter().enumerate() {
        let (plan, target) = (honest.plan().await, eve.plan().await);
        eve.socket.send(&update_message(&target, kind), &values).await;
        let said = eve.refusal().await;
        assert!(said.contains(reason), "{said}");
        if number == 2 {
            let room = relay
                .room_when("the third one too many", |room| state(room, "Eve") == Some(ClientState::Excluded))
                .await;
            assert!(view(&room, "Eve").refusal.as_ref().is_some_and(|refusal| refusal.contains(reason)));
            relay.control(Control::Readmit { client: eve.id }).await;
        }
        honest.update(&plan, gradient(1), [number as u8; 32]).await;
    }
    let (plan, target) = (honest.plan().await, eve.plan().await);
    for value in [f32::NAN, f32::INFINITY] {
        let mut poisoned = gradient(2);
        poisoned.fill(value);
        let keys = KeyMaterial { seed: MaskSeed([77; 32]), cipher: None };
        let update = protect(&target, poisoned, keys);
        if value.is_nan() {
            eve.send_update(&target, 1.0, update).await;
            assert!(eve.refusal().await.contains("NaN at position 0"));
        } else {
            eve.send_update(&target, value, update).await;
            let said = eve.refusal().await;
            assert!(said.contains("began without this client"), "{said}");
        }
    }
    honest.update(&plan, gradient(1), [50; 32]).await;
    let room = relay.room_when("six rounds", |room| room.losses.len() == 6).await;
    assert!(room.losses.iter().all(|point| point.updates == 1), "{:?}", room.losses);
    assert!(room.log.iter().any(|line| line.text.contains("Eve: refused, update has 5 values")));
}

/// An update of huge values and claims is reported, and has no other effect.
#[tokio::test]
async fn a_huge_update_moves_nothing() {
    let relay = Relay::with(|config| config.room.aggregation = Aggregation::Clipped).await;
    let mut clients = Vec::new();
    for nickname in ["Ada", "Bob", "Carol"] {
        clients.push(relay.client(nickname).await);
    }
    let mut eve = relay.client("Eve").await;
    relay.control(Control::OneRound).await;
    for (number, client) in clients.iter_mut().enumerate() {
        let plan = client.plan().await;
        client.update(&plan, gradient(number), [number as u8; 32]).await;
    }
    let plan = eve.plan().await;
    let form = UpdateForm::Dense;
    let message =
        ClientMessage::Update { round: plan.round, policy: plan.policy, loss: 1e38, samples: 1_000_000, form };
    eve.socket.send(&message, &vec![1e25; layout().len()]).await;
    relay.log_line("is much larger than the others and was scaled down").await;
    let room = relay.room_when("the end of the round", |room| room.phase == Phase::Paused).await;
    assert_eq!((room.losses[0].updates, room.losses[0].loss), (3, 1.0));
    assert_eq!((view(&room, "Ada").loss, view(&room, "Eve").loss), (Some(1.0), None));
    relay.control(Control::OneRound).await;
    let after = eve.plan().await.weights;
    let norm = |values: Vec<f32>| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let step: Vec<f32> = plan.weights.iter().zip(&after).map(|(before, after)| after - before).collect();
    // The step is about the mean of the other three, at the room's rate.
    assert!(norm(step) <= 1.3 * RATE * norm(gradient(1)), "the model has moved too far");
}

#[tokio::test]
async fn seed_counts_once_and_so_does_an_update() {
    let relay = Relay::with(|config| config.room.defence = "random-binary:0.5".parse().unwrap()).await;
    let (mut ada, mut eve) = (relay.client("Ada").await, relay.client("Eve").await);
    relay.control(Control::Start).await;
    let (plan, copy) = (ada.plan().await, eve.plan().await);
    ada.update(&plan, gradient(1), [3; 32]).await;
    assert_eq!(ada.answer().await, RelayMessage::Accepted { round: 1 });
    ada.update(&plan, gradient(1), [4; 32]).await;
    assert!(ada.refusal().await.contains("already taken"));
    eve.update(&copy, gradient(2), [3; 32]).await;
    assert!(eve.refusal().await.contains("seed was used before"));
    assert_eq!(eve.plan().await.round, 2);
}

#[tokio::test]
async fn wrong_length_without_a_mask() {
    let relay = Relay::with(|config| config.room.start = true).await;
    let mut eve = relay.client("Eve").await;
    let plan = eve.plan().await;
    eve.send_update(&plan, 1.0, ProtectedUpdate::dense(vec![0.0; 3])).await;
    assert!(eve.refusal().await.contains(&format!("3 values, its layout has {}", layout().len())));
    let plan = eve.plan().await;
    eve.send_update(&plan, f32::NAN, ProtectedUpdate::dense(gradient(1))).await;
    assert!(eve.refusal().await.contains("loss is NaN"));
    let plan = eve.plan().await;
    eve.socket
        .send(
            &ClientMessage::Unable {
                round: plan.round,
                policy: plan.policy,
                reason: "tired\n".into(),
                is_locked: false,
            },
            &[],
        )
        .await;
    relay.log_line("Eve cannot take part in round 3: tired").await;
    let plan = eve.plan().await;
    // Longer than any update of this room.
    let mut long = frames(&update_message(&plan, UpdateForm::Dense), &vec![0.0; 2 * layout().len()]).unwrap();
    eve.socket.frame(long.swap_remove(0)).await;
    assert!(eve.socket.goodbye().await.contains("over the limit"));
}

#[tokio::test]
async fn second_hello_is_refused() {
    let relay = Relay::start().await;
    let mut eve = relay.client("Eve").await;
    eve.socket.hello("Ada", None).await;
    assert!(eve.refusal().await.contains("second hello"));
    assert_eq!(relay.room().await.clients.len(), 1);
}

/// The relay neither waits for a client that never reads nor buffers without limit for it.
#[tokio::test]
async fn client_that_reads_nothing_holds_nobody_up() {
    let relay =
        Relay::with(|config| (config.room.deadline, config.room.pace) = (Duration::from_millis(100), Duration::ZERO))
            .await;
    let mut ada = relay.client("Ada").await;
    let mut wall = Client::join(&relay.running, "Wall", None).await;
    // The client never reads the refusals of these messages.
    let flood = tokio::spawn(async move {
        for _ in 0..1_000_000 {
            wall.socket.hello("again", None).await;
        }
    });
    relay.control(Control::Start).await;
    for round in 1..=20u32 {
        let plan = ada.plan().await;
        assert_eq!(plan.round, round);
        ada.update(&plan, gradient(1), [0; 32]).await;
    }
    flood.abort();
    assert!(relay.room().await.log.len() <= 100);
}
