//! A room without a server, for tests, simulation and fuzzing. Frames reach it as they would from sockets; time passes,
//! the disk fills and the host stops only when told to.

mod attacking;
mod hearing;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, mem,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::AtomicUsize,
        mpsc::{self, Receiver},
    },
    task::Poll,
    time::Duration,
};

use anyhow::{Context, bail};
use unmask_attack::Searches;
use unmask_core::{Architecture, ModelState, TrainOn};
use unmask_data::datasets::{
    DataSet, Source,
    generated::{Half, generate},
};
use unmask_federation::GlobalModel;
use unmask_recording::{Recording, RecordingError};
use unmask_wire::{
    Assembler, ClientMessage, RelayMessage,
    view::{Control, RoomView},
};

use crate::{
    Accountant, Archive, Archived, Attackers, Classroom, Connection, DataConfig, DeviceId, Guarantee, Hello, Host,
    Input, JoinAddresses, Journal, Keeper, LastLesson, Mechanism, Moment, Now, Opening, OutboxMessage, Outside, Parts,
    Peer, Pictures, RecordingOrder, RecordingStore, Reply, RoomConfig, Saved, SharedDataSet, Size, Snapshot, Waiting,
    Work, Worker, longest_message,
};

/// The time of day at which a bench begins, in seconds since 1970.
const MORNING: u64 = 1_800_000_000;
/// Generated training and test pictures, far fewer than a relay generates.
const PICTURES: (usize, usize) = (100, 20);

/// A room, and everything around it.
pub struct Bench {
    config: RoomConfig,
    surroundings: Surroundings,
    room: Classroom,
    now: Now,
    outside: Arc<Around>,
    workers: Vec<Worker>,
    sockets: Vec<Option<Socket>>,
    /// What a relay says on sockets that it closes itself.
    farewells: BTreeMap<usize, String>,
    /// How much later an attack finds the clock at each look.
    look: Duration,
    /// Whether slow work, attacks and the disk wait until they are told to go on.
    is_lazy: bool,
}

/// What the room hands out.
#[derive(Debug, Default)]
struct Around {
    effects: Mutex<Effects>,
    pictures: Arc<Pictures>,
}

#[derive(Debug, Default)]
struct Effects {
    view: Arc<RoomView>,
    /// When the running round ends at the latest.
    deadline: Option<Moment>,
    work: VecDeque<Work>,
    /// The longest message of a client in bytes.
    limit: usize,
    now: Moment,
    /// Lines about the recording for the class.
    lines: Vec<String>,
}

#[derive(Debug)]
struct Socket {
    address: IpAddr,
    device: DeviceId,
    assembler: Assembler,
    bytes: u64,
    /// Present once the room has admitted the client.
    admitted: Option<(Connection, Waiting)>,
}

/// How a host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It writes down what is new.
    Orderly,
    Killed,
    /// The write under way is torn.
    PowerCut,
}

/// Where a host keeps the lesson and its recording.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens the disk for a host that starts at a time of day in seconds since 1970. Returns the lesson on it, and
    /// sentences that say what could not be read.
    ///
    /// # Errors
    /// If the disk cannot be used.
    fn start(&self, unix: u64) -> anyhow::Result<(Option<LastLesson>, Vec<String>)>;

    /// The journal of the host that started last.
    fn journal(&self) -> Box<dyn Journal>;

    /// Writes what waits to be written; returns what became of it.
    fn work(&self) -> Vec<Saved>;

    /// Ends the host. Unless it is orderly, the write under way stays unfinished.
    fn end(&self, end: End);

    /// The recording of the lesson that began then; deletes that of another.
    ///
    /// # Errors
    /// If it cannot be read.
    fn recording(&self, began: u64) -> Result<Option<Recording>, RecordingError>;

    /// Where the recording is kept.
    fn tape(&self) -> Box<dyn RecordingStore>;
}

/// What the room sent on a socket.
#[derive(Debug)]
pub enum Sent {
    Message(RelayMessage),
    /// A message followed by the model.
    Model(Arc<RelayMessage>, ModelState),
    Shard,
}

/// What is around a room.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The server of the federation that the room is in, if any.
    pub federation: Option<String>,
    /// The seed of the room's random numbers.
    pub seed: [u8; 32],
    /// Where the lesson is saved, if it is.
    pub disk: Option<Arc<dyn Disk>>,
    /// Whether the lesson is recorded, on the disk.
    pub is_recorded: bool,
    pub searches: Option<Arc<dyn Searches>>,
}

