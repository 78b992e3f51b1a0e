//! The room's state over time: the relay's event stream, and polling while the stream is down.

use std::time::Duration;

use leptos::prelude::*;
use unmask_core::AttackMethod;
use unmask_wire::view::{AttackView, RoomView};
use wasm_bindgen_futures::spawn_local;

use super::{
    api, on_return,
    relay::{self, Listening, State},
    session::Session,
};

/// How often the stream is checked, and the room polled while it is down.
const POLL: Duration = Duration::from_secs(2);

/// A stream silent for this long, in milliseconds, is reopened: after a laptop has slept, a dead stream looks like one
/// on which nothing happens.
const SILENCE: f64 = 30_000.0;

/// How often the countdown is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// Where the room's state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Nothing has arrived.
    Opening,
    /// From the event stream.
    Live,
    Polling,
    /// From nowhere: the relay does not answer.
    Lost,
    /// From a recording, without a relay.
    Recorded,
}

/// The latest state of the room.
#[derive(Clone, Copy)]
pub struct Feed {
    /// `None` before the first answer.
    pub room: RwSignal<Option<RoomView>>,
    pub link: RwSignal<Link>,
    /// The round's deadline, in milliseconds of `performance.now()`.
    deadline: RwSignal<Option<f64>>,
    now: RwSignal<f64>,
    session: Session,
    /// When the stream was opened or last delivered something, on the same clock.
    heard: StoredValue<f64>,
    source: StoredValue<Option<Box<dyn Listening>>, LocalStorage>,
}

impl Feed {
    /// A feed for a recorded lesson. It shows what [`show`](Self::show) gives it and contacts no relay.
    pub fn recorded() -> Self {
        Self::new(Session::of_watcher(), Link::Recorded)
    }

    pub fn show(self, room: RoomView) {
        self.take(room, Link::Recorded);
    }

    fn new(session: Session, link: Link) -> Self {
        Self {
            room: RwSignal::new(None),
            link: RwSignal::new(link),
            deadline: RwSignal::new(None),
            now: RwSignal::new(0.0),
            session,
            heard: StoredValue::new(0.0),
            source: StoredValue::new_local(None),
        }
    }

    /// Opens the stream once the relay lets this page watch, and keeps it open as long as it does.
    pub fn open(session: Session) -> Self {
        let feed = Self::new(session, Link::Opening);
        Effect::new(move |_| {
            if session.may_watch() {
                feed.connect();
            } else {
                feed.source.set_value(None);
            }
        });
        on_return(move || feed.connect());
        set_interval(move || feed.watch(), POLL);
        set_interval(move || feed.now.set(milliseconds()), TICK);
        feed
    }

    /// A part of the room that changes only when its value does.
    pub fn part<T: PartialEq + Send + Sync + 'static>(
        self,
        part: impl Fn(&RoomView) -> T + Send + Sync + 'static,
    ) -> Memo<Option<T>> {
        self.optional(move |room| Some(part(room)))
    }

    /// As [`part`](Self::part), for a part that the room may lack.
    pub fn optional<T: PartialEq + Send + Sync + 'static>(
        self,
        part: impl Fn(&RoomView) -> Option<T> + Send + Sync + 'static,
    ) -> Memo<Option<T>> {
        Memo::new(move |_| self.room.with(|room| room.as_ref().and_then(&part)))
    }

    pub fn attack(self, method: AttackMethod) -> Memo<Option<AttackView>> {
        self.optional(move |room| room.attacks.iter().find(|attack| attack.attack == method).cloned())
    }

    /// Seconds until the round's deadline, 0 once it has passed; `None` while no round runs.
    pub fn countdown(self) -> Option<u32> {
        let left = self.deadline.get()? - self.now.get();
        Some((left / 1000.0).ceil().max(0.0) as u32)
    }

    /// Opens a stream in place of the last one. It starts with the whole room.
    fn connect(self) {
        if !untrack(|| self.session.may_watch()) {
            return;
        }
        self.heard.set_value(milliseconds());
        let opened = relay::listen(move |text| {
            self.heard.set_value(milliseconds());
            // An unreadable state comes from a relay of another build; polling then reports it.
            if let Ok(room) = serde_json::from_str(text) {
                self.take(room, Link::Live);
            }
        });
        if opened.is_none() {
            self.link.set(Link::Lost);
            return;
        }
        self.source.set_value(opened);
    }

    /// Polls while the stream is down, and reopens one that is silent or that the browser has closed. It never stops,
    /// so that a relay that returns is found within moments.
    fn watch(self) {
        if !untrack(|| self.session.may_watch()) {
            return;
        }
        let state = self.source.with_value(|source| source.as_ref().map_or(State::Closed, |source| source.state()));
        if state == State::Closed || milliseconds() - self.heard.get_value() > SILENCE {
            self.connect();
        }
        match (self.link.get_untracked(), state) {
            (Link::Live, State::Open) => return,
            (Link::Live, _) => self.link.set(Link::Polling),
            _ => {}
        }
        spawn_local(async move {
            match api::room().await {
                Ok(Some(room)) if self.link.get_untracked() != Link::Live => self.take(room, Link::Polling),
                Ok(Some(_)) => {}
                // A relay with a new lesson does not know this page; the session then says so.
                Ok(None) => {
                    self.link.set(Link::Lost);
                    self.session.check();
                }
                Err(_) => self.link.set(Link::Lost),
            }
        });
    }

    /// Fetches the room as it is now: the stream merges changes and lags behind.
    pub async fn refresh(self) {
        if let Ok(Some(room)) = api::room().await {
            self.take(room, self.link.get_untracked());
        }
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

/// A clock that never runs backwards.
pub fn milliseconds() -> f64 {
    window().performance().map_or_else(js_sys::Date::now, |clock| clock.now())
}
