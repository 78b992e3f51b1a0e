//! The bounded queue of messages to one client. In some slots only the newest message is kept.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tracing::error;
use unmask_federation::GlobalModel;
use unmask_wire::{Framer, RelayMessage, WireError, frames};

/// Maximum number of waiting messages in [`Slot::All`].
const MAX_WAITING: usize = 64;

/// One message, shared by all its recipients.
#[derive(Debug, Clone)]
pub enum OutboxMessage {
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

impl OutboxMessage {
    /// The message's frames, each made when it is asked for.
    ///
    /// # Errors
    /// As [`Framer::new`]; this does not happen in practice either.
    pub fn into_frames(self) -> Result<Box<dyn Iterator<Item = Bytes> + Send>, WireError> {
        Ok(match self {
            Self::Frames(frames) => Box::new((0..frames.len()).filter_map(move |number| frames.get(number).cloned())),
            Self::Weights { header, model } => {
                let statistics = model.state.statistics.clone();
                Box::new(Framer::with_tail(header.as_ref(), Weights(model), statistics)?.map(Bytes::from))
            }
            Self::Shard(shard) => {
                let words = Words(Arc::clone(&shard));
                Box::new(Framer::new(&shard.header, words)?.map(Bytes::from))
            }
        })
    }
}

#[derive(Debug)]
pub struct EncodedShard {
    pub header: RelayMessage,
    /// Labels and pixels in the wire's packing.
    pub words: Vec<f32>,
}

/// The words of a shard, which stays alive while they are sent.
#[derive(Debug)]
struct Words(Arc<EncodedShard>);

impl AsRef<[f32]> for Words {
    fn as_ref(&self) -> &[f32] {
        &self.0.words
    }
}

/// The weights of a model, which stays alive while they are sent.
#[derive(Debug)]
struct Weights(Arc<GlobalModel>);

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
    /// The published list of the last round.
    Listing,
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
    /// Wakes the task that waits for a message.
    reader: Option<Waker>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
}

impl Shared {
    /// Changes the queue and wakes its reader.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.lock();
        change(&mut queue);
        let reader = queue.reader.take();
        drop(queue);
        reader.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room's end of the queue. Dropping it closes the connection once all waiting messages are sent.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Shared>);

/// The reading end of the queue.
#[derive(Debug)]
pub struct Waiting(Arc<Shared>);

pub(crate) fn outbox() -> (Outbox, Waiting) {
    let shared = Arc::new(Shared::default());
    (Outbox(Arc::clone(&shared)), Waiting(shared))
}

impl Outbox {
    /// Queues a message without waiting. Returns `false` if the client has too many unread messages.
    #[must_use]
    pub(crate) fn put(&self, slot: Slot, message: OutboxMessage) -> bool {
        let mut is_taken = true;
        self.0.change(|queue| {
            if slot == Slot::All {
                is_taken = queue.waiting.iter().filter(|(slot, _)| *slot == Slot::All).count() < MAX_WAITING;
            } else {
                queue.waiting.retain(|(waiting, _)| *waiting != slot);
            }
            if is_taken {
                queue.waiting.push_back((slot, message));
            }
        });
        is_taken
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
        self.0.change(|queue| queue.ending = true);
    }
}

impl Waiting {
    /// Returns the next message; `None` once the room has dropped its end and the queue is empty. Only one task may
    /// wait for it.
    pub async fn next(&self) -> Option<OutboxMessage> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns the next message if there is one now; ready with `None` once there will be no other.
    pub fn try_next(&self) -> Poll<Option<OutboxMessage>> {
        self.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<OutboxMessage>> {
        let mut queue = self.0.lock();
        match queue.waiting.pop_front() {
            Some((_, message)) => Poll::Ready(Some(message)),
            None if queue.ending => Poll::Ready(None),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::atomic::{AtomicU32, Ordering},
        task::Wake,
    };

    use super::*;

    fn message(byte: u8) -> OutboxMessage {
        OutboxMessage::Frames(Arc::from([Bytes::from(vec![byte])]))
    }

    fn put(outbox: &Outbox, slot: Slot, byte: u8) {
        assert!(outbox.put(slot, message(byte)));
    }

    fn drain(waiting: &Waiting) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Poll::Ready(Some(OutboxMessage::Frames(frames))) = waiting.try_next() {
            bytes.push(frames[0][0]);
        }
        bytes
    }

    #[test]
    fn only_the_newest_task_waits() {
        let (outbox, waiting) = outbox();
        put(&outbox, Slot::Task, 1);
        put(&outbox, Slot::All, 2);
        put(&outbox, Slot::Reconstruction(0), 3);
        put(&outbox, Slot::Reconstruction(1), 4);
        put(&outbox, Slot::Task, 5);
        put(&outbox, Slot::Reconstruction(0), 6);
        drop(outbox);
        assert_eq!(drain(&waiting), [2, 4, 5, 6]);
        assert!(matches!(waiting.try_next(), Poll::Ready(None)));
    }

    #[test]
    fn a_message_taken_back_is_not_sent() {
        let (outbox, waiting) = outbox();
        put(&outbox, Slot::Loan, 1);
        put(&outbox, Slot::LoanEnded, 2);
        put(&outbox, Slot::Lesson, 3);
        outbox.take_back(Slot::Loan);
        assert_eq!(drain(&waiting), [2, 3], "word of a withdrawal is never taken back");
    }

    #[test]
    fn client_that_reads_nothing_is_given_up() {
        let (outbox, _waiting) = outbox();
        for _ in 0..MAX_WAITING {
            put(&outbox, Slot::All, 0);
        }
        assert!(!outbox.put(Slot::All, message(1)));
        put(&outbox, Slot::Task, 2);
    }

    /// Counts how often the reader was woken.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn reader_wakes_up_at_a_message_and_at_the_end() {
        let (outbox, waiting) = outbox();
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut next = pin!(waiting.next());
        assert!(next.as_mut().poll(&mut context).is_pending());
        put(&outbox, Slot::All, 7);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(next.as_mut().poll(&mut context).is_ready());
        next.set(waiting.next());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(outbox);
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(None)));
    }
}
