//! The socket to the relay.

use std::{future::poll_fn, pin::pin};

use futures_channel::oneshot;
use futures_util::{FutureExt, SinkExt, StreamExt, future::select, stream::SplitSink};
use gloo_net::websocket::{Message, futures::WebSocket};
use wasm_bindgen_futures::spawn_local;

/// What a socket reports.
pub enum SocketEvent {
    /// It takes frames, or has failed, which [`Self::Closed`] then says.
    Open(SplitSink<WebSocket, Message>),
    Frame(Vec<u8>),
    /// Closed, or never opened.
    Closed,
}

/// An open or opening socket; closed when dropped.
pub struct Socket {
    sink: Option<SplitSink<WebSocket, Message>>,
    // The task that reads ends with it.
    _reader: oneshot::Sender<()>,
}

impl Socket {
    /// Begins to open `address`, and tells what follows.
    ///
    /// # Errors
    /// If the browser refuses the address at once.
    pub fn open(address: &str, tell: impl Fn(SocketEvent) + 'static) -> Result<Self, String> {
        let mut socket = WebSocket::open(address).map_err(|error| error.to_string())?;
        let (reader, dropped) = oneshot::channel::<()>();
        spawn_local(async move {
            let read = async {
                // Asked of the whole socket: a split one's sink takes its first frame while the socket is still opening.
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

    /// Takes the sink of [`SocketEvent::Open`].
    pub fn opened(&mut self, sink: SplitSink<WebSocket, Message>) {
        self.sink = Some(sink);
    }

    /// Whether it has opened; it may have been closed since.
    pub fn has_opened(&self) -> bool {
        self.sink.is_some()
    }

    /// Hands frames to the browser in order, before any other task runs. A socket that is not open drops them.
    pub fn send(&mut self, frames: Vec<Vec<u8>>) {
        let Some(sink) = &mut self.sink else { return };
        for frame in frames {
            if !matches!(sink.send(Message::Bytes(frame)).now_or_never(), Some(Ok(()))) {
                return;
            }
        }
    }
}
