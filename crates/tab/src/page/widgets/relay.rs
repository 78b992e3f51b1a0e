//! Where the pages' requests go: over HTTP to a relay, or over a channel to a room in this browser.

mod over_channel;
mod over_http;

use std::{cell::RefCell, rc::Rc};

use futures_util::future::LocalBoxFuture;
use unmask_wire::channel::{Answer, Request};
use unmask_words::say;

use self::{over_channel::OverChannel, over_http::OverHttp};

/// Takes a state of the room, as JSON.
pub type Tell = Rc<dyn Fn(&str)>;

/// What a page needs of a relay.
pub trait Relay {
    /// Makes a request.
    ///
    /// # Errors
    /// A sentence, if there is no answer.
    fn ask(&self, request: Request) -> LocalBoxFuture<'static, Result<Answer, String>>;

    /// Passes every state of the room from now on to `tell`, as JSON. It begins with the present one. `None` if the
    /// browser refuses.
    fn listen(&self, tell: Tell) -> Option<Box<dyn Listening>>;

    /// The address of the room's socket, for a trainer.
    fn socket(&self) -> String;

    /// The address of a student's page for the person at this device, if the room is in this browser alone.
    fn phone(&self) -> Option<String> {
        None
    }
}

/// An open or opening stream of states. Dropping it closes it.
pub trait Listening {
    fn state(&self) -> State;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Opening,
    Open,
    /// Only another stream can be open.
    Closed,
}

thread_local! {
    static RELAY: RefCell<Option<Rc<dyn Relay>>> = const { RefCell::new(None) };
}

/// Chooses the relay of this page. Call it once, before anything is asked. A page that plays a recording has none.
pub fn choose() {
    set(match OverChannel::of_this_page() {
        Some(channel) => Rc::new(channel),
        None => Rc::new(OverHttp),
    });
}

fn set(relay: Rc<dyn Relay>) {
    RELAY.with_borrow_mut(|known| *known = Some(relay));
}

#[cfg(test)]
pub fn choose_http() {
    set(Rc::new(OverHttp));
}

fn relay() -> Option<Rc<dyn Relay>> {
    RELAY.with_borrow(Option::clone)
}

/// Makes a request.
///
/// # Errors
/// A sentence, if there is no answer.
pub async fn ask(request: Request) -> Result<Answer, String> {
    match relay() {
        Some(relay) => relay.ask(request).await,
        None => Err(say::api::no_answer("no room")),
    }
}

/// See [`Relay::listen`].
pub fn listen(tell: impl Fn(&str) + 'static) -> Option<Box<dyn Listening>> {
    relay()?.listen(Rc::new(tell))
}

/// See [`Relay::socket`].
pub fn socket() -> String {
    relay().map(|relay| relay.socket()).unwrap_or_default()
}

/// See [`Relay::phone`].
pub fn phone() -> Option<String> {
    relay()?.phone()
}
