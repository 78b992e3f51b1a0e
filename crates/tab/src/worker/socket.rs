//! The socket to the relay.

use std::{future::poll_fn, pin::pin};

use futures_channel::oneshot;
use futures_util::{FutureExt, SinkExt, StreamExt, future::select, stream::SplitSink};
use gloo_net::websocket::{Message, futures::WebSocket};
use wasm_bindgen_futures::spawn_local;

pub enum SocketEvent {
    /// The socket is ready to send, or has failed, in which case [`Self::Closed`] follows.
    Open(SplitSink<WebSocket, Message>),
    Frame(Vec<u8>),
    /// The socket was closed or never opened.
    Closed,
}

/// An open or opening socket. Dropping it closes it.
pub struct Socket {
    sink: Option<SplitSink<WebSocket, Message>>,
    // Dropping this ends the reading task.
    _reader: oneshot::Sender<()>,
}

impl Socket {
    /// Starts opening `address` and reports events to `tell`.
    ///
    /// # Errors
    /// If the browser refuses the address immediately.
    pub fn open(address: &str, tell: impl Fn(SocketEvent) + 'static) -> Result<Self, String> {
        let mut socket = WebSocket::open(address).map_err(|error| error.to_string())?;
        let (reader, dropped) = oneshot::channel::<()>();
        spawn_local(async move {
            let read = async {
                // Ask the whole socket: a split sink accepts its first frame while the socket is still opening.
                let is_open = poll_fn(|context| socket.poll_ready_unpin(context)).await.is_ok();
                let (sink, mut stream) = socket.split();
                if is_open {
                    tell(SocketEvent::Open(sink));
                }
                while let Some(Ok(message)) = stream.next().await {
                    if let Message::Bytes(frame) = message {
                        tell(SocketEvent::Frame(frame));
                    }
                }
                tell(SocketEvent::Closed);
            };
            select(pin!(read), dropped).await;
        });
        Ok(Self { sink: None, _reader: reader })
    }

    pub fn opened(&mut self, sink: SplitSink<WebSocket, Message>) {
        self.sink = Some(sink);
    }

    /// Whether the socket has opened; it may have closed since.
    pub fn has_opened(&self) -> bool {
        self.sink.is_some()
    }

    /// Gives frames to the browser in order, before any other task runs. A socket that is not open drops them.
    pub fn send(&mut self, frames: Vec<Vec<u8>>) {
        let Some(sink) = &mut self.sink else { return };
        for frame in frames {
            if !matches!(sink.send(Message::Bytes(frame)).now_or_never(), Some(Ok(()))) {
                return;
            }
        }
    }
}
