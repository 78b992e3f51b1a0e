//! Servers that bear what strangers do to them.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use axum_server::Server;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpSocket;
use tracing::info;

use crate::{
    config::Limits,
    connection::{Gate, Refusals, Seats, available_descriptors},
};

/// File descriptors for all that is no connection: both ports, files that are read and written, threads that wait.
const OTHER_FILES: usize = 128;
/// Connections that may wait to be accepted; beyond them a client tries again after a second.
const BACKLOG: u32 = 1024;
/// Longest header of a request in bytes, and most of an answer that waits to be sent.
const HTTP1_BUFFER: usize = 64 * 1024;
/// Longest headers of a request over HTTP/2 in bytes.
const HTTP2_HEADERS: u32 = 16 * 1024;
/// Most requests at one time on one connection over HTTP/2.
const HTTP2_STREAMS: u32 = 32;

/// Listens on this address, without blocking. Needs a Tokio runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the standard library does: connections of an earlier relay may linger on the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// What connections pass on both ports.
#[derive(Debug, Clone)]
pub(crate) struct Gatekeeper {
    limits: Limits,
    seats: Seats,
    refusals: Refusals,
}

impl Gatekeeper {
    /// As many places as the limits say, and as this process may have files open: its limit is raised where it can be.
    pub(crate) fn new(limits: Limits, refusals: Refusals) -> Self {
        let wanted = limits.connections.saturating_add(OTHER_FILES);
        let files = available_descriptors(wanted);
        let most = files.map_or(limits.connections, |files| limits.connections.min(files.saturating_sub(OTHER_FILES)));
        let most = most.max(1);
        match files {
            Some(files) => info!("up to {most} connections at one time, with {files} files that may be open"),
            None => info!("up to {most} connections at one time"),
        }
        Self { limits, seats: Seats::new(most, limits.connections_for_one_address), refusals }
    }

    /// The same server behind the gate, with deadlines.
    pub(crate) fn guard<A>(&self, mut server: Server<SocketAddr, A>) -> Server<SocketAddr, Gate<A>> {
        let Limits { header, ping, write, .. } = self.limits;
        let builder = server.http_builder();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(header).max_buf_size(HTTP1_BUFFER);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(ping)
            .keep_alive_timeout(header)
            .max_concurrent_streams(HTTP2_STREAMS)
            .max_header_list_size(HTTP2_HEADERS);
        let (seats, refusals) = (self.seats.clone(), self.refusals.clone());
        server.map(|inner| Gate { inner, seats, refusals, header, write })
    }
}
