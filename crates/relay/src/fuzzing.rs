//! A room without sockets, for `cargo xtask fuzz`. Frames reach the actor as they would from a socket.

use std::{mem, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use unmask_core::ModelState;
use unmask_wire::{
    Assembler, ClientMessage, RelayMessage,
    view::{Control, RoomView},
};

use crate::{
    RelayConfig,
    connection::{
        InFlight, ReusableBuffer,
        outbox::{OutboxMessage, Waiting},
    },
    peer::{DeviceId, Peer},
    room::{
        Actor, JoinAddresses, Shared, Snapshot,
        input::{Hello, Input},
        lesson::Opening,
        roster::Connection,
    },
};

#[derive(Debug)]
pub struct Bench {
    runtime: Runtime,
    inputs: mpsc::Sender<Input>,
    room: JoinHandle<()>,
    snapshots: watch::Receiver<Snapshot>,
    sockets: Vec<Option<Socket>>,
    limit: usize,
}

#[derive(Debug)]
struct Socket {
    assembler: Assembler,
    bytes: u64,
    /// Present once the room has admitted the client.
    admitted: Option<(Connection, Waiting)>,
}

#[derive(Debug)]
pub enum Sent {
    Message(RelayMessage),
    /// A message followed by the model.
    Model(Arc<RelayMessage>, ModelState),
    Shard,
}

impl Bench {
    /// Opens an empty room.
    ///
    /// # Errors
    /// Fails like [`crate::serve`], except for errors about ports and pictures.
    pub fn open(mut config: RelayConfig) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (inputs, inbox) = mpsc::channel(1);
        let (sender, snapshots) = watch::channel(Snapshot::default());
        let limit = Assembler::limit_for(config.architecture.layout().len());
        let in_flight = InFlight::new(config.limits.bytes_in_flight, limit, config.limits.update);
        let addresses = JoinAddresses {
            http_address: String::new(),
            https_address: String::new(),
            qr_svg: String::new(),
            pin: String::new(),
        };
        let opening = Opening::find(&mut config)?;
        let shared = Shared { pictures: Arc::default(), in_flight, reusable_buffer: ReusableBuffer::default() };
        let actor = Actor::new(config, opening, addresses, shared, sender, inputs.downgrade())?;
        let room = runtime.spawn(actor.run(inbox));
        Ok(Self { runtime, inputs, room, snapshots, sockets: Vec::new(), limit })
    }

    /// Opens a socket and returns its number.
    pub fn connect(&mut self) -> usize {
        self.sockets.push(Some(Socket { assembler: Assembler::new(self.limit), bytes: 0, admitted: None }));
        self.sockets.len() - 1
    }

    /// Receives a frame on a socket. An invalid frame closes it.
    pub fn receive(&mut self, socket: usize, frame: &[u8]) {
        let Some(Some(open)) = self.sockets.get_mut(socket) else { return };
        open.bytes += frame.len() as u64;
        let read = open.assembler.push::<ClientMessage>(frame);
        let bytes = if matches!(read, Ok(None)) { 0 } else { mem::take(&mut open.bytes) };
        let connection = open.admitted.as_ref().map(|(connection, _)| *connection);
        match (read, connection) {
            (Ok(None), _) => {}
            (Ok(Some((message, values))), Some(connection)) => {
                let (done, answer) = oneshot::channel();
                self.tell(Input::Message { connection, message, values, bytes, done });
                // The room drops the sender without sending.
                let _ = self.runtime.block_on(answer);
            }
            (Ok(Some((ClientMessage::Hello { nickname, resume, device, may_show, may_lend, is_robot }, _))), None) => {
                let (reply, answer) = oneshot::channel();
                // Each socket is a different browser, so that a ban affects only one.
                let peer = Peer { address: None, device: DeviceId::parse(&format!("{socket:x}")) };
                self.tell(Input::Hello {
                    hello: Hello { nickname, resume, device, may_show, may_lend, is_robot, peer },
                    reply,
                });
                let admitted = self.runtime.block_on(answer).ok().and_then(Result::ok);
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
    pub fn control(&self, control: Control) -> anyhow::Result<()> {
        let (reply, answer) = oneshot::channel();
        self.tell(Input::Control { control, reply });
        Ok(self.runtime.block_on(answer).context("the room is gone")??)
    }

    /// Takes the messages waiting on a socket, oldest first. Closes the socket if the room has ended it.
    pub fn sent(&mut self, socket: usize) -> Vec<Sent> {
        let Some(place) = self.sockets.get_mut(socket) else { return Vec::new() };
        let Some(Socket { admitted: Some((_, waiting)), .. }) = place else { return Vec::new() };
        let mut sent = Vec::new();
        loop {
            // A zero timeout takes what is there without waiting.
            match self.runtime.block_on(async { timeout(Duration::ZERO, waiting.next()).await }) {
                Ok(Some(message)) => sent.extend(read(message)),
                Ok(None) => {
                    *place = None;
                    return sent;
                }
                Err(_) => return sent,
            }
        }
    }

    pub fn pass(&self, time: Duration) {
        // The sleep must be created inside the runtime.
        self.runtime.block_on(async { sleep(time).await });
    }

    /// Returns the last published view of the room.
    pub fn view(&self) -> Arc<RoomView> {
        Arc::clone(&self.snapshots.borrow().view)
    }

    pub fn is_running(&self) -> bool {
        !self.room.is_finished()
    }

    /// Sends an input to the room, if it still runs, and lets it work.
    pub(crate) fn tell(&self, input: Input) {
        let _ = self.runtime.block_on(self.inputs.send(input));
        self.runtime.block_on(tokio::task::yield_now());
    }
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
