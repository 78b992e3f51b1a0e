//! The thread that keeps the recording, so that the room waits neither for JSON nor for the disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::body::Bytes;
use tokio::sync::oneshot;
use tracing::warn;
use unmask_recording::{Forgotten, Recording, RecordingError};
use unmask_wire::view::RoomView;

use super::file::RecordingFile;

/// Shortest time between two searches of the whole recording for withdrawn content, so that clients that keep changing
/// their minds do not occupy a processor. A request for the recording does not wait for it.
const BETWEEN: Duration = Duration::from_secs(3);

pub(super) enum Order {
    /// Add a state, with the pictures that it is the first to show.
    State {
        at: u64,
        view: Arc<RoomView>,
        pictures: Vec<(String, Bytes)>,
        _waits: Arc<()>,
    },
    Forget(Forgotten),
    /// Send the packed file, or the reason why there is none.
    Give(oneshot::Sender<Result<Vec<u8>, RecordingError>>),
}

/// The recording's thread. Dropping this waits until all requests are done.
#[derive(Debug)]
pub(super) struct RecordingThread {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

struct Keeper<R> {
    report: R,
    recording: Recording,
    file: Option<RecordingFile>,
    used: Arc<AtomicUsize>,
    to_forget: Forgotten,
    searched: Option<Instant>,
    /// Whether the class was told that the recording is full.
    is_full: bool,
}

impl RecordingThread {
    pub(super) fn start(
        report: impl Fn(String) + Send + 'static,
        recording: Recording,
        file: Option<RecordingFile>,
        used: Arc<AtomicUsize>,
    ) -> anyhow::Result<Self> {
        let (orders, waiting) = mpsc::channel();
        used.store(recording.bytes(), Ordering::Relaxed);
        let to_forget = Forgotten::default();
        let keeper = Keeper { report, recording, file, used, to_forget, searched: None, is_full: false };
        let thread = thread::Builder::new().name("recording".to_owned()).spawn(move || keeper.run(&waiting));
        Ok(Self { orders: Some(orders), thread: Some(thread.context("cannot start the thread for the recording")?) })
    }

    pub(super) fn hand(&self, order: Order) {
        // If the thread has panicked, the panic is already in the log and there is no file to give.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for RecordingThread {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is already in the log.
            let _ = thread.join();
        }
    }
}

impl<R: Fn(String)> Keeper<R> {
    fn run(mut self, orders: &mpsc::Receiver<Order>) {
        loop {
            match orders.recv_timeout(self.patience()) {
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) => self.forget(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.forget();
    }

    /// How long to wait before searching the recording.
    fn patience(&self) -> Duration {
        match self.searched {
            _ if self.to_forget.is_empty() => Duration::MAX,
            Some(searched) => BETWEEN.saturating_sub(searched.elapsed()),
            None => Duration::ZERO,
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::State { at, view, pictures, .. } => self.add(at, &view, &pictures),
            Order::Forget(forgotten) => {
                self.to_forget.add(forgotten);
                if self.patience().is_zero() {
                    self.forget();
                }
            }
            Order::Give(reply) => {
                self.forget();
                // The requester may be gone.
                let _ = reply.send(self.recording.packed());
            }
        }
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

    fn forget(&mut self) {
        if self.to_forget.is_empty() {
            return;
        }
        self.searched = Some(Instant::now());
        match self.recording.forget(&std::mem::take(&mut self.to_forget)) {
            Ok(false) => return,
            Ok(true) => self.is_full = false,
            Err(error) => (self.report)(format!("The recording of this lesson starts over: {error}.")),
        }
        self.keep(true);
    }

    /// Brings the file up to date; `is_less` if content was removed.
    fn keep(&mut self, is_less: bool) {
        self.used.store(self.recording.bytes(), Ordering::Relaxed);
        if let Some(file) = &mut self.file
            && let Err(problem) = file.keep(&self.recording, is_less)
        {
            (self.report)(problem.to_string());
        }
    }
}
