//! Opens the room again from its journal after it broke down.

use std::{any::Any, collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::error;
use unmask_room::{Input, JoinAddresses};
use unmask_wire::view::Receipt;

use crate::{
    config::RelayConfig,
    erasing::erase_everything,
    http::Scopes,
    opening::{self, Opened},
    room::{RoomTask, Shared},
};

/// With so many breakdowns within [`PERIOD`], the relay ends: what breaks the room comes again and again.
const BREAKDOWNS: usize = 3;
const PERIOD: Duration = Duration::from_secs(60);

/// The teacher's wish that everything is erased; answers with the receipt.
pub(crate) struct Erasure(pub(crate) oneshot::Sender<anyhow::Result<Receipt>>);

/// Runs a room, and others after it if it breaks down.
pub(crate) struct Supervisor {
    /// As the relay was started.
    config: RelayConfig,
    addresses: JoinAddresses,
    /// Knows the present PIN.
    scopes: Arc<Scopes>,
    shared: Shared,
    /// The rooms that broke down.
    rooms: u64,
}

impl Supervisor {
    pub(crate) fn new(mut config: RelayConfig, addresses: JoinAddresses, scopes: Arc<Scopes>, shared: Shared) -> Self {
        if let Some(journal) = &mut config.room.journal {
            // The lesson that the relay began is the one to go on with.
            journal.begins_anew = false;
        }
        Self { config, addresses, scopes, shared, rooms: 0 }
    }

    /// Opens the lesson that was found, with the settings adapted to it.
    ///
    /// # Errors
    /// As [`RoomTask::open`].
    pub(crate) fn open(&self, config: RelayConfig, opened: Opened) -> anyhow::Result<RoomTask> {
        let (keys, pin) = (self.scopes.secrets.keys(), self.scopes.pin.get());
        let qr_svg = self.scopes.qr_svg(&self.addresses.https_address);
        let addresses = JoinAddresses { qr_svg, keys, pin, ..self.addresses.clone() };
        RoomTask::open(config, opened, addresses, self.shared.clone(), self.rooms)
    }

    /// Runs the room until every sender of inputs is gone, or until it breaks down for good.
    pub(crate) async fn run(
        mut self,
        mut room: RoomTask,
        mut inputs: mpsc::Receiver<Input>,
        mut erasures: mpsc::Receiver<Erasure>,
    ) {
        let mut breakdowns = VecDeque::new();
        loop {
            let ended = tokio::select! {
                ended = AssertUnwindSafe(room.run(&mut inputs)).catch_unwind() => ended,
                Some(erasure) = erasures.recv() => {
                    room = match self.erase(room, erasure).await {
                        Ok(room) => room,
                        Err(error) => return error!("no room can be opened after the erased one: {error:#}"),
                    };
                    continue;
                }
            };
            let Err(panic) = ended else { return };
            room.abandon();
            // Its journal is closed before it is opened again.
            drop(room);
            let reason = reason(panic.as_ref());
            let now = Instant::now();
            breakdowns.push_back(now);
            breakdowns.retain(|then| now - *then < PERIOD);
            if self.config.room.journal.is_none() {
                return error!("the room broke down ({reason}), and without a journal it cannot go on");
            }
            if breakdowns.len() >= BREAKDOWNS {
                return error!("the room broke down {BREAKDOWNS} times within {} s: {reason}", PERIOD.as_secs());
            }
            error!("the room broke down and opens again from its journal: {reason}");
            self.rooms += 1;
            room = match self.reopen().await {
                Ok(room) => room,
                Err(error) => return error!("the room cannot be opened again: {error:#}"),
            };
        }
    }

    /// Ends the room, erases its lesson, and opens an empty room that keeps nothing on the disk.
    async fn erase(&mut self, mut room: RoomTask, Erasure(reply): Erasure) -> anyhow::Result<RoomTask> {
        let everybody = room.take_everybody();
        let door = Arc::clone(&self.shared.snapshots.borrow().view);
        // Its files are closed.
        drop(room);
        let folder = self.config.data_dir.clone();
        let erased = tokio::task::spawn_blocking(move || erase_everything(&folder)).await?;
        everybody.say_goodbye(erased.is_ok());
        let problem = match &erased {
            Ok(_) => String::new(),
            Err(error) => {
                error!("the lesson is not erased: {error:#}");
                format!(" Something of it is still there: {error:#}.")
            }
        };
        // Nobody waits for the receipt if the teacher's page has closed.
        let _ = reply.send(erased);
        self.rooms += 1;
        (self.config.room.journal, self.config.room.start) = (None, false);
        // They name nobody, and a teacher who has closed the door does not expect it open. Bans name browsers.
        (self.config.room.locked, self.config.room.approve_first) = (door.is_locked, door.approves);
        let (config, mut opened) = opening::without_a_disk(self.config.clone()).await?;
        opened.opening.problems.push(format!(
            "The teacher erased the lesson.{problem} This room keeps nothing on the disk; start the relay again for \
             another lesson."
        ));
        self.open(config, opened)
    }

    async fn reopen(&self) -> anyhow::Result<RoomTask> {
        let (config, opened) = opening::find(self.config.clone()).await?;
        self.open(config, opened)
    }
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it says no reason")
}
