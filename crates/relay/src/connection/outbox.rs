//! The bounded queue of messages to one client. In some slots only the newest message is kept.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;
use tokio::sync::Notify;
use tracing::error;
use unmask_federation::GlobalModel;
use unmask_wire::{RelayMessage, frames};

/// Maximum number of waiting messages in [`Slot::All`].
const MAX_WAITING: usize = 64;

/// One message, shared by all its recipients.
#[derive(Debug, Clone)]
pub(crate) enum OutboxMessage {
    /// A short message, encoded once for all clients.
    Frames(Arc<[Bytes]>),
    /// A header followed by the model's weights. Each socket encodes its frames one at a time, so that no encoded copy
    /// of the model is held. A client that is still receiving when its round closes keeps the old weights alive; it
    /// sends nothing in that time.
    Weights { header: Arc<RelayMessage>, model: Arc<GlobalModel> },
    /// Held once for all clients with this shard.
    Shard(Arc<EncodedShard>),
}

impl OutboxMessage {
    /// Encodes a message. This does not fail in practice, because the relay's strings are short enough.
    pub(crate) fn encode(message: &RelayMessage, values: &[f32]) -> Option<Self> {
        frames(message, values)
            .inspect_err(|error| error!("a message of the relay's own cannot be encoded: {error}"))
            .ok()
            .map(|frames| Self::Frames(frames.into_iter().map(Bytes::from).collect()))
    }
}

#[derive(Debug)]
pub(crate) struct EncodedShard {
    pub(crate) header: RelayMessage,
    /// Labels and pixels in the wire's packing.
    pub(crate) words: Vec<f32>,
}

/// The weights of a model, which stays alive while they are sent.
#[derive(Debug)]
pub(crate) struct Weights(pub(crate) Arc<GlobalModel>);

impl AsRef<[f32]> for Weights {
    fn as_ref(&self) -> &[f32] {
        &self.0.state.weights
    }
}

/// What a message replaces: in every slot but [`All`](Self::All) only the newest message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Every message counts.
    All,
    /// The client's task: the round's plan, or the model to encrypt.
    Task,
    Shard,
    Lesson,
    /// Whether the class sees this client's picture.
    Original,
    /// Another client's update to attack.
    Loan,
    /// Word that there is no update to attack any longer. It must arrive even if a loan is taken back.
    LoanEnded,
    /// The reconstruction by the attack with this number.
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

/// The room's end of the queue. Dropping it closes the connection once all waiting messages are sent.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Waiting(Arc<Shared>);

pub(crate) fn outbox() -> (Outbox, Waiting) {
    let shared = Arc::new(Shared::default());
    (Outbox(Arc::clone(&shared)), Waiting(shared))
}

impl Outbox {
    /// Queues a message without waiting. Returns `false` if the client has too many unread messages.
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

    /// Discards the waiting messages of a slot.
    pub(crate) fn take_back(&self, slot: Slot) {
        self.0.lock().waiting.retain(|(waiting, _)| *waiting != slot);
    }

    /// Discards all waiting messages, so that a last message is sent immediately.
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
    /// Returns the next message; `None` once the room has dropped its end and the queue is empty.
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
    async fn a_message_taken_back_is_not_sent() {
        let (outbox, waiting) = outbox();
        put(&outbox, Slot::Loan, 1);
        put(&outbox, Slot::LoanEnded, 2);
        put(&outbox, Slot::Lesson, 3);
        outbox.take_back(Slot::Loan);
        drop(outbox);
        assert_eq!(drain(&waiting).await, [2, 3], "word of a withdrawal is never taken back");
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
