//! The room as it changes: the relay's event stream, and polling while that is down.

use std::time::Duration;

use leptos::prelude::*;
use unmask_wire::view::RoomView;
use wasm_bindgen::{JsCast, closure::Closure};
use wasm_bindgen_futures::spawn_local;
use web_sys::{EventSource, MessageEvent};

use super::api;

/// How often the room is asked for while the stream is down, and a closed stream opened again.
const POLL: Duration = Duration::from_secs(2);

/// How often the countdown is drawn.
const TICK: Duration = Duration::from_millis(250);

/// How the page hears of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Nothing has come yet.
    Opening,
    /// By the event stream.
    Live,
    /// By polling.
    Polling,
    /// Not at all: the relay does not answer.
    Lost,
}

/// The last state of the room.
#[derive(Clone, Copy)]
pub struct Feed {
    /// The room; `None` before the first answer.
    pub room: RwSignal<Option<RoomView>>,
    /// How it is heard of.
    pub link: RwSignal<Link>,
    /// When the round's deadline is, in milliseconds of `performance.now()`.
    deadline: RwSignal<Option<f64>>,
    now: RwSignal<f64>,
    source: StoredValue<Option<EventSource>, LocalStorage>,
}

impl Feed {
    /// Opens the stream; it is kept open for as long as the page lives.
    pub fn open() -> Self {
        let feed = Self {
            room: RwSignal::new(None),
            link: RwSignal::new(Link::Opening),
            deadline: RwSignal::new(None),
            now: RwSignal::new(0.0),
            source: StoredValue::new_local(None),
        };
        feed.connect();
        set_interval(move || feed.watch(), POLL);
        set_interval(move || feed.now.set(milliseconds()), TICK);
        feed
    }

    /// A part of the room that changes only when its value does.
    pub fn part<T: PartialEq + Clone + Send + Sync + 'static>(self, part: fn(&RoomView) -> T) -> Memo<Option<T>> {
        Memo::new(move |_| self.room.with(|room| room.as_ref().map(part)))
    }

    /// Seconds until the round's deadline, 0 when it has passed; `None` while no round runs.
    pub fn countdown(self) -> Option<u32> {
        let left = self.deadline.get()? - self.now.get();
        Some((left / 1000.0).ceil().max(0.0) as u32)
    }

    fn connect(self) {
        let Ok(source) = EventSource::new("/api/events") else {
            self.link.set(Link::Lost);
            return;
        };
        let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            let Some(text) = event.data().as_string() else { return };
            // What cannot be read comes from a relay of another build; polling then says so.
            if let Ok(room) = serde_json::from_str(&text) {
                self.take(room, Link::Live);
            }
        });
        source.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        let on_error = Closure::<dyn FnMut()>::new(move || {
            if self.link.get_untracked() == Link::Live {
                self.link.set(Link::Polling);
            }
        });
        source.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        on_message.forget();
        on_error.forget();
        self.source.set_value(Some(source));
    }

    /// Polls while nothing comes by the stream, and opens a stream that the browser has given up.
    fn watch(self) {
        if self.link.get_untracked() == Link::Live {
            return;
        }
        let is_given_up = self
            .source
            .with_value(|source| source.as_ref().is_none_or(|source| source.ready_state() == EventSource::CLOSED));
        if is_given_up {
            self.connect();
        }
        spawn_local(async move {
            match api::room().await {
                Ok(room) if self.link.get_untracked() != Link::Live => self.take(room, Link::Polling),
                Ok(_) => {}
                Err(_) => self.link.set(Link::Lost),
            }
        });
    }

    fn take(self, room: RoomView, link: Link) {
        let now = milliseconds();
        self.now.set(now);
        self.deadline.set(room.deadline_seconds.map(|seconds| now + f64::from(seconds) * 1000.0));
        if self.link.get_untracked() != link {
            self.link.set(link);
        }
        self.room.set(Some(room));
    }
}

fn milliseconds() -> f64 {
    window().performance().map_or_else(js_sys::Date::now, |clock| clock.now())
}
