//! Hostile strangers. Most reconnect when thrown out; those who joined the room do not.

use std::{convert::Infallible, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};
use unmask_wire::{Framer, RelayMessage};

use crate::{
    client::update,
    relay::Door,
    socket::{Socket, connect, device},
};

/// Pause before a stranger who was thrown out or rejected reconnects.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two bytes.
const DROP: Duration = Duration::from_secs(1);
const HALF_A_REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Holds connections open and sends no request, or half of one.
pub(crate) async fn idle(door: Door, number: usize) -> Infallible {
    // A few devices with many connections each.
    let from = device(1 + (number % 8) as u8);
    loop {
        if let Ok(mut stream) = connect(&door, from, false).await {
            let half = if number.is_multiple_of(2) { HALF_A_REQUEST } else { &[] };
            // Any failure ends the connection, and another one follows.
            let _ = stream.write_all(half).await;
            read_to_end(&mut stream).await;
        }
        sleep(PAUSE).await;
    }
}

/// Sends a request's header byte by byte.
pub(crate) async fn trickle_header(door: Door, number: usize) -> Infallible {
    let from = device(20 + (number % 4) as u8);
    loop {
        if let Ok(mut stream) = connect(&door, from, false).await {
            for byte in HALF_A_REQUEST.iter().chain(std::iter::repeat(&b'x')) {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                sleep(DROP).await;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Joins, and sends its update a few values at a time.
pub(crate) async fn trickle_update(door: Door, number: usize) -> anyhow::Result<()> {
    let mut socket = Socket::open(&door, device(24), false).await?;
    socket.hello(&format!("Trickler {number}"), None).await?;
    while let Some((message, values)) = socket.message().await? {
        if let RelayMessage::Plan(plan) = message
            && let Some(whole) = Framer::new(&update(&plan), values)?.next()
        {
            let (header, values) = whole.split_at(8);
            for piece in values.chunks(64) {
                let mut frame = header.to_vec();
                // Clears the mark of the last frame, so that the update never ends.
                frame[3] = 0;
                frame.extend_from_slice(piece);
                socket.frame(frame).await?;
                sleep(DROP).await;
            }
        }
    }
    Ok(())
}

/// Joins, asks for answers, and reads none.
pub(crate) async fn read_nothing(door: Door, number: usize) -> anyhow::Result<()> {
    let mut socket = Socket::open(&door, device(30), true).await?;
    socket.hello(&format!("Wall {number}"), None).await?;
    std::future::pending::<()>().await;
    socket.close().await;
    Ok(())
}

/// Joins, and sends invalid messages as fast as it can.
pub(crate) async fn flood_messages(door: Door, number: usize) -> anyhow::Result<()> {
    let mut socket = Socket::open(&door, device(31), false).await?;
    loop {
        socket.hello(&format!("Flood {number}"), None).await?;
    }
}

/// Sends requests as fast as it can, one connection after the other.
pub(crate) async fn flood_requests(door: Door, number: usize) -> Infallible {
    let from = device(32 + (number % 4) as u8);
    loop {
        let Ok(mut stream) = connect(&door, from, false).await else {
            sleep(PAUSE).await;
            continue;
        };
        let mut answer = [0; 4096];
        for _ in 0..100 {
            if stream.write_all(REQUEST).await.is_err() || !matches!(stream.read(&mut answer).await, Ok(1..)) {
                break;
            }
        }
    }
}

async fn read_to_end(stream: &mut TcpStream) {
    let mut buffer = [0; 1024];
    while let Ok(1..) = stream.read(&mut buffer).await {}
}
