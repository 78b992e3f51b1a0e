//! The workers beside the room's, and what the robots' tells it.

use gloo_events::EventListener;
use serde::{Deserialize, Serialize};
use unmask_tab::protocol::DeviceChoice;
use web_sys::{Worker, WorkerOptions};

use super::{LOADER, bytes_of, hand};

/// The first message of a worker: before, it would lose what it is told.
pub(super) const READY: &[u8] = &[];

/// A worker beside the room's.
pub(super) struct Beside {
    worker: Worker,
    /// Messages for a worker that is still loading.
    waiting: Option<Vec<Vec<u8>>>,
}

impl Beside {
    /// Starts a worker of this name. What it says goes to `hear`, beginning with [`READY`]; `stopped` is called when it
    /// cannot run or has broken down.
    ///
    /// # Errors
    /// A sentence, if the browser starts none.
    pub(super) fn start(
        name: &str,
        hear: impl Fn(Vec<u8>) + 'static,
        stopped: impl Fn() + 'static,
    ) -> Result<Self, String> {
        let options = WorkerOptions::new();
        options.set_name(name);
        let worker = Worker::new_with_options(LOADER, &options)
            .map_err(|_| "This browser starts no worker from a worker; use a newer one.".to_owned())?;
        EventListener::new(&worker, "message", move |event| hear(bytes_of(event))).forget();
        EventListener::new(&worker, "error", move |_| stopped()).forget();
        Ok(Self { worker, waiting: Some(Vec::new()) })
    }

    pub(super) fn tell(&mut self, message: Vec<u8>) {
        match &mut self.waiting {
            Some(waiting) => waiting.push(message),
            None => self.post(&message),
        }
    }

    /// The worker hears from now on.
    pub(super) fn is_ready(&mut self) {
        for message in self.waiting.take().unwrap_or_default() {
            self.post(&message);
        }
    }

    fn post(&self, message: &[u8]) {
        hand(message, |bytes, buffers| self.worker.post_message_with_transfer(bytes, buffers));
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToRobots {
    Begin {
        /// The name of each one's photograph.
        photographs: Vec<String>,
        /// Seed of their answers.
        seed: u64,
        /// The room's classes for photographs.
        classes: Vec<String>,
        device: DeviceChoice,
    },
    Frame {
        robot: usize,
        frame: Vec<u8>,
    },
    /// The room has closed this robot's socket.
    Closed {
        robot: usize,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromRobots {
    /// A robot opens a socket.
    Connect {
        robot: usize,
    },
    Frame {
        robot: usize,
        frame: Vec<u8>,
    },
    /// Why there are none, or no more; as a clause.
    Failed(String),
}
