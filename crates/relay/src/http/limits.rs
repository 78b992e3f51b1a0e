//! Limits and deadlines of the HTTP servers.

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

/// File descriptors for everything but connections: both ports, open files, waiting threads.
const OTHER_FILES: usize = 128;
/// Connections that may wait to be accepted. Beyond this, a client retries after a second.
const BACKLOG: u32 = 1024;
/// Maximum size in bytes of a request's header, and of response data that waits to be sent.
const HTTP1_BUFFER: usize = 64 * 1024;
const HTTP2_HEADERS: u32 = 16 * 1024;
const HTTP2_STREAMS: u32 = 32;

/// Opens a non-blocking listener on this address. Needs a Tokio runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Like the standard library: connections of an earlier relay may linger on the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// The connection limits shared by both ports.
#[derive(Debug, Clone)]
pub(crate) struct Gatekeeper {
    limits: Limits,
    seats: Seats,
    refusals: Refusals,
}

impl Gatekeeper {
    /// Sets the number of places from the limits and from the number of files this process may open, which it raises if
    /// possible.
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

    /// Returns the server behind the gate, with deadlines.
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
