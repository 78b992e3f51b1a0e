//! A way to the relay that can be lost.

use std::{future::pending, net::Ipv4Addr};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Carries connections to the relay from an address of its own, until the address changes.
pub struct Line {
    port: u16,
    to: u16,
    /// How often the address has changed.
    address: watch::Sender<u8>,
    carrier: JoinHandle<()>,
}

impl Line {
    /// A line to this port of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let own = listener.local_addr().expect("a bound port").port();
        let (address, addresses) = watch::channel(0);
        let carrier = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(carry(stream, port, addresses.clone()));
            }
        });
        Self { port: own, to: port, address, carrier }
    }

    /// The same link over this line.
    pub fn through(&self, link: &str) -> String {
        link.replacen(&format!(":{}", self.to), &format!(":{}", self.port), 1)
    }

    /// From here on the device has another address: what was open stays open, and nothing comes on it any more.
    pub fn change_address(&self) {
        self.address.send_modify(|address| *address += 1);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(mut stream: TcpStream, port: u16, mut addresses: watch::Receiver<u8>) {
    let address = *addresses.borrow_and_update();
    let socket = TcpSocket::new_v4().expect("a socket");
    // Linux alone takes every address of the loopback network.
    if cfg!(target_os = "linux") {
        socket.bind((Ipv4Addr::new(127, 0, 0, 2 + address), 0).into()).expect("an address of this machine");
    }
    let Ok(mut relay) = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut stream, &mut relay) => {}
        _ = addresses.changed() => pending().await,
    }
}
