//! Hostile input. Each sender is refused with a message, and the round continues for the others.

use std::time::Duration;

use crate::support::{Client, Relay, Socket, gradient, state};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use unmask_core::AttackMethod;
use unmask_wire::{
    ClientMessage, MAX_FRAME, RelayMessage, VERSION, frames,
    view::{ClientState, Control},
};

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
        ("Version", Message::Binary(change(2, VERSION + 1).into()), "the other side speaks version"),
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
    honest.update(&plan, gradient(1)).await;
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
        commitment: [0; 32],
        page: [0; 32],
    };
    long.send(&hello, &vec![0.0; 10_000]).await;
    assert!(long.goodbye().await.contains("over the limit of 8192"));
    let mut mute = Socket::open(&relay.running).await;
    assert!(mute.goodbye().await.contains("no hello came within 0.2 s"));
    let room = relay.room_when("three lines", |room| room.log.len() == 3).await;
    assert!(room.clients.is_empty());
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
        ada.update(&plan, gradient(1)).await;
    }
    flood.abort();
    assert!(relay.room().await.log.len() <= 100);
}
