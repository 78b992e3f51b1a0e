//! A connection to the relay that can be lost, and tells what a device sends.

use std::{
    future::pending,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use unmask_wire::{Assembler, ClientMessage};

/// The bytes from the device, by connection.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<Vec<u8>>>>);

impl Sent {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards connections to the relay from its own address, until the address changes.
pub struct Line {
    port: u16,
    to: u16,
    /// Number of changes of the address.
    address: watch::Sender<u8>,
    /// Whether data from the device is held back.
    held: watch::Sender<bool>,
    /// Whether sockets are refused, while pages load.
    refusing: watch::Sender<bool>,
    sent: Sent,
    carrier: JoinHandle<()>,
}

impl Line {
    /// A line to this port on this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let own = listener.local_addr().expect("a bound port").port();
        let (address, addresses) = watch::channel(0);
        let (held, holds) = watch::channel(false);
        let (refusing, refusals) = watch::channel(false);
        let sent = Sent::default();
        let all = sent.clone();
        let carrier = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (addresses, holds, refusals) = (addresses.clone(), holds.clone(), refusals.clone());
                connections.spawn(carry(stream, port, addresses, holds, refusals, all.clone()));
            }
        });
        Self { port: own, to: port, address, held, refusing, sent, carrier }
    }

    pub fn through(&self, link: &str) -> String {
        link.replacen(&format!(":{}", self.to), &format!(":{}", self.port), 1)
    }

    /// Changes the device's address: open connections stay open, but nothing arrives on them any more.
    pub fn change_address(&self) {
        self.address.send_modify(|address| *address += 1);
    }

    /// Holds back data from the device, or releases it; data to the device always arrives.
    pub fn hold(&self, is_held: bool) {
        self.held.send_replace(is_held);
    }

    /// What the device has sent on its sockets, with the values of each message.
    pub fn messages(&self) -> Vec<(ClientMessage, Vec<f32>)> {
        self.sent.lock().iter().flat_map(|bytes| messages(bytes)).collect()
    }

    /// Refuses sockets while pages load, as a browser does that accepts a certificate for pages only.
    pub fn refuse_sockets(&self, is_refusing: bool) {
        self.refusing.send_replace(is_refusing);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(
    mut device: TcpStream,
    port: u16,
    mut addresses: watch::Receiver<u8>,
    mut holds: watch::Receiver<bool>,
    refusals: watch::Receiver<bool>,
    sent: Sent,
) {
    let number = {
        let mut sent = sent.lock();
        sent.push(Vec::new());
        sent.len() - 1
    };
    let address = *addresses.borrow_and_update();
    let socket = TcpSocket::new_v4().expect("a socket");
    // Only Linux accepts every address of the loopback network.
    if cfg!(target_os = "linux") {
        socket.bind((Ipv4Addr::new(127, 0, 0, 2 + address), 0).into()).expect("an address of this machine");
    }
    let Ok(mut relay) = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await else { return };
    let ((mut from_device, mut to_device), (mut from_relay, mut to_relay)) = (device.split(), relay.split());
    let up = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from_device.read(&mut bytes).await?;
            if count == 0 {
                return to_relay.shutdown().await;
            }
            if *refusals.borrow() && bytes[..count].starts_with(b"GET /ws ") {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            sent.lock()[number].extend_from_slice(&bytes[..count]);
            // Without the line, nothing can release the data.
            holds.wait_for(|is_held| !is_held).await.map_err(io::Error::other)?;
            to_relay.write_all(&bytes[..count]).await?;
        }
    };
    let down = async {
        copy(&mut from_relay, &mut to_device).await?;
        to_device.shutdown().await
    };
    tokio::select! {
        _ = async { tokio::try_join!(up, down) } => {}
        _ = addresses.changed() => pending().await,
    }
}

/// The messages in what a device sent on one connection; none unless that is a socket.
fn messages(bytes: &[u8]) -> Vec<(ClientMessage, Vec<f32>)> {
    const LAST: u8 = 0x80;
    const BINARY: u8 = 2;
    let head = bytes.windows(4).position(|part| part == b"\r\n\r\n").filter(|_| bytes.starts_with(b"GET /ws "));
    let Some(head) = head else { return Vec::new() };
    let (mut rest, mut assembler) = (&bytes[head + 4..], Assembler::new(usize::MAX));
    let (mut whole, mut messages) = (Vec::new(), Vec::new());
    while let Some((first, payload, after)) = frame(rest) {
        rest = after;
        // Control frames may come between the parts of a message.
        if first & 0x0f > BINARY {
            continue;
        }
        whole.extend(payload);
        if first & LAST != 0 {
            messages.extend(assembler.push(&std::mem::take(&mut whole)).expect("a client's message"));
        }
    }
    messages
}

/// Splits off a browser's frame (RFC 6455, section 5.2), if all of it is there: its first byte, and what it carries.
fn frame(bytes: &[u8]) -> Option<(u8, Vec<u8>, &[u8])> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match second & 0x7f {
        126 => rest.split_first_chunk().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?,
        127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest))?,
        length => (length.into(), rest),
    };
    let (mask, rest) = rest.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some((first, payload, rest))
}
