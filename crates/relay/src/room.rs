//! Runs a room as a task: hands it inputs and the time, and carries its effects out.

use std::{sync::Arc, thread};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};
use tracing::error;
use unmask_core::Architecture;
use unmask_room::{
    Classroom, Everybody, Host, Input, JoinAddresses, Journal, Moment, Outside, Parts, Pictures, Reply, Snapshot, Work,
    longest_message,
};

use crate::{
    attackers,
    clock::Clock,
    config::{self, RelayConfig},
    connection::{InFlight, ReusableBuffer},
    journal::{DataFolder, JournalThread},
    opening::Opened,
    privacy, random, recording,
};

/// Inputs that may wait for the room. When the queue is full, senders wait at their sockets.
pub(crate) const MAX_INPUTS: usize = 16;

/// More sockets than one room can have.
const SOCKETS: u64 = 1 << 40;

/// What a room shares with its sockets and HTTP handlers, and with the rooms before it in this process.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) snapshots: watch::Sender<Snapshot>,
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) in_flight: InFlight,
    pub(crate) reusable_buffer: ReusableBuffer,
    pub(crate) clock: Clock,
}

/// A room that runs. Dropping it writes down its last changes.
pub(crate) struct RoomTask {
    /// News from the room's own threads. They end with it, so that no other room hears from them.
    news: mpsc::Receiver<Input>,
    room: Classroom,
    clock: Clock,
    /// Whether the room writes down nothing when it is dropped.
    is_over: bool,
    /// Keeps the threads' way to the room open.
    _sender: mpsc::Sender<Input>,
}

impl RoomTask {
    /// Opens the lesson that was found, after so many others in this process.
    ///
    /// # Errors
    /// If the settings do not go together, or the system has no threads or random numbers.
    pub(crate) fn open(
        config: RelayConfig,
        Opened { mut opening, store }: Opened,
        addresses: JoinAddresses,
        shared: Shared,
        rooms_before: u64,
    ) -> anyhow::Result<Self> {
        let Shared { snapshots, pictures, in_flight, reusable_buffer, clock } = shared;
        let (sender, news) = mpsc::channel(MAX_INPUTS);
        let inputs = sender.downgrade();
        let journal =
            store.map(|store| JournalThread::start(reporter(&inputs, Input::Journaled), store)).transpose()?;
        let (archived, problem) =
            recording::open(&config, opening.head.began, reporter(&inputs, Input::Recorded), clock)?;
        opening.problems.extend(problem);
        let parts = Parts {
            host: Box::new(RelayHost {
                snapshots,
                inputs: inputs.clone(),
                in_flight,
                reusable_buffer,
                clock,
                folder: DataFolder(config.data_dir.clone()),
            }),
            attackers: attackers::start(config.room.attack_budget, config.searches, &inputs, clock)?,
            pictures,
            evaluator: config.evaluator,
            shadow: config.shadow,
            loader: config::load_data_set,
            accountant: privacy::guarantee,
            journal: journal.map(|journal| Box::new(journal) as Box<dyn Journal>),
            archived,
            addresses,
            federation: config.outer.map(|outer| outer.server()),
            sockets_before: rooms_before * SOCKETS,
            randomness: random::bytes()?,
        };
        let room = Classroom::open(config.room, opening, parts, clock.now())?;
        Ok(Self { news, room, clock, is_over: false, _sender: sender })
    }

    /// Takes all sockets from a room that is about to be erased. It writes nothing down any longer.
    pub(crate) fn take_everybody(&mut self) -> Everybody {
        self.is_over = true;
        self.room.take_everybody()
    }

    /// Has a room that broke down write nothing: its state may be half changed.
    pub(crate) fn abandon(&mut self) {
        self.is_over = true;
    }

    /// Runs until every sender of inputs is gone.
    pub(crate) async fn run(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        let clock = self.clock;
        loop {
            let due = self.room.next_due().map(|due| clock.instant(due));
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = inputs.recv() => {
                    let Some(input) = input else { return };
                    self.room.take(clock.now(), input);
                }
                Some(news) = self.news.recv() => self.room.take(clock.now(), news),
                () = timer => {}
            }
            // Drain the queues first, so that a burst is published once.
            for queue in [&mut *inputs, &mut self.news] {
                for _ in 0..queue.len() {
                    if let Ok(input) = queue.try_recv() {
                        self.room.take(clock.now(), input);
                    }
                }
            }
            self.room.work(clock.now());
        }
    }
}

impl Drop for RoomTask {
    fn drop(&mut self) {
        // The journal's thread must not wait for the room, which waits for it.
        self.news.close();
        if !self.is_over {
            self.room.close(self.clock.now());
        }
    }
}

struct RelayHost {
    snapshots: watch::Sender<Snapshot>,
    /// Weak, so that the threads end with the room.
    inputs: mpsc::WeakSender<Input>,
    in_flight: InFlight,
    reusable_buffer: ReusableBuffer,
    clock: Clock,
    folder: DataFolder,
}

impl Host for RelayHost {
    fn erase_set_aside(&mut self) -> bool {
        let erased = if self.folder.0.is_dir() {
            unmask_journal::erase_set_aside(&self.folder).and_then(|erased| erased.whole())
        } else {
            Ok(())
        };
        erased.inspect_err(|error| error!("what an earlier lesson left is still there: {error:#}")).is_ok()
    }

    fn publish(&mut self, snapshot: Snapshot) {
        self.snapshots.send_replace(snapshot);
    }

    fn start(&mut self, work: Work) -> bool {
        let outside = Elsewhere { inputs: self.inputs.clone(), clock: self.clock };
        let name = work.name();
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || work.run(&outside));
        started.inspect_err(|error| error!("cannot start the thread \"{name}\": {error}")).is_ok()
    }

    fn expect(&mut self, architecture: Architecture) {
        self.in_flight.make_room(longest_message(architecture));
    }

    fn reuse(&mut self, buffer: Vec<f32>) {
        self.reusable_buffer.put(buffer);
    }
}

/// A thread beside the room.
struct Elsewhere {
    inputs: mpsc::WeakSender<Input>,
    clock: Clock,
}

impl Outside for Elsewhere {
    fn now(&self) -> Moment {
        self.clock.moment()
    }

    fn tell(&self, input: Input) -> bool {
        self.inputs.upgrade().is_some_and(|room| room.blocking_send(input).is_ok())
    }
}

/// Returns a function that tells the room news from another thread.
fn reporter<T, I: Fn(T) -> Input>(inputs: &mpsc::WeakSender<Input>, input: I) -> impl Fn(T) + use<T, I> {
    let inputs = inputs.clone();
    move |news| {
        if let Some(room) = inputs.upgrade() {
            // Sending fails only once the room is gone.
            let _ = room.blocking_send(input(news));
        }
    }
}

/// Returns a reply, and its receiver.
pub(crate) fn reply<T: Send + 'static>() -> (Reply<T>, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (Reply::new(move |answer| sender.send(answer).is_ok()), receiver)
}
