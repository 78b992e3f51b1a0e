//! A connection from a chosen address, and a socket of the room on it.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, ensure};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::ClientRequestBuilder},
};
use unmask_wire::{Assembler, ClientMessage, Framer, RelayMessage};

use crate::relay::Door;

/// Longest accepted message in bytes, longer than every model's plan.
const MAX_MESSAGE: usize = 1 << 28;
/// Receive buffer of a client that does not read, in bytes.
const SMALL_BUFFER: u32 = 4096;

/// A loopback address that the relay takes for another device. Number 0 is the machine's own.
pub(crate) fn device(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, 1 + number.min(250)).into()
}

/// Connects to the room's plain port from this address.
pub(crate) async fn connect(door: &Door, from: IpAddr, has_small_buffer: bool) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if has_small_buffer {
        socket.set_recv_buffer_size(SMALL_BUFFER)?;
    }
    socket.bind((from, 0).into()).with_context(|| format!("this system does not lend the address {from}"))?;
    Ok(socket.connect(door.address).await?)
}

/// Sends a request from this machine's own address, with a secret if there is one. Returns the body of the answer.
pub(crate) async fn fetch(door: &Door, what: &str, secret: Option<&str>, body: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = connect(door, device(0), false).await?;
    let secret = secret.map_or_else(String::new, |secret| format!("Authorization: Bearer {secret}\r\n"));
    let (port, length) = (door.address.port(), body.len());
    let head = format!("{what} HTTP/1.0\r\nHost: localhost:{port}\r\n{secret}Content-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer without a head")?;
    let status = answer.get(9..12).unwrap_or_default();
    ensure!(status.starts_with(b"2"), "{what}: {}", String::from_utf8_lossy(&answer));
    Ok(answer.split_off(end + 4))
}

pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    assembler: Assembler,
}

impl Socket {
    /// Opens a socket from this address, with the room's key if there is one.
    pub(crate) async fn open(door: &Door, from: IpAddr, has_small_buffer: bool) -> anyhow::Result<Self> {
        let stream = connect(door, from, has_small_buffer).await?;
        stream.set_nodelay(true)?;
        let address = format!("ws://localhost:{}/ws", door.address.port());
        let mut request = ClientRequestBuilder::new(address.parse()?);
        if let Some(key) = &door.key {
            request = request.with_header("Authorization", format!("Bearer {key}"));
        }
        if let Some(browser) = door.browser {
            request = request.with_header("Cookie", format!("unmask-{}-device={browser:032x}", door.address.port()));
        }
        let (stream, _) = client_async(request, stream).await?;
        Ok(Self { stream, assembler: Assembler::new(MAX_MESSAGE) })
    }

    /// Asks to join, or to come back with the ticket of an earlier welcome.
    pub(crate) async fn hello(&mut self, nickname: &str, resume: Option<[u8; 16]>) -> anyhow::Result<()> {
        let nickname = nickname.to_owned();
        let hello = ClientMessage::Hello {
            nickname,
            resume,
            device: "swarm".to_owned(),
            may_show: false,
            may_lend: false,
            is_robot: true,
            // It sends no masks.
            commitment: [0; 32],
            page: [0; 32],
        };
        self.send(&hello, &[]).await
    }

    pub(crate) async fn send(&mut self, message: &ClientMessage, values: &[f32]) -> anyhow::Result<()> {
        for frame in Framer::new(message, values)? {
            self.stream.send(Message::Binary(frame.into())).await?;
        }
        Ok(())
    }

    pub(crate) async fn frame(&mut self, frame: Vec<u8>) -> anyhow::Result<()> {
        Ok(self.stream.send(Message::Binary(frame.into())).await?)
    }

    /// The next message with its values; `None` if the relay has closed the socket.
    pub(crate) async fn message(&mut self) -> anyhow::Result<Option<(RelayMessage, Vec<f32>)>> {
        loop {
            match self.stream.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok(None),
                Some(Ok(Message::Binary(frame))) => {
                    if let Some(message) = self.assembler.push(&frame)? {
                        return Ok(Some(message));
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Keeps the memory of `values` for the next message.
    pub(crate) fn reuse(&mut self, values: Vec<f32>) {
        self.assembler.reuse(values);
    }

    pub(crate) async fn close(mut self) {
        // The relay may be gone already.
        let _ = self.stream.close(None).await;
    }
}
