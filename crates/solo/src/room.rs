//! The room's host: requests, frames and time go in; answers, frames and states come out.

mod around;

use std::{collections::BTreeMap, sync::Arc, task::Poll, time::Duration};

use anyhow::bail;
use bytes::Bytes;
use unmask_data::datasets::{
    DataSet, Source,
    generated::{Half, generate},
};
use unmask_recording::embed;
use unmask_room::{
    Accountant, Attackers, CandidatePicture, Classroom, Connection, ControlError, DataConfig, DeskNews, Guarantee,
    Hello, Input, JoinAddresses, Mechanism, Moment, Now, Opening, Parts, Peer, Pictures, Reply, RoomConfig, Snapshot,
    Waiting, longest_message,
};
use unmask_wire::{
    Assembler, ClientMessage, RelayMessage, WireError,
    channel::{Answer, Asker, Request},
    frames,
    view::{Control, Role, RoomView, SessionView},
};

use self::around::{Around, Effecting};
use crate::columns::Recorded;

/// Shortest time between two states that pages are told, as of a relay. Changes within it are merged.
const COALESCE: Duration = Duration::from_millis(200);
/// Longest time between two states while a round runs.
const BEAT: Duration = Duration::from_secs(1);
/// A client that sent nothing for this long is gone: a closed page says nothing on its channel. A client's worker pings
/// every ten seconds, and browsers slow down the timers of hidden pages to one a minute.
const SILENCE: Duration = Duration::from_secs(150);
/// Generated training and test pictures: each of ten seats has 200, and a test measures 500.
const GENERATED: (usize, usize) = (2_000, 500);

const JSON_TROUBLE: &str = "The room cannot be written as JSON.";

