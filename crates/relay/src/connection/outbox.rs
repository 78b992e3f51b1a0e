//! What waits to be sent to one client: bounded, and newest first where only the newest counts.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;
use tokio::sync::Notify;
use tracing::error;
use unmask_federation::GlobalModel;
use unmask_wire::{RelayMessage, frames};

/// Most messages that may wait besides those of which only the newest counts.
const MAX_WAITING: usize = 64;

/// One message, shared by all clients that get it.
#[derive(Debug, Clone)]
pub(crate) enum OutboxMessage {
    /// A short one, encoded once for all.
    Frames(Arc<[Bytes]>),
    /// A header with the model's weights behind it. Each socket makes its frames one at a time as it sends them, so that
    /// no encoded copy of a model lies about. A client that still receives it when its round closes keeps the old
    /// weights alive; it sends nothing meanwhile.
    Weights { header: Arc<RelayMessage>, model: Arc<GlobalModel> },
    /// Held once for all clients that have it.
    Shard(Arc<EncodedShard>),
}

impl OutboxMessage {
    /// A message ready to be shared; its strings are short enough, so this does not fail in practice.
    pub(crate) fn encode(message: &RelayMessage, values: &[f32]) -> Option<Self> {
        frames(message, values)
            .inspect_err(|error| error!("a message of the relay's own cannot be encoded: {error}"))
            .ok()
            .map(|frames| Self::Frames(frames.into_iter().map(Bytes::from).collect()))
    }
}

/// A shard, ready for the socket.
#[derive(Debug)]
pub(crate) struct EncodedShard {
    pub(crate) header: RelayMessage,
    /// Labels and pixels, as the wire packs them.
    pub(crate) words: Vec<f32>,
}

/// The weights of a model that is kept alive while they are sent.
#[derive(Debug)]
pub(crate) struct Weights(pub(crate) Arc<GlobalModel>);

impl AsRef<[f32]> for Weights {
    fn as_ref(&self) -> &[f32] {
        &self.0.state.weights
    }
}

/// Of the messages in one slot only the newest is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Every message counts.
    All,
    /// What to work on: the round's plan, or the model to encrypt.
    Task,
    /// The shard that the task may be about.
    Shard,
    /// Where the lesson is.
    Lesson,
    /// Whether the class sees its own picture.
    Original,
    /// The reconstruction by the attack of this number.
    Reconstruction(usize),
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Slot, OutboxMessage)>,
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

pub(crate) fn outbox() -> (Outbox, Waiting) {
    let shared = Arc::new(Shared::default());
    (Outbox(Arc::clone(&shared)), Waiting(shared))
}

impl Outbox {
    /// Puts a message in. Never waits: returns `false` if the client has left so many unread that it is of no use to
    /// send more.
    #[must_use]
    pub(crate) fn put(&self, slot: Slot, message: OutboxMessage) -> bool {
        let mut queue = self.0.lock();
        if slot == Slot::All {
            if queue.waiting.iter().filter(|(slot, _)| *slot == Slot::All).count() >= MAX_WAITING {
                return false;
            }
        } else {
            queue.waiting.retain(|(waiting, _)| *waiting != slot);
        }
        queue.waiting.push_back((slot, message));
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
    pub(crate) async fn next(&self) -> Option<OutboxMessage> {
        loop {
            {
                let mut queue = self.0.lock();
                if let Some((_, message)) = queue.waiting.pop_front() {
                    return Some(message);
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

    fn message(byte: u8) -> OutboxMessage {
        OutboxMessage::Frames(Arc::from([Bytes::from(vec![byte])]))
    }

    fn put(outbox: &Outbox, slot: Slot, byte: u8) {
        assert!(outbox.put(slot, message(byte)));
    }

    async fn drain(waiting: &Waiting) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(OutboxMessage::Frames(frames)) = waiting.next().await {
            bytes.push(frames[0][0]);
        }
        bytes
    }

    #[tokio::test]
    async fn only_the_newest_task_waits() {
        let (outbox, waiting) = outbox();
        put(&outbox, Slot::Task, 1);
        put(&outbox, Slot::All, 2);
        put(&outbox, Slot::Reconstruction(0), 3);
        put(&outbox, Slot::Reconstruction(1), 4);
        put(&outbox, Slot::Task, 5);
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
        put(&outbox, Slot::Task, 2);
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
