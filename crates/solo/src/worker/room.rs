//! The room's worker.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, select},
};
use gloo_events::EventListener;
use gloo_timers::future::sleep;
use js_sys::Array;
use unmask_wire::channel::{self, CLOSED, FromRoom, OPEN, ToRoom, asking_channel, socket_channel};
use wasm_bindgen_futures::spawn_local;
use web_sys::{BroadcastChannel, UrlSearchParams};

use super::{
    ATTACKS, ROBOTS,
    beside::{Beside, FromRobots, READY, ToRobots},
    bytes_of,
    clock::Clock,
    fresh, post,
};
use crate::{News, Setting, SoloRoom};

/// The number of the first robot's socket. Those of pages are random and below.
const ROBOTS_SOCKETS: u64 = 1 << 60;

enum Event {
    Told(ToRoom),
    /// What arrived on the channel of a socket.
    Arrived {
        socket: u64,
        bytes: Vec<u8>,
    },
    Robots(Vec<u8>),
    Attacks(Vec<u8>),
    /// A worker beside the room cannot run, or broke down.
    Stopped(&'static str),
}

/// The channel of a client that is not a robot.
struct Phone {
    channel: BroadcastChannel,
    _listener: EventListener,
}

struct Host {
    name: String,
    channel: BroadcastChannel,
    clock: Clock,
    room: SoloRoom,
    robots: Beside,
    attacks: Beside,
    phones: BTreeMap<u64, Phone>,
    /// The number of each page's last request. A page repeats its requests when it hears that the room has opened.
    asked: BTreeMap<u64, u32>,
    events: UnboundedSender<Event>,
}

/// Opens the room of this name with the settings of a query.
pub(super) fn start(name: &str, query: &str) {
    let (Ok(pages), Ok(asks)) = (BroadcastChannel::new(name), BroadcastChannel::new(&asking_channel(name))) else {
        web_sys::console::error_1(&"this browser has no BroadcastChannel".into());
        return;
    };
    fail_when_it_panics(name.to_owned());
    match open(name, query, &pages, &asks) {
        Ok((host, inbox)) => {
            tell(&pages, &FromRoom::Opened);
            spawn_local(host.run(inbox));
        }
        Err(reason) => {
            // A page that comes later hears it too.
            let channel = pages.clone();
            let said = reason.clone();
            EventListener::new(&asks, "message", move |_| tell(&channel, &FromRoom::Failed(said.clone()))).forget();
            tell(&pages, &FromRoom::Failed(reason));
        }
    }
}

/// A page would wait for ever.
fn fail_when_it_panics(name: String) {
    std::panic::set_hook(Box::new(move |panic| {
        if let Ok(pages) = BroadcastChannel::new(&name) {
            tell(&pages, &FromRoom::Failed(format!("The room broke down; reload the page ({panic}).")));
        }
        web_sys::console::error_1(&panic.to_string().into());
    }));
}

fn open(
    name: &str,
    query: &str,
    pages: &BroadcastChannel,
    asks: &BroadcastChannel,
) -> Result<(Host, UnboundedReceiver<Event>), String> {
    let query = UrlSearchParams::new_with_str(query).map_err(|error| format!("{error:?}"))?;
    let Setting { config, robots, answers, device } = Setting::read(parts(&query))?;
    let clock = Clock::start();
    let room = SoloRoom::open(config, fresh()?, clock.now()).map_err(|error| error.to_string())?;
    let (events, inbox) = unbounded();
    let told = events.clone();
    EventListener::new(asks, "message", move |event| {
        if let Ok(message) = channel::decode(&bytes_of(event)) {
            // The receiver lives as long as the worker.
            drop(told.unbounded_send(Event::Told(message)));
        }
    })
    .forget();
    let start = |name: &'static str, said: fn(Vec<u8>) -> Event| {
        let (heard, stopped) = (events.clone(), events.clone());
        let hear = move |bytes| drop(heard.unbounded_send(said(bytes)));
        Beside::start(name, hear, move || drop(stopped.unbounded_send(Event::Stopped(name))))
    };
    let mut host = Host {
        name: name.to_owned(),
        channel: pages.clone(),
        clock,
        robots: start(ROBOTS, Event::Robots)?,
        attacks: start(ATTACKS, Event::Attacks)?,
        phones: BTreeMap::new(),
        asked: BTreeMap::new(),
        room,
        events: events.clone(),
    };
    let classes = host.room.classes();
    let photographs = robots.into_iter().map(str::to_owned).collect();
    host.tell_robots(&ToRobots::Begin { photographs, seed: answers, classes, device });
    Ok((host, inbox))
}