/// Why a room cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("The room cannot be opened: {0:#}.")]
pub struct OpenError(#[from] anyhow::Error);

/// What the room has to say.
#[derive(Debug, PartialEq)]
pub enum News {
    Answer(Asker, Answer),
    /// An order for the attacks' desk.
    Attack(Vec<u8>),
    /// A frame for a client.
    Frame {
        socket: u64,
        frame: Bytes,
    },
    /// The room has closed a client's socket.
    Closed {
        socket: u64,
    },
    /// The whole room as JSON, with its pictures in it.
    State(String),
}

/// A room, and what its clients have of it.
pub struct SoloRoom {
    room: Classroom,
    around: Arc<Around>,
    pictures: Arc<Pictures>,
    desk: DeskNews,
    sockets: BTreeMap<u64, Socket>,
    /// What was said last.
    told: Told,
    waiting: Vec<News>,
}

#[derive(Debug)]
struct Socket {
    is_own: bool,
    assembler: Assembler,
    bytes: u64,
    heard: Moment,
    /// Present once the room has admitted the client.
    admitted: Option<(Connection, Waiting)>,
}

#[derive(Debug, Default)]
struct Told {
    view: Option<Arc<RoomView>>,
    at: Moment,
}

impl SoloRoom {
    /// Opens a new lesson that nothing outlives. `randomness` must come from the operating system.
    ///
    /// # Errors
    /// If the settings do not go together.
    pub fn open(config: RoomConfig, randomness: [u8; 32], now: Now) -> Result<Self, OpenError> {
        let around = Arc::new(Around::new(longest_message(config.architecture)));
        let id = randomness.first_chunk().copied().unwrap_or_default();
        let opening = Opening::new(&config, id, now.unix);
        let pictures = Arc::<Pictures>::default();
        let orders = Arc::clone(&around);
        let (attackers, desk) = Attackers::elsewhere(config.attack_budget, move |order| orders.order(order));
        let parts = Parts {
            host: Box::new(Effecting(Arc::clone(&around))),
            attackers,
            pictures: Arc::clone(&pictures),
            evaluator: None,
            shadow: Some(Arc::new(Recorded)),
            loader: load,
            accountant: ACCOUNTANT,
            journal: None,
            archived: None,
            addresses: JoinAddresses::default(),
            federation: None,
            sockets_before: 0,
            randomness,
        };
        let room = Classroom::open(config, opening, parts, now)?;
        let (sockets, told, waiting) = (BTreeMap::new(), Told::default(), Vec::new());
        Ok(Self { room, around, pictures, desk, sockets, told, waiting })
    }

    /// Takes a page's request. Its answer comes with [`news`](Self::news), maybe after some steps.
    pub fn ask(&mut self, now: Now, asker: Asker, request: Request) {
        let Request { path, body } = request;
        let answered = match (path.as_str(), body) {
            ("/api/session", _) => json(&self.session()),
            ("/api/room", None) => match self.json(now.moment) {
                Some(json) => ok(json.into_bytes()),
                None => refusal(500, JSON_TROUBLE),
            },
            ("/api/control", Some(body)) => match serde_json::from_slice(&body) {
                Ok(Control::NewKey) => refusal(400, "A room in this browser has no key."),
                Ok(control) => {
                    let reply = self.reply(asker);
                    return self.take(now, Input::Control { control, reply });
                }
                Err(error) => refusal(400, &format!("The control cannot be read: {error}.")),
            },
            ("/api/candidate", Some(file)) => {
                let side = self.around.snapshot().view.architecture.side();
                match CandidatePicture::read(&file, side) {
                    Ok(picture) => {
                        let reply = self.reply(asker);
                        return self.take(now, Input::Candidate { picture, reply });
                    }
                    Err(reason) => refusal(400, &format!("The picture cannot be used: {reason}.")),
                }
            }
            _ => refusal(404, "A room in this browser does not have this."),
        };
        self.waiting.push(News::Answer(asker, answered));
    }

    /// Tells pages the whole room with the next news, changed or not: one has just begun to watch.
    pub fn watch(&mut self) {
        self.told.view = None;
    }

    /// Opens a socket of this number. `is_own` says that a robot of this room is at its other end.
    pub fn connect(&mut self, now: Now, socket: u64, is_own: bool) {
        let assembler = Assembler::new(self.around.longest());
        self.sockets.insert(socket, Socket { is_own, assembler, bytes: 0, heard: now.moment, admitted: None });
    }

    /// Receives a frame on a socket. An invalid one closes it.
    pub fn receive(&mut self, now: Now, socket: u64, frame: &[u8]) {
        let longest = self.around.longest();
        let Some(open) = self.sockets.get_mut(&socket) else { return };
        open.heard = now.moment;
        open.bytes += frame.len() as u64;
        open.assembler.set_limit(longest);
        let read = open.assembler.push::<ClientMessage>(frame);
        let bytes = if matches!(read, Ok(None)) { 0 } else { std::mem::take(&mut open.bytes) };
        let connection = open.admitted.as_ref().map(|(connection, _)| *connection);
        match (read, connection) {
            (Ok(None), _) => {}
            (Ok(Some((message, values))), Some(connection)) => {
                self.take(now, Input::Message { connection, message, values, bytes, done: Reply::new(|()| true) });
            }
            (Ok(Some((message, _))), None) => match Hello::of(message, Peer::default(), u32::MAX, open.is_own) {
                Some(hello) => self.admit(now, socket, hello),
                None => self.turn_away(now, socket, "the first message was not a hello".to_owned()),
            },
            (Err(error), None) => self.turn_away(now, socket, error.to_string()),
            (Err(error), Some(connection)) => {
                self.take(now, Input::Misbehaved { connection, reason: error.to_string() });
            }
        }
    }

    /// Closes a socket from the client's side.
    pub fn close(&mut self, now: Now, socket: u64) {
        self.leave(now, socket, None);
    }

    /// Does what is due.
    pub fn work(&mut self, now: Now) {
        // A robot says nothing while the room is paused.
        let silent = |socket: &Socket| !socket.is_own && now.moment - socket.heard >= SILENCE;
        let gone: Vec<u64> =
            self.sockets.iter().filter(|(_, socket)| silent(socket)).map(|(number, _)| *number).collect();
        for socket in gone {
            self.leave(now, socket, Some(format!("no sign of life for {} s", SILENCE.as_secs())));
            self.waiting.push(News::Closed { socket });
        }
        self.room.work(now);
    }

    /// Does the next piece of slow work that the room began. Returns whether there was one.
    pub fn step(&mut self, clock: &dyn Fn() -> Now) -> bool {
        let Some(work) = self.around.next_work() else { return false };
        for input in around::run(work, clock) {
            self.take(clock(), input);
        }
        true
    }

    /// Takes what the attacks' desk says.
    pub fn attacked(&mut self, now: Now, message: &[u8]) {
        match self.desk.hear(message) {
            Ok(reports) => reports.into_iter().for_each(|report| self.take(now, Input::Attacked(report))),
            Err(error) => self.say(now, format!("The attacks are not heard: {error}.")),
        }
    }

    /// When there is something to do or to say without anything arriving.
    pub fn next_due(&self) -> Option<Moment> {
        let people = self.sockets.values().filter(|socket| !socket.is_own);
        let silence = people.map(|socket| socket.heard + SILENCE).min();
        [self.room.next_due(), self.state_due(), silence].into_iter().flatten().min()
    }

    /// Takes what there is to say, oldest first.
    pub fn news(&mut self, now: Now) -> Vec<News> {
        let mut news = std::mem::take(&mut self.waiting);
        news.extend(self.around.answers().into_iter().map(|(asker, answer)| News::Answer(asker, answer)));
        news.extend(self.around.orders().into_iter().map(News::Attack));
        let mut ended = Vec::new();
        for (&socket, open) in &self.sockets {
            let Some((_, waiting)) = &open.admitted else { continue };
            loop {
                match waiting.try_next() {
                    Poll::Ready(Some(message)) => {
                        // This fails only for overlong strings, which the room shortens.
                        let frames = message.into_frames().into_iter().flatten();
                        news.extend(frames.map(|frame| News::Frame { socket, frame }));
                    }
                    Poll::Ready(None) => {
                        ended.push(socket);
                        break;
                    }
                    Poll::Pending => break,
                }
            }
        }
        for socket in ended {
            self.sockets.remove(&socket);
            news.push(News::Closed { socket });
        }
        if self.state_due().is_some_and(|due| due <= now.moment) {
            self.told = Told { view: Some(self.around.snapshot().view), at: now.moment };
            news.extend(self.json(now.moment).map(News::State));
        }
        news
    }

    /// The classes with which clients label their photographs; empty for the usual words.
    pub fn classes(&self) -> Vec<String> {
        self.around.snapshot().session().classes
    }

    /// Says a line to the class.
    pub fn say(&mut self, now: Now, line: String) {
        self.take(now, Input::Recorded(line));
    }

    fn take(&mut self, now: Now, input: Input) {
        self.room.take(now, input);
    }

    fn admit(&mut self, now: Now, socket: u64, hello: Hello) {
        let (reply, admission) = around::kept();
        self.take(now, Input::Hello { hello, reply });
        match admission.take() {
            Some(Ok(admitted)) => {
                if let Some(open) = self.sockets.get_mut(&socket) {
                    open.admitted = Some(admitted);
                }
            }
            Some(Err(reason)) => self.say_goodbye(socket, &reason.to_string()),
            None => self.say_goodbye(socket, "the room did not answer"),
        }
    }

    fn turn_away(&mut self, now: Now, socket: u64, reason: String) {
        self.say_goodbye(socket, &reason);
        self.take(now, Input::TurnedAway { count: 1, reason });
    }

    /// Closes a socket of a client that is not in the room.
    fn say_goodbye(&mut self, socket: u64, reason: &str) {
        self.sockets.remove(&socket);
        self.waiting.extend(goodbye(reason).unwrap_or_default().into_iter().map(|frame| News::Frame { socket, frame }));
        self.waiting.push(News::Closed { socket });
    }

    fn leave(&mut self, now: Now, socket: u64, reason: Option<String>) {
        let open = self.sockets.remove(&socket);
        if let Some((connection, _)) = open.and_then(|open| open.admitted) {
            self.take(now, Input::Left { connection, reason });
        }
    }

    fn reply(&self, asker: Asker) -> unmask_room::Answer {
        let around = Arc::clone(&self.around);
        Reply::new(move |outcome: Result<(), ControlError>| {
            let answer = match outcome {
                Ok(()) => Answer { status: 204, body: Vec::new() },
                Err(reason) => refusal(400, &reason.to_string()),
            };
            around.answer(asker, answer);
            true
        })
    }

    /// Who opens a room in a browser is its teacher.
    fn session(&self) -> SessionView {
        SessionView { role: Some(Role::Teacher), ..self.around.snapshot().session() }
    }

    fn state_due(&self) -> Option<Moment> {
        let Snapshot { view, deadline } = self.around.snapshot();
        if self.told.view.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &view)) {
            return Some(if self.told.view.is_none() { Moment::START } else { self.told.at + COALESCE });
        }
        deadline.map(|_| self.told.at + BEAT)
    }

    /// The room with its pictures in it: a page without a relay cannot fetch them.
    fn json(&self, now: Moment) -> Option<String> {
        let Snapshot { view, deadline } = self.around.snapshot();
        let mut view = RoomView::clone(&view);
        embed(&mut view, |address| self.pictures.get(address));
        Snapshot { view: Arc::new(view), deadline }.json(now).ok()
    }
}

