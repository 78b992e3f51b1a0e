//! A connection to the relay that can be lost.

use std::{future::pending, io, net::Ipv4Addr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Forwards connections to the relay from its own address, until the address changes.
pub struct Line {
    port: u16,
    to: u16,
    /// Number of changes of the address.
    address: watch::Sender<u8>,
    /// Whether data from the device is held back.
    held: watch::Sender<bool>,
    carrier: JoinHandle<()>,
}

impl Line {
    /// A line to this port on this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let own = listener.local_addr().expect("a bound port").port();
        let (address, addresses) = watch::channel(0);
        let (held, holds) = watch::channel(false);
        let carrier = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(carry(stream, port, addresses.clone(), holds.clone()));
            }
        });
        Self { port: own, to: port, address, held, carrier }
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
}

impl Drop for Line {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(mut device: TcpStream, port: u16, mut addresses: watch::Receiver<u8>, mut holds: watch::Receiver<bool>) {
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
