//! Memory of an update that is done with, for an update to come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One buffer, shared by the room and its sockets: fresh memory for a large model's update costs the operating system
/// more time than adding it up does. It is one for the whole room, since one for each client would be a model each.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReusableBuffer(Arc<Mutex<Vec<f32>>>);

impl ReusableBuffer {
    /// Keeps the larger of this buffer and the one at hand.
    pub(crate) fn put(&self, buffer: Vec<f32>) {
        let mut kept = self.lock();
        if buffer.capacity() > kept.capacity() {
            *kept = buffer;
        }
    }

    /// The buffer at hand, or an empty one.
    pub(crate) fn take(&self) -> Vec<f32> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<f32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_buffer_is_kept_and_given_once() {
        let reusable_buffer = ReusableBuffer::default();
        reusable_buffer.put(vec![0.0; 10]);
        let large = vec![0.0; 1000];
        let place = large.as_ptr();
        reusable_buffer.clone().put(large);
        reusable_buffer.put(vec![0.0; 20]);
        let kept = reusable_buffer.take();
        assert_eq!(kept.as_ptr(), place);
        assert_eq!(reusable_buffer.take().capacity(), 0);
    }
}
