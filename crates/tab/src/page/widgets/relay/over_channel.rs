//! A room in a worker of this browser.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use futures_channel::oneshot;
use futures_util::{FutureExt, future::LocalBoxFuture};
use gloo_events::EventListener;
use js_sys::{Math, Reflect, Uint8Array};
use leptos::prelude::window;
use unmask_wire::channel::{Answer, Asker, FromRoom, Request, SCHEME, ToRoom, asking_channel, decode, encode};
use unmask_words::say;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{BroadcastChannel, MessageEvent, Worker};

use super::{Listening, Relay, State, Tell};
use crate::page::logic::sentence;

/// The property of the window with the name of the room's channel, which the document sets.
const ROOM: &str = "unmaskRoom";
/// The property with the room's worker, if this page has started it.
const WORKER: &str = "unmaskWorker";

/// The channel of this page.
pub struct OverChannel(Rc<Inner>);

struct Inner {
    name: String,
    /// Where the room speaks.
    channel: BroadcastChannel,
    /// Where it hears. No page hears what another one asks.
    asks: BroadcastChannel,
    page: u64,
    state: RefCell<Told>,
}

#[derive(Default)]
struct Told {
    /// The number of the last request.
    last: u32,
    /// The requests without an answer, in order.
    waiting: BTreeMap<u32, (Request, oneshot::Sender<Result<Answer, String>>)>,
    /// Who hears of the room's states.
    listener: Option<Tell>,
    /// Why there is no room, if there is none.
    failure: Option<String>,
}

impl OverChannel {
    /// `None` if the document names no room.
    pub fn of_this_page() -> Option<Self> {
        let name = Reflect::get(&window(), &ROOM.into()).ok()?.as_string()?;
        let channel = BroadcastChannel::new(&name).ok()?;
        let asks = BroadcastChannel::new(&asking_channel(&name)).ok()?;
        // A browser's random number has 52 bits.
        let page = (Math::random() * 2f64.powi(52)) as u64;
        let inner = Rc::new(Inner { name, channel, asks, page, state: RefCell::default() });
        let hears = Rc::clone(&inner);
        EventListener::new(&inner.channel, "message", move |event| hears.hear(event)).forget();
        let worker = Reflect::get(&window(), &WORKER.into()).ok();
        if let Some(worker) = worker.and_then(|worker| worker.dyn_into::<Worker>().ok()) {
            let fails = Rc::clone(&inner);
            let failed = move |event: &web_sys::Event| {
                // If a script cannot be fetched, the event has no message.
                let reason = Reflect::get(event, &"message".into()).ok().and_then(|message| message.as_string());
                fails.fail(say::trainer::stopped(reason.unwrap_or_default()));
            };
            EventListener::new(&worker, "error", failed).forget();
        }
        Some(Self(inner))
    }
}

impl Inner {
    fn hear(&self, event: &web_sys::Event) {
        let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
        match decode(&Uint8Array::new(&event.data()).to_vec()) {
            Ok(FromRoom::Opened) => {
                self.state.borrow_mut().failure = None;
                // The room did not hear what was said before.
                let (again, listens) = {
                    let state = self.state.borrow();
                    let again: Vec<_> =
                        state.waiting.iter().map(|(number, (request, _))| (*number, request.clone())).collect();
                    (again, state.listener.is_some())
                };
                again.into_iter().for_each(|(number, request)| self.post_request(number, request));
                if listens {
                    self.post(&ToRoom::Watch);
                }
            }
            Ok(FromRoom::Failed(reason)) => self.fail(reason),
            Ok(FromRoom::Answer(Asker { page, number }, answer)) if page == self.page => {
                let waiting = self.state.borrow_mut().waiting.remove(&number);
                if let Some((_, waiting)) = waiting {
                    // Nobody may wait any longer.
                    let _ = waiting.send(Ok(answer));
                }
            }
            Ok(FromRoom::Answer(..)) => {}
            Ok(FromRoom::State(json)) => {
                let listener = self.state.borrow().listener.clone();
                if let Some(tell) = listener {
                    tell(&json);
                }
            }
            Err(error) => self.fail(sentence(&error.to_string())),
        }
    }

    fn fail(&self, reason: String) {
        let waiting = {
            let mut state = self.state.borrow_mut();
            state.failure = Some(reason.clone());
            std::mem::take(&mut state.waiting)
        };
        for (_, sender) in waiting.into_values() {
            let _ = sender.send(Err(reason.clone()));
        }
    }

    fn post_request(&self, number: u32, request: Request) {
        self.post(&ToRoom::Ask(Asker { page: self.page, number }, request));
    }

    fn post(&self, message: &ToRoom) {
        if let Ok(bytes) = encode(message) {
            // This fails only for a closed channel.
            let _ = self.asks.post_message(&JsValue::from(Uint8Array::from(bytes.as_slice())));
        }
    }
}

