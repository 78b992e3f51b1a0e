//! What the room needs from the program that hosts it.

use std::{fmt, sync::Arc};

use unmask_core::Architecture;
use unmask_wire::Assembler;

use crate::{
    attacks::{Attackers, Pictures},
    data_set::Loader,
    evaluation::ModelEvaluator,
    input::Input,
    journaling::Journal,
    privacy::Accountant,
    recording::Archived,
    shadow::ShadowRoom,
    snapshot::{JoinAddresses, Snapshot},
    time::Moment,
};

/// The room's effects, other than messages to clients and answers to inputs.
pub trait Host: Send {
    /// Shows the room's state to those who watch it.
    fn publish(&mut self, snapshot: Snapshot);

    /// Begins slow work outside the room. Returns false if there are no means to do it.
    fn start(&mut self, work: Work) -> bool;

    /// Expects updates of this model from now on, besides those of earlier ones.
    fn expect(&mut self, architecture: Architecture);

    /// Erases what earlier lessons left on the disk. A room that saves nothing asks for it when a student has its data
    /// deleted. Returns false if something stays.
    fn erase_set_aside(&mut self) -> bool;

    /// Takes the memory of an update that the room no longer needs.
    fn reuse(&mut self, buffer: Vec<f32>);
}

/// The length in bytes of the longest message of a client with this model, with or without April's block.
pub fn longest_message(architecture: Architecture) -> usize {
    let values = [false, true]
        .map(|block| architecture.with_april_block(block))
        .map(|architecture| architecture.layout().len() + architecture.statistics().len());
    Assembler::limit_for(values[0].max(values[1]))
}

/// What slow work sees of the world outside the room.
pub trait Outside {
    fn now(&self) -> Moment;

    /// Tells the room; returns false once the room is gone.
    fn tell(&self, input: Input) -> bool;
}

type Run = Box<dyn FnOnce(&dyn Outside) + Send>;

/// Slow work, to be done where it holds nobody up. What it finds out comes back as inputs.
pub struct Work {
    name: &'static str,
    run: Run,
}

impl Work {
    pub(crate) fn new(name: &'static str, run: impl FnOnce(&dyn Outside) + Send + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// A name for its thread.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn run(self, outside: &dyn Outside) {
        (self.run)(outside);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.name).finish()
    }
}

/// Everything that a host hands to a room when it opens it.
pub struct Parts {
    pub host: Box<dyn Host>,
    pub attackers: Attackers,
    /// Reconstructions, and pictures that clients show of their own, for those who serve them.
    pub pictures: Arc<Pictures>,
    /// Runs the model on held-out pictures. If absent, accuracy is not measured.
    pub evaluator: Option<Arc<dyn ModelEvaluator>>,
    /// Robots that train alongside the class, for the trade-off scene.
    pub shadow: Option<Arc<dyn ShadowRoom>>,
    pub loader: Loader,
    pub accountant: Accountant,
    /// If absent, the lesson is not saved.
    pub journal: Option<Box<dyn Journal>>,
    /// If absent, the lesson is not recorded.
    pub archived: Option<Archived>,
    pub addresses: JoinAddresses,
    /// The server of the federation that the room is in, if any.
    pub federation: Option<String>,
    /// Number of sockets that rooms before it in this process had at most. Their messages may still arrive.
    pub sockets_before: u64,
    /// The seed of all random numbers of the room that [`RoomConfig::seed`](crate::RoomConfig::seed) does not fix. It
    /// must be secret: the clients' tickets come from it.
    pub randomness: [u8; 32],
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("federation", &self.federation).finish_non_exhaustive()
    }
}
