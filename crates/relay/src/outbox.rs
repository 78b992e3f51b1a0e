//! What waits to be sent to one client: bounded, and newest first where only the newest counts.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;
use tokio::sync::Notify;

/// Most messages that may wait besides the plan and the reconstructions.
const MAX_WAITING: usize = 64;

/// The frames of one message, shared by all clients that get it.
pub(crate) type Frames = Arc<[Bytes]>;

/// Of the messages in one slot only the newest is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Every message counts.
    All,
    /// The round's plan.
    Plan,
    /// The reconstruction by the attack of this number.
    Reconstruction(usize),
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Slot, Frames)>,
    ending: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end into which the room puts messages; dropping it ends the connection once what waits is sent.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Shared>);

/// The end from which a socket takes them.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Shared>);

/// A new pair.
pub(crate) fn outbox() -> (Outbox, Waiting) {
    let shared = Arc::new(Shared::default());
    (Outbox(Arc::clone(&shared)), Waiting(shared))
}

impl Outbox {
    /// Puts a message in. Never waits: returns `false` if the client has left so many unread that it is of no use to
    /// send more.
    #[must_use]
    pub(crate) fn put(&self, slot: Slot, frames: Frames) -> bool {
        let mut queue = self.0.lock();
        if slot == Slot::All {
            if queue.waiting.iter().filter(|(slot, _)| *slot == Slot::All).count() >= MAX_WAITING {
                return false;
            }
        } else {
            queue.waiting.retain(|(waiting, _)| *waiting != slot);
        }
        queue.waiting.push_back((slot, frames));
        drop(queue);
        self.0.changed.notify_one();
        true
    }

    /// Forgets what waits, so that a last message goes out at once.
    pub(crate) fn clear(&self) {
        self.0.lock().waiting.clear();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.lock().ending = true;
        self.0.changed.notify_one();
    }
}

impl Waiting {
    /// The next message; `None` once the room is done with this client and all has been taken.
    pub(crate) async fn next(&self) -> Option<Frames> {
        loop {
            {
                let mut queue = self.0.lock();
                if let Some((_, frames)) = queue.waiting.pop_front() {
                    return Some(frames);
                }
                if queue.ending {
                    return None;
                }
            }
            self.0.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(byte: u8) -> Frames {
        Arc::from([Bytes::from(vec![byte])])
    }

    fn put(outbox: &Outbox, slot: Slot, byte: u8) {
        assert!(outbox.put(slot, message(byte)));
    }

    async fn drain(waiting: &Waiting) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(frames) = waiting.next().await {
            bytes.push(frames[0][0]);
        }
        bytes
    }

    #[tokio::test]
    async fn only_the_newest_plan_waits() {
        let (outbox, waiting) = outbox();
        put(&outbox, Slot::Plan, 1);
        put(&outbox, Slot::All, 2);
        put(&outbox, Slot::Reconstruction(0), 3);
        put(&outbox, Slot::Reconstruction(1), 4);
        put(&outbox, Slot::Plan, 5);
        put(&outbox, Slot::Reconstruction(0), 6);
        drop(outbox);
        assert_eq!(drain(&waiting).await, [2, 4, 5, 6]);
    }

    #[tokio::test]
    async fn client_that_reads_nothing_is_given_up() {
        let (outbox, _waiting) = outbox();
        for _ in 0..MAX_WAITING {
            put(&outbox, Slot::All, 0);
        }
        assert!(!outbox.put(Slot::All, message(1)));
        put(&outbox, Slot::Plan, 2);
    }

    #[tokio::test]
    async fn waiter_wakes_up_at_a_message_and_at_the_end() {
        let (outbox, waiting) = outbox();
        let reader = tokio::spawn(async move { drain(&waiting).await });
        tokio::task::yield_now().await;
        put(&outbox, Slot::All, 7);
        tokio::task::yield_now().await;
        drop(outbox);
        assert_eq!(reader.await.unwrap(), [7]);
    }
}