impl Relay for OverChannel {
    fn ask(&self, request: Request) -> LocalBoxFuture<'static, Result<Answer, String>> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.0.state.borrow_mut();
            if let Some(reason) = state.failure.clone() {
                return async move { Err(reason) }.boxed_local();
            }
            state.last += 1;
            let number = state.last;
            state.waiting.insert(number, (request.clone(), sender));
            number
        };
        self.0.post_request(number, request);
        async move { answer.await.unwrap_or_else(|_| Err(say::api::no_answer("no room"))) }.boxed_local()
    }

    fn listen(&self, tell: Tell) -> Option<Box<dyn Listening>> {
        self.0.state.borrow_mut().listener = Some(tell);
        self.0.post(&ToRoom::Watch);
        Some(Box::new(Watching(Rc::clone(&self.0))))
    }

    fn socket(&self) -> String {
        format!("{SCHEME}{}", self.0.name)
    }

    fn phone(&self) -> Option<String> {
        Some(format!("phone.html?room={}", self.0.name))
    }
}

/// The room in the same browser does not break off.
struct Watching(Rc<Inner>);

impl Listening for Watching {
    fn state(&self) -> State {
        if self.0.state.borrow().failure.is_some() { State::Closed } else { State::Open }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gloo_timers::future::sleep;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    /// The other end of a page's channel, which keeps what it hears.
    struct Room {
        channel: BroadcastChannel,
        heard: Rc<RefCell<Vec<ToRoom>>>,
        _listener: EventListener,
    }

    impl Room {
        fn named(name: &str) -> (Self, OverChannel) {
            let channel = BroadcastChannel::new(name).expect("a channel");
            let asks = BroadcastChannel::new(&asking_channel(name)).expect("a channel");
            let heard = Rc::<RefCell<Vec<ToRoom>>>::default();
            let hears = Rc::clone(&heard);
            let listener = EventListener::new(&asks, "message", move |event| {
                let event: &MessageEvent = event.dyn_ref().expect("a message");
                hears.borrow_mut().push(decode(&Uint8Array::new(&event.data()).to_vec()).expect("of this build"));
            });
            Reflect::set(&window(), &ROOM.into(), &name.into()).expect("a window");
            let page = OverChannel::of_this_page().expect("a room");
            Reflect::set(&window(), &ROOM.into(), &JsValue::UNDEFINED).expect("a window");
            (Self { channel, heard, _listener: listener }, page)
        }

        fn says(&self, message: &FromRoom) {
            let bytes = encode(message).expect("short");
            self.channel.post_message(&Uint8Array::from(bytes.as_slice())).expect("an open channel");
        }

        async fn hears(&self, count: usize) -> Vec<ToRoom> {
            for _ in 0..200 {
                if self.heard.borrow().len() >= count {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
            self.heard.take()
        }
    }

    #[wasm_bindgen_test]
    async fn what_was_asked_before_the_room_opened_is_asked_again() {
        let (room, page) = Room::named("test-again");
        let answer = page.ask(Request::get("/api/session"));
        let first = room.hears(1).await;
        let [ToRoom::Ask(asker, _)] = first.as_slice() else { panic!("{first:?}") };
        room.says(&FromRoom::Opened);
        assert_eq!(room.hears(1).await, first);
        let said = Answer { status: 200, body: vec![7] };
        room.says(&FromRoom::Answer(Asker { page: asker.page + 1, ..*asker }, Answer { status: 500, body: vec![] }));
        room.says(&FromRoom::Answer(*asker, said.clone()));
        assert_eq!(answer.await, Ok(said));
    }

    #[wasm_bindgen_test]
    async fn what_another_page_asks_is_no_failure() {
        let (room, page) = Room::named("test-two");
        Reflect::set(&window(), &ROOM.into(), &"test-two".into()).expect("a window");
        let other = OverChannel::of_this_page().expect("a room");
        Reflect::set(&window(), &ROOM.into(), &JsValue::UNDEFINED).expect("a window");
        drop(other.ask(Request::get("/api/session")));
        assert_eq!(room.hears(1).await.len(), 1);
        let answer = page.ask(Request::get("/api/room"));
        let heard = room.hears(1).await;
        let [ToRoom::Ask(asker, _)] = heard.as_slice() else { panic!("{heard:?}") };
        let said = Answer { status: 200, body: vec![7] };
        room.says(&FromRoom::Answer(*asker, said.clone()));
        assert_eq!(answer.await, Ok(said));
    }

    #[wasm_bindgen_test]
    async fn states_reach_who_listens_and_a_failure_ends_all() {
        let (room, page) = Room::named("test-states");
        let states = Rc::<RefCell<Vec<String>>>::default();
        let hears = Rc::clone(&states);
        let listening = page.listen(Rc::new(move |state| hears.borrow_mut().push(state.to_owned()))).expect("a stream");
        assert_eq!((room.hears(1).await, listening.state()), (vec![ToRoom::Watch], State::Open));
        room.says(&FromRoom::State("{}".to_owned()));
        let answer = page.ask(Request::get("/api/room"));
        room.says(&FromRoom::Failed("It broke.".to_owned()));
        assert_eq!(answer.await, Err("It broke.".to_owned()));
        assert_eq!((states.take(), listening.state()), (vec!["{}".to_owned()], State::Closed));
        assert_eq!(page.ask(Request::get("/api/room")).await, Err("It broke.".to_owned()));
    }
}
