//! A WebSocket whose events arrive on a channel, so that the worker is one loop.

use futures_channel::mpsc::UnboundedSender;
use js_sys::{ArrayBuffer, Uint8Array};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{BinaryType, CloseEvent, Event as DomEvent, MessageEvent, WebSocket};

/// What a socket reports. `serial` tells the events of an old socket from those of its successor.
pub enum SocketEvent {
    /// Open for sending.
    Open,
    /// One binary frame.
    Frame(Vec<u8>),
    /// Closed, or never opened.
    Closed,
}

/// An open or opening socket; closed when dropped.
pub struct Socket {
    socket: WebSocket,
    // The browser calls these until the socket is gone.
    _open: Closure<dyn FnMut(DomEvent)>,
    _message: Closure<dyn FnMut(MessageEvent)>,
    _close: Closure<dyn FnMut(CloseEvent)>,
}

impl Socket {
    /// Begins to open `address`; what follows arrives on `events` with `serial`.
    ///
    /// # Errors
    /// If the browser refuses the address at once.
    pub fn open(address: &str, serial: u32, events: UnboundedSender<(u32, SocketEvent)>) -> Result<Self, JsValue> {
        let socket = WebSocket::new(address)?;
        socket.set_binary_type(BinaryType::Arraybuffer);
        // A closed channel means that the worker is stopping; there is nobody left to tell.
        let send = move |event| drop(events.unbounded_send((serial, event)));
        let on_open = send.clone();
        let open = Closure::<dyn FnMut(DomEvent)>::new(move |_| on_open(SocketEvent::Open));
        let on_message = send.clone();
        let message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            if let Ok(buffer) = event.data().dyn_into::<ArrayBuffer>() {
                on_message(SocketEvent::Frame(Uint8Array::new(&buffer).to_vec()));
            }
        });
        let close = Closure::<dyn FnMut(CloseEvent)>::new(move |_| send(SocketEvent::Closed));
        socket.set_onopen(Some(open.as_ref().unchecked_ref()));
        socket.set_onmessage(Some(message.as_ref().unchecked_ref()));
        socket.set_onclose(Some(close.as_ref().unchecked_ref()));
        Ok(Self { socket, _open: open, _message: message, _close: close })
    }

    /// Sends frames in order. A socket that is closing drops them; its `Closed` event follows.
    pub fn send(&self, frames: &[Vec<u8>]) {
        for frame in frames {
            if self.socket.send_with_u8_array(frame).is_err() {
                return;
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.socket.set_onopen(None);
        self.socket.set_onmessage(None);
        self.socket.set_onclose(None);
        // Closing a closed socket is no error worth telling.
        drop(self.socket.close());
    }
}
