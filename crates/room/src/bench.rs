//! A room without a host, for tests, simulation and fuzzing. Frames reach it as they would from sockets; slow work and
//! attacks are done between two inputs, and time passes only when told to.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    task::Poll,
    time::Duration,
};

use anyhow::{Context, bail};
use unmask_core::{Architecture, ModelState};
use unmask_data::datasets::{
    DataSet, Source,
    generated::{Half, generate},
};
use unmask_wire::{
    Assembler, ClientMessage, RelayMessage,
    view::{Control, RoomView},
};

use crate::{
    Accountant, Attackers, Classroom, Connection, DataConfig, DeviceId, Guarantee, Hello, Host, Input, JoinAddresses,
    Mechanism, Moment, Now, Opening, OutboxMessage, Outside, Parts, Peer, Pictures, Reply, RoomConfig, Snapshot, Step,
    Waiting, Work, Worker,
};

/// The time of day at which a bench begins, in seconds since 1970.
const MORNING: u64 = 1_800_000_000;
/// Generated training and test pictures, far fewer than a relay generates.
const PICTURES: (usize, usize) = (400, 50);

/// A room, and everything around it.
pub struct Bench {
    room: Classroom,
    now: Now,
    outside: Arc<Around>,
    workers: Vec<Worker>,
    sockets: Vec<Option<Socket>>,
    limit: usize,
}

/// What the room hands out.
#[derive(Debug, Default)]
struct Around {
    effects: Mutex<Effects>,
}

#[derive(Debug, Default)]
struct Effects {
    view: Arc<RoomView>,
    work: VecDeque<Work>,
    limit: usize,
}

#[derive(Debug)]
struct Socket {
    assembler: Assembler,
    bytes: u64,
    /// Present once the room has admitted the client.
    admitted: Option<(Connection, Waiting)>,
}

/// What the room sent on a socket.
#[derive(Debug)]
pub enum Sent {
    Message(RelayMessage),
    /// A message followed by the model.
    Model(Arc<RelayMessage>, ModelState),
    Shard,
}

/// The parts of a room that nothing else needs to know of.
#[derive(Debug)]
pub struct Surroundings {
    /// The server of the federation that the room is in, if any.
    pub federation: Option<String>,
    /// The seed of the room's random numbers.
    pub seed: [u8; 32],
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { federation: None, seed: [7; 32] }
    }
}

impl Bench {
    /// Opens an empty room.
    ///
    /// # Errors
    /// Fails like [`Classroom::open`].
    pub fn open(config: RoomConfig, surroundings: Surroundings) -> anyhow::Result<Self> {
        let now = Now { moment: Moment::START, unix: MORNING };
        let limit = longest(config.architecture);
        let outside = Arc::<Around>::default();
        let (attackers, workers) = Attackers::new(config.attack_budget, None, 1, || {});
        let opening = Opening::new(&config, [0; 16], now.unix);
        let parts = Parts {
            host: Box::new(Arc::clone(&outside)),
            attackers,
            pictures: Arc::<Pictures>::default(),
            evaluator: None,
            shadow: None,
            loader: load,
            accountant: ACCOUNTANT,
            journal: None,
            archived: None,
            addresses: JoinAddresses::default(),
            federation: surroundings.federation,
            randomness: surroundings.seed,
        };
        let room = Classroom::open(config, opening, parts, now)?;
        Ok(Self { room, now, outside, workers, sockets: Vec::new(), limit })
    }

    /// Opens a socket and returns its number.
    pub fn connect(&mut self) -> usize {
        self.sockets.push(Some(Socket { assembler: Assembler::new(self.limit), bytes: 0, admitted: None }));
        self.sockets.len() - 1
    }

    /// Receives a frame on a socket. An invalid frame closes it.
    pub fn receive(&mut self, socket: usize, frame: &[u8]) {
        let limit = self.limit.max(self.outside.lock().limit);
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
            (Ok(Some((ClientMessage::Hello { nickname, resume, device, may_show, may_lend, is_robot }, _))), None) => {
                // Each socket is a different browser, so that a ban affects only one.
                let peer = Peer { address: None, device: DeviceId::parse(&format!("{socket:x}")) };
                let hello = Hello { nickname, resume, device, may_show, may_lend, is_robot, peer };
                let (reply, answer) = reply();
                self.tell(Input::Hello { hello, reply });
                let admitted = answer.try_recv().ok().and_then(Result::ok);
                self.sockets[socket] =
                    self.sockets[socket].take().filter(|_| admitted.is_some()).map(|open| Socket { admitted, ..open });
            }
            (Ok(Some(_)), None) => self.turn_away(socket, "the first message was not a hello".to_owned()),
            (Err(error), None) => self.turn_away(socket, error.to_string()),
            (Err(error), Some(connection)) => {
                self.sockets[socket] = None;
                self.tell(Input::Misbehaved { connection, reason: error.to_string() });
            }
        }
    }

    fn turn_away(&mut self, socket: usize, reason: String) {
        self.sockets[socket] = None;
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
        self.now = Now { moment, unix: MORNING + moment.time().as_secs() };
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

    /// Does the slow work and the attacks that the room has asked for, until there are no more.
    fn settle(&mut self) {
        let moment = self.now.moment;
        loop {
            let mut inputs = Vec::new();
            let work = self.outside.lock().work.pop_front();
            if let Some(work) = work {
                let told = Told { inputs: Mutex::default(), moment };
                work.run(&told);
                inputs.extend(told.inputs.into_inner().unwrap_or_else(PoisonError::into_inner));
            }
            for worker in &mut self.workers {
                if let Step::Worked(reports) = worker.step(&|| moment) {
                    inputs.extend(reports.into_iter().map(Input::Attacked));
                }
            }
            if inputs.is_empty() && self.outside.lock().work.is_empty() {
                return;
            }
            inputs.into_iter().for_each(|input| self.room.take(self.now, input));
            self.room.work(self.now);
        }
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
    fn publish(&mut self, snapshot: Snapshot) {
        self.lock().view = snapshot.view;
    }

    fn start(&mut self, work: Work) {
        self.lock().work.push_back(work);
    }

    fn expect(&mut self, architecture: Architecture) {
        let mut effects = self.lock();
        effects.limit = effects.limit.max(longest(architecture));
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
pub fn reply<T: Send + 'static>() -> (Reply<T>, mpsc::Receiver<T>) {
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

/// The longest message of a client with this model.
fn longest(architecture: Architecture) -> usize {
    Assembler::limit_for(architecture.layout().len() + architecture.statistics().len())
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
