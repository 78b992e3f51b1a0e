//! The socket to the relay: a WebSocket, or channels to a room in this browser.

use std::{future::poll_fn, pin::pin, rc::Rc};

use futures_channel::oneshot;
use futures_util::{FutureExt, SinkExt, StreamExt, future::select, stream::SplitSink};
use gloo_events::EventListener;
use gloo_net::websocket::{Message, futures::WebSocket};
use js_sys::{Math, Uint8Array};
use unmask_wire::channel::{CLOSED, OPEN, SCHEME, ToRoom, asking_channel, encode, socket_channel};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::{BroadcastChannel, MessageEvent};

pub enum SocketEvent {
    /// The socket is ready to send, or has failed, in which case [`Self::Closed`] follows.
    Open(Sink),
    Frame(Vec<u8>),
    /// The socket was closed or never opened.
    Closed,
}

/// Where frames go.
pub enum Sink {
    Web(SplitSink<WebSocket, Message>),
    Channel(Rc<BroadcastChannel>),
}

/// An open or opening socket. Dropping it closes it.
pub struct Socket {
    sink: Option<Sink>,
    _reader: Reader,
}

/// Dropping this ends the reading.
enum Reader {
    Web { _ends: oneshot::Sender<()> },
    Channel { channel: Rc<BroadcastChannel>, _listener: EventListener },
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Self::Channel { channel, .. } = self {
            post(channel, CLOSED);
            channel.close();
        }
    }
}

impl Socket {
    /// Starts opening `address` and reports events to `tell`.
    ///
    /// # Errors
    /// If the browser refuses the address immediately.
    pub fn open(address: &str, tell: impl Fn(SocketEvent) + 'static) -> Result<Self, String> {
        let reader = match address.strip_prefix(SCHEME) {
            Some(room) => open_channel(room, tell)?,
            None => open_web(address, tell)?,
        };
        Ok(Self { sink: None, _reader: reader })
    }

    pub fn opened(&mut self, sink: Sink) {
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
            match sink {
                Sink::Web(sink) => {
                    if !matches!(sink.send(Message::Bytes(frame)).now_or_never(), Some(Ok(()))) {
                        return;
                    }
                }
                Sink::Channel(channel) => post(channel, &frame),
            }
        }
    }
}

fn open_web(address: &str, tell: impl Fn(SocketEvent) + 'static) -> Result<Reader, String> {
    let mut socket = WebSocket::open(address).map_err(|error| error.to_string())?;
    let (ends, dropped) = oneshot::channel::<()>();
    spawn_local(async move {
        let read = async {
            // Ask the whole socket: a split sink accepts its first frame while the socket is still opening.
            let is_open = poll_fn(|context| socket.poll_ready_unpin(context)).await.is_ok();
            let (sink, mut stream) = socket.split();
            if is_open {
                tell(SocketEvent::Open(Sink::Web(sink)));
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
    Ok(Reader::Web { _ends: ends })
}

/// Asks the room to listen on a channel of its own for this socket.
fn open_channel(room: &str, tell: impl Fn(SocketEvent) + 'static) -> Result<Reader, String> {
    let refused = |error: JsValue| format!("{error:?}");
    let number = (Math::random() * 2f64.powi(52)) as u64;
    let channel = Rc::new(BroadcastChannel::new(&socket_channel(room, number)).map_err(refused)?);
    let own = Rc::clone(&channel);
    let listener = EventListener::new(&channel, "message", move |event| {
        let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
        let frame = Uint8Array::new(&event.data()).to_vec();
        tell(match frame.as_slice() {
            OPEN => SocketEvent::Open(Sink::Channel(Rc::clone(&own))),
            CLOSED => SocketEvent::Closed,
            _ => SocketEvent::Frame(frame),
        });
    });
    let asks = encode(&ToRoom::Connect { socket: number }).map_err(|error| error.to_string())?;
    let rooms = BroadcastChannel::new(&asking_channel(room)).map_err(refused)?;
    post(&rooms, &asks);
    rooms.close();
    Ok(Reader::Channel { channel, _listener: listener })
}

fn post(channel: &BroadcastChannel, bytes: &[u8]) {
    // This fails only for a closed channel.
    let _ = channel.post_message(&JsValue::from(Uint8Array::from(bytes)));
}
