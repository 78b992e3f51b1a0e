//! Reuses the memory of a processed update for a later one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One buffer for the whole room. Allocating memory for a large update takes longer than adding the update up. One
/// buffer per client would cost a model's memory each.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReusableBuffer(Arc<Mutex<Vec<f32>>>);

impl ReusableBuffer {
    /// Keeps the larger of this buffer and the stored one.
    pub(crate) fn put(&self, buffer: Vec<f32>) {
        let mut kept = self.lock();
        if buffer.capacity() > kept.capacity() {
            *kept = buffer;
        }
    }

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