fn parts(query: &UrlSearchParams) -> Vec<(String, String)> {
    let pairs = Array::from(query);
    let text = |pair: &Array, place| pair.get(place).as_string().unwrap_or_default();
    pairs.iter().map(|pair| Array::from(&pair)).map(|pair| (text(&pair, 0), text(&pair, 1))).collect()
}

impl Host {
    async fn run(mut self, mut inbox: UnboundedReceiver<Event>) {
        loop {
            while let Some(event) = inbox.next().now_or_never() {
                let Some(event) = event else { return };
                self.hear(event);
            }
            self.room.work(self.clock.now());
            self.speak();
            let clock = self.clock;
            if self.room.step(&|| clock.now()) {
                self.room.work(self.clock.now());
                self.speak();
                // Lets the browser deliver what has arrived.
                sleep(Duration::ZERO).await;
                continue;
            }
            let event = match self.room.next_due() {
                None => inbox.next().await,
                Some(due) => {
                    let wait = due - self.clock.now().moment;
                    match select(inbox.next(), pin!(sleep(wait))).await {
                        Either::Left((event, _)) => event,
                        Either::Right(_) => continue,
                    }
                }
            };
            let Some(event) = event else { return };
            self.hear(event);
        }
    }

    fn hear(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Told(ToRoom::Ask(asker, request)) => {
                let last = self.asked.entry(asker.page).or_default();
                if asker.number > *last {
                    *last = asker.number;
                    self.room.ask(now, asker, request);
                }
            }
            Event::Told(ToRoom::Watch) => self.room.watch(),
            Event::Told(ToRoom::Connect { socket }) => self.connect(socket),
            Event::Arrived { socket, bytes } if bytes == CLOSED => {
                self.phones.remove(&socket);
                self.room.close(now, socket);
            }
            Event::Arrived { socket, bytes } => self.room.receive(now, socket, &bytes),
            Event::Robots(bytes) if bytes == READY => self.robots.is_ready(),
            Event::Robots(bytes) => match channel::decode(&bytes) {
                Ok(FromRobots::Connect { robot }) => self.room.connect(now, socket_of(robot), true),
                Ok(FromRobots::Frame { robot, frame }) => self.room.receive(now, socket_of(robot), &frame),
                Ok(FromRobots::Failed(reason)) => {
                    self.room.say(now, format!("The robots take no part: {reason}."));
                }
                Err(error) => self.room.say(now, format!("The robots are not heard: {error}.")),
            },
            Event::Attacks(bytes) if bytes == READY => self.attacks.is_ready(),
            Event::Attacks(bytes) => self.room.attacked(now, &bytes),
            Event::Stopped(name) => {
                let line = format!("The worker of the {name} has stopped. Reload the page to begin another lesson.");
                self.room.say(now, line);
            }
        }
    }

    fn connect(&mut self, socket: u64) {
        let Ok(channel) = BroadcastChannel::new(&socket_channel(&self.name, socket)) else { return };
        let arrived = self.events.clone();
        let listener = EventListener::new(&channel, "message", move |event| {
            drop(arrived.unbounded_send(Event::Arrived { socket, bytes: bytes_of(event) }));
        });
        post(&channel, OPEN);
        self.phones.insert(socket, Phone { channel, _listener: listener });
        self.room.connect(self.clock.now(), socket, false);
    }

    /// Passes on what the room has to say.
    fn speak(&mut self) {
        for news in self.room.news(self.clock.now()) {
            match news {
                News::Answer(asker, answer) => tell(&self.channel, &FromRoom::Answer(asker, answer)),
                News::Attack(order) => self.attacks.tell(order),
                News::State(json) => tell(&self.channel, &FromRoom::State(json)),
                News::Frame { socket, frame } => match robot_of(socket) {
                    Some(robot) => self.tell_robots(&ToRobots::Frame { robot, frame: frame.into() }),
                    None => {
                        if let Some(phone) = self.phones.get(&socket) {
                            post(&phone.channel, &frame);
                        }
                    }
                },
                News::Closed { socket } => match robot_of(socket) {
                    Some(robot) => self.tell_robots(&ToRobots::Closed { robot }),
                    None => {
                        if let Some(phone) = self.phones.remove(&socket) {
                            post(&phone.channel, CLOSED);
                            phone.channel.close();
                        }
                    }
                },
            }
        }
    }

    fn tell_robots(&mut self, message: &ToRobots) {
        if let Ok(bytes) = channel::encode(message) {
            self.robots.tell(bytes);
        }
    }
}

fn socket_of(robot: usize) -> u64 {
    ROBOTS_SOCKETS + robot as u64
}

fn robot_of(socket: u64) -> Option<usize> {
    usize::try_from(socket.checked_sub(ROBOTS_SOCKETS)?).ok()
}

fn tell(pages: &BroadcastChannel, message: &FromRoom) {
    if let Ok(bytes) = channel::encode(message) {
        post(pages, &bytes);
    }
}
