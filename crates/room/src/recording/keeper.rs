//! Keeps the recording, away from the room, so that the room waits neither for JSON nor for the disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tracing::warn;
use unmask_recording::{Forgotten, Recording, RecordingError};
use unmask_wire::view::RoomView;

use crate::{reply::Reply, time::Moment};

/// Shortest time between two searches of the whole recording for withdrawn content, so that clients that keep changing
/// their minds do not occupy a processor. A request for the recording does not wait for it.
const BETWEEN: Duration = Duration::from_secs(3);

/// What the room asks of the recording's keeper, in order.
pub enum RecordingOrder {
    /// Add a state, with the pictures that it is the first to show.
    State {
        /// Milliseconds of the recording.
        at: u64,
        view: Arc<RoomView>,
        pictures: Vec<(String, Bytes)>,
        _waits: Arc<()>,
    },
    Forget(Forgotten),
    /// Send the packed file, or the reason why there is none.
    Give(Reply<Result<Vec<u8>, RecordingError>>),
}

/// A file of the recording, kept in step with it.
pub trait RecordingStore: Send {
    /// Brings the file up to date; `is_less` if content was removed.
    ///
    /// # Errors
    /// A sentence for the class.
    fn keep(&mut self, recording: &Recording, is_less: bool) -> Result<(), String>;
}

/// Keeps a recording in memory, and in a file if there is one.
pub struct Keeper {
    /// Says a line to the class.
    report: Box<dyn Fn(String) + Send>,
    recording: Recording,
    file: Option<Box<dyn RecordingStore>>,
    /// Size of the recording in bytes, for the room.
    size: Arc<AtomicUsize>,
    to_forget: Forgotten,
    searched: Option<Moment>,
    /// Whether the class was told that the recording is full.
    is_full: bool,
}

impl Keeper {
    /// Goes on with a recording. `report` says a line to the class; `size` tells the room the size in bytes.
    pub fn new(
        report: impl Fn(String) + Send + 'static,
        recording: Recording,
        file: Option<Box<dyn RecordingStore>>,
        size: Arc<AtomicUsize>,
    ) -> Self {
        size.store(recording.bytes(), Ordering::Relaxed);
        let (report, to_forget) = (Box::new(report), Forgotten::default());
        Self { report, recording, file, size, to_forget, searched: None, is_full: false }
    }

    /// How long to wait for an order before calling [`forget`](Self::forget).
    pub fn patience(&self, now: Moment) -> Duration {
        match self.searched {
            _ if self.to_forget.is_empty() => Duration::MAX,
            Some(searched) => BETWEEN.saturating_sub(now - searched),
            None => Duration::ZERO,
        }
    }

    pub fn take(&mut self, order: RecordingOrder, now: Moment) {
        match order {
            RecordingOrder::State { at, view, pictures, .. } => self.add(at, &view, &pictures),
            RecordingOrder::Forget(forgotten) => {
                self.to_forget.add(forgotten);
                if self.patience(now).is_zero() {
                    self.forget(now);
                }
            }
            RecordingOrder::Give(reply) => {
                self.forget(now);
                reply.send(self.recording.packed());
            }
        }
    }

    /// Removes what was withdrawn, if anything was.
    pub fn forget(&mut self, now: Moment) {
        if self.to_forget.is_empty() {
            return;
        }
        self.searched = Some(now);
        match self.recording.forget(&std::mem::take(&mut self.to_forget)) {
            Ok(false) => return,
            Ok(true) => self.is_full = false,
            Err(error) => (self.report)(format!("The recording of this lesson starts over: {error}.")),
        }
        self.keep(true);
    }

    fn add(&mut self, at: u64, view: &RoomView, pictures: &[(String, Bytes)]) {
        if self.is_full {
            return;
        }
        let picture = |address: &str| pictures.iter().find(|(own, _)| own == address).map(|(_, png)| png.to_vec());
        match self.recording.add(at, view, picture) {
            Ok(()) => self.keep(false),
            Err(RecordingError::Full) => {
                self.is_full = true;
                (self.report)("The recording of this lesson is full; nothing more is recorded.".to_owned());
            }
            Err(error) => warn!("cannot record a state: {error}"),
        }
    }

    fn keep(&mut self, is_less: bool) {
        self.size.store(self.recording.bytes(), Ordering::Relaxed);
        if let Some(file) = &mut self.file
            && let Err(problem) = file.keep(&self.recording, is_less)
        {
            (self.report)(problem);
        }
    }
}