impl std::fmt::Debug for SoloRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SoloRoom").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

fn ok(body: Vec<u8>) -> Answer {
    Answer { status: 200, body }
}

fn json(value: &SessionView) -> Answer {
    serde_json::to_vec(value).map_or_else(|_| refusal(500, JSON_TROUBLE), ok)
}

fn refusal(status: u16, sentence: &str) -> Answer {
    Answer { status, body: sentence.as_bytes().to_vec() }
}

fn goodbye(reason: &str) -> Result<Vec<Bytes>, WireError> {
    Ok(frames(&RelayMessage::Goodbye { reason: reason.to_owned() }, &[])?.into_iter().map(Bytes::from).collect())
}

/// A browser has no files, only generated pictures.
fn load(config: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
    if config.source != Source::Generated {
        bail!("a room in a browser has only generated pictures");
    }
    let (train, test) = GENERATED;
    let half = |half, count| generate(half, count, seed);
    let (train, test) = (half(Half::Train, train)?, half(Half::Test, test)?);
    Ok(DataSet { name: config.source.to_string(), train, test, left_out: Vec::new() })
}

/// The library that computes guarantees does not run in a browser.
const ACCOUNTANT: Accountant = |_: Mechanism, rounds, delta| Guarantee {
    rounds,
    epsilon: None,
    delta,
    sentence: "A room in a browser does not compute what this noise guarantees; a relay does.".to_owned(),
};