impl Bench {
    /// Opens a room: the lesson on the disk, or an empty one.
    ///
    /// # Errors
    /// Fails like [`Classroom::open`], or if the disk cannot be read.
    pub fn open(config: RoomConfig, surroundings: Surroundings) -> anyhow::Result<Self> {
        let now = Now { moment: Moment::START, unix: MORNING };
        let outside = Arc::<Around>::default();
        let (room, workers) = open(config.clone(), &surroundings, &outside, now)?;
        outside.lock().limit = longest_message(config.architecture);
        let (sockets, farewells, look) = (Vec::new(), BTreeMap::new(), Duration::ZERO);
        Ok(Self { config, surroundings, room, now, outside, workers, sockets, farewells, look, is_lazy: false })
    }

    /// Ends the host, and starts it again from its disk. Every socket breaks.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn restart(&mut self, end: End) -> anyhow::Result<()> {
        if end == End::Orderly {
            self.room.close(self.now);
        }
        if let Some(disk) = &self.surroundings.disk {
            disk.end(end);
        }
        self.sockets.iter_mut().for_each(|socket| *socket = None);
        self.surroundings.seed[0] = self.surroundings.seed[0].wrapping_add(1);
        self.outside = Arc::default();
        // A lesson is known by the second in which it began.
        self.set(self.now.moment + Duration::from_secs(1));
        (self.room, self.workers) = open(self.config.clone(), &self.surroundings, &self.outside, self.now)?;
        self.outside.lock().limit = longest_message(self.room.model().architecture);
        Ok(())
    }

    /// Lets slow work, attacks and the disk wait for [`work`](Self::work), [`attack`](Self::attack) and
    /// [`finish_writing`](Self::finish_writing), or no longer.
    pub fn be_lazy(&mut self, is_lazy: bool) {
        self.is_lazy = is_lazy;
    }

    /// Changes the time of day, as people may, without any time passing.
    pub fn set_time_of_day(&mut self, unix: u64) {
        self.now.unix = unix;
    }

    pub fn model(&self) -> &Arc<GlobalModel> {
        self.room.model()
    }

    /// How much the room holds of what strangers can add to.
    pub fn sizes(&self) -> impl Iterator<Item = Size> {
        self.room.sizes().into_iter()
    }

    /// Opens a socket of a browser of its own, and returns its number.
    pub fn connect(&mut self) -> usize {
        self.connect_from(self.sockets.len() as u128)
    }

    /// Opens a socket of this browser, by its cookie and on a machine of its own, and returns its number.
    pub fn connect_from(&mut self, cookie: u128) -> usize {
        let assembler = Assembler::new(self.outside.lock().limit);
        let device = DeviceId::of(cookie.to_le_bytes());
        let [one, two, three, ..] = cookie.to_le_bytes();
        let address = IpAddr::from([10, three, two, one]);
        self.sockets.push(Some(Socket { address, device, assembler, bytes: 0, admitted: None }));
        self.sockets.len() - 1
    }

    /// Receives a frame on a socket. An invalid frame closes it.
    pub fn receive(&mut self, socket: usize, frame: &[u8]) {
        let limit = self.outside.lock().limit;
        let Some(Some(open)) = self.sockets.get_mut(socket) else { return };
        open.bytes += frame.len() as u64;
        open.assembler.set_limit(limit);
        let read = open.assembler.push::<ClientMessage>(frame);
        let bytes = if matches!(read, Ok(None)) { 0 } else { mem::take(&mut open.bytes) };
        let connection = open.admitted.as_ref().map(|(connection, _)| *connection);
        match (read, connection) {
            (Ok(None), _) => {}
            (Ok(Some((message, values))), Some(connection)) => {
                self.tell(Input::Message { connection, message, values, bytes, done: Reply::new(|()| true) });
            }
            (Ok(Some((message, _))), None) => {
                let peer = Peer { address: Some(open.address), device: Some(open.device) };
                let Some(hello) = Hello::of(message, peer, u32::MAX, false) else {
                    return self.turn_away(socket, "the first message was not a hello".to_owned());
                };
                let (reply, answer) = reply();
                self.tell(Input::Hello { hello, reply });
                let admitted = answer.try_recv().ok().and_then(|answer| {
                    answer.inspect_err(|reason| drop(self.farewells.insert(socket, reason.to_string()))).ok()
                });
                self.sockets[socket] =
                    self.sockets[socket].take().filter(|_| admitted.is_some()).map(|open| Socket { admitted, ..open });
            }
            (Err(error), None) => self.turn_away(socket, error.to_string()),
            (Err(error), Some(connection)) => {
                self.sockets[socket] = None;
                self.farewells.insert(socket, error.to_string());
                self.tell(Input::Misbehaved { connection, reason: error.to_string() });
            }
        }
    }

    fn turn_away(&mut self, socket: usize, reason: String) {
        self.sockets[socket] = None;
        self.farewells.insert(socket, reason.clone());
        self.tell(Input::TurnedAway { count: 1, reason });
    }

    /// Closes a socket from the client's side.
    pub fn close(&mut self, socket: usize) {
        let open = self.sockets.get_mut(socket).and_then(Option::take);
        if let Some((connection, _)) = open.and_then(|open| open.admitted) {
            self.tell(Input::Left { connection, reason: None });
        }
    }

    /// Applies a control of the teacher.
    ///
    /// # Errors
    /// Fails with the room's message if the room refuses.
    pub fn control(&mut self, control: Control) -> anyhow::Result<()> {
        let (reply, answer) = reply();
        self.tell(Input::Control { control, reply });
        Ok(answer.try_recv().context("the room gives no answer")??)
    }

    /// Takes the messages waiting on a socket, oldest first. Closes the socket if the room has ended it.
    pub fn sent(&mut self, socket: usize) -> Vec<Sent> {
        let Some(place) = self.sockets.get_mut(socket) else { return Vec::new() };
        let Some(Socket { admitted: Some((_, waiting)), .. }) = place else { return Vec::new() };
        let mut sent = Vec::new();
        loop {
            match waiting.try_next() {
                Poll::Ready(Some(message)) => sent.extend(read(message)),
                Poll::Ready(None) => {
                    *place = None;
                    return sent;
                }
                Poll::Pending => return sent,
            }
        }
    }

    /// Lets time pass, and the room do at each moment what is due then.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now.moment + time;
        while let Some(due) = self.room.next_due().filter(|due| *due <= end) {
            self.set(self.now.moment.max(due));
            self.room.work(self.now);
            self.settle();
            if self.room.next_due().is_some_and(|next| next <= due) {
                break;
            }
        }
        self.set(end);
        self.room.work(self.now);
        self.settle();
    }

    fn set(&mut self, moment: Moment) {
        self.now.unix += (moment.time().as_secs()).saturating_sub(self.now.moment.time().as_secs());
        self.now.moment = moment;
        self.outside.lock().now = moment;
    }

    /// Returns the last published view of the room.
    pub fn view(&self) -> Arc<RoomView> {
        Arc::clone(&self.outside.lock().view)
    }

    /// Tells the room an input, and lets it and its surroundings work.
    pub fn tell(&mut self, input: Input) {
        self.room.take(self.now, input);
        self.room.work(self.now);
        self.settle();
    }

    /// Does everything that waits to be done, unless it is to wait.
    fn settle(&mut self) {
        while !self.is_lazy && (self.work() | self.attack(usize::MAX) | self.finish_writing()) {}
    }

    /// Does the slow work that has waited longest. Returns whether there was any.
    pub fn work(&mut self) -> bool {
        let Some(work) = self.outside.lock().work.pop_front() else { return false };
        let told = Told { inputs: Mutex::default(), moment: self.now.moment };
        work.run(&told);
        self.hear(told.inputs.into_inner().unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// Tells the room what became of its writes. Returns whether there was any.
    pub fn finish_writing(&mut self) -> bool {
        let outcomes = self.surroundings.disk.as_ref().map(|disk| disk.work()).unwrap_or_default();
        let lines = mem::take(&mut self.outside.lock().lines);
        let is_news = !outcomes.is_empty() || !lines.is_empty();
        let inputs = outcomes.into_iter().map(Input::Journaled).chain(lines.into_iter().map(Input::Recorded));
        self.hear(inputs.collect());
        is_news
    }

    fn hear(&mut self, inputs: Vec<Input>) {
        if !inputs.is_empty() {
            inputs.into_iter().for_each(|input| self.room.take(self.now, input));
            self.room.work(self.now);
        }
    }
}

/// Opens the lesson on the disk, or a new one.
fn open(
    mut config: RoomConfig,
    surroundings: &Surroundings,
    outside: &Arc<Around>,
    now: Now,
) -> anyhow::Result<(Classroom, Vec<Worker>)> {
    let Surroundings { federation, seed, disk, is_recorded, searches } = surroundings;
    let mut opening = Opening::new(&config, [0; 16], now.unix);
    if let Some(disk) = disk {
        let (last, problems) = disk.start(now.unix)?;
        opening.problems = problems;
        if let Some(last) = last {
            last.adapt(&mut config)?;
            opening.head = last.head().clone();
            opening.last = Some(Box::new(last));
        }
    }
    if config.data.train_on == TrainOn::Shared {
        opening.data_set = Some(SharedDataSet::load(load, &config.data, config.data_seed())?);
    }
    let (attackers, workers) = Attackers::new(config.attack_budget, searches.clone(), 1, || {});
    let archived = match disk {
        Some(disk) if *is_recorded => Some(archived(disk.as_ref(), outside, opening.head.began)?),
        _ => None,
    };
    let parts = Parts {
        host: Box::new(Arc::clone(outside)),
        attackers,
        pictures: Arc::clone(&outside.pictures),
        evaluator: None,
        shadow: None,
        loader: load,
        accountant: ACCOUNTANT,
        journal: disk.as_ref().map(|disk| disk.journal()),
        archived,
        addresses: JoinAddresses::default(),
        federation: federation.clone(),
        sockets_before: 0,
        randomness: *seed,
    };
    Ok((Classroom::open(config, opening, parts, now)?, workers))
}

fn archived(disk: &dyn Disk, outside: &Arc<Around>, began: u64) -> anyhow::Result<Archived> {
    let found = disk.recording(began)?;
    let (size, last_at) = (Arc::<AtomicUsize>::default(), found.as_ref().map(Recording::last_at));
    let recording = found.unwrap_or_else(|| Recording::new(env!("CARGO_PKG_VERSION"), began));
    let said = Arc::clone(outside);
    let report = move |line| said.lock().lines.push(line);
    let keeper = Keeper::new(report, recording, Some(disk.tape()), Arc::clone(&size));
    Ok(Archived { archive: Box::new(Desk { keeper, outside: Arc::clone(outside) }), size, last_at })
}

/// Keeps the recording at once.
struct Desk {
    keeper: Keeper,
    outside: Arc<Around>,
}

impl Archive for Desk {
    fn hand(&mut self, order: RecordingOrder) {
        let now = self.outside.lock().now;
        self.keeper.take(order, now);
        // A relay gathers withdrawals for some seconds, and goes through all of them when it stops.
        self.keeper.forget(now);
    }
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("now", &self.now).field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

impl Around {
    fn lock(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Arc<Around> {
    /// A bench has a journal, or no disk.
    fn erase_set_aside(&mut self) -> bool {
        true
    }

    fn publish(&mut self, snapshot: Snapshot) {
        let mut effects = self.lock();
        (effects.view, effects.deadline) = (snapshot.view, snapshot.deadline);
    }

    fn start(&mut self, work: Work) -> bool {
        self.lock().work.push_back(work);
        true
    }

    fn expect(&mut self, architecture: Architecture) {
        let mut effects = self.lock();
        effects.limit = effects.limit.max(longest_message(architecture));
    }

    fn reuse(&mut self, _: Vec<f32>) {}
}

/// Slow work at one moment.
struct Told {
    inputs: Mutex<Vec<Input>>,
    moment: Moment,
}

impl Outside for Told {
    fn now(&self) -> Moment {
        self.moment
    }

    fn tell(&self, input: Input) -> bool {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        true
    }
}

/// Returns a reply, and where its answer arrives.
pub fn reply<T: Send + 'static>() -> (Reply<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Reply::new(move |answer| sender.send(answer).is_ok()), receiver)
}

/// Computes no privacy.
const ACCOUNTANT: Accountant = |_: Mechanism, rounds, delta| Guarantee {
    rounds,
    epsilon: None,
    delta,
    sentence: "Nothing is known of this noise.".to_owned(),
};

fn load(config: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
    if config.source != Source::Generated {
        bail!("a bench has no files");
    }
    let (train, test) = PICTURES;
    let half = |half, count| generate(half, count, seed);
    let (train, test) = (half(Half::Train, train)?, half(Half::Test, test)?);
    Ok(DataSet { name: config.source.to_string(), train, test, left_out: Vec::new() })
}

fn read(message: OutboxMessage) -> Option<Sent> {
    match message {
        OutboxMessage::Frames(frames) => {
            let mut assembler = Assembler::new(usize::MAX);
            let read = |frame| assembler.push::<RelayMessage>(frame).ok().flatten();
            frames.iter().map(AsRef::as_ref).find_map(read).map(|(message, _)| Sent::Message(message))
        }
        OutboxMessage::Weights { header, model } => Some(Sent::Model(header, model.state.clone())),
        OutboxMessage::Shard(_) => Some(Sent::Shard),
    }
}
