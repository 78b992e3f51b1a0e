//! The thread that keeps the recording.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
};

use anyhow::Context;
use unmask_room::{Archive, Keeper, RecordingOrder};

use crate::clock::Clock;

/// The recording's thread. Dropping this waits until all orders are carried out.
#[derive(Debug)]
pub(super) struct RecordingThread {
    orders: Option<mpsc::Sender<RecordingOrder>>,
    thread: Option<JoinHandle<()>>,
}

impl RecordingThread {
    pub(super) fn start(keeper: Keeper, clock: Clock) -> anyhow::Result<Self> {
        let (orders, waiting) = mpsc::channel();
        let thread = thread::Builder::new().name("recording".to_owned()).spawn(move || run(keeper, &waiting, clock));
        Ok(Self { orders: Some(orders), thread: Some(thread.context("cannot start the thread for the recording")?) })
    }
}

impl Archive for RecordingThread {
    fn hand(&mut self, order: RecordingOrder) {
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

fn run(mut keeper: Keeper, orders: &mpsc::Receiver<RecordingOrder>, clock: Clock) {
    loop {
        match orders.recv_timeout(keeper.patience(clock.moment())) {
            Ok(order) => keeper.take(order, clock.moment()),
            Err(RecvTimeoutError::Timeout) => keeper.forget(clock.moment()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    keeper.forget(clock.moment());
}
