//! Buffers reused from step to step.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    parallel::{BAND, each},
    real::Real,
};

/// Free buffers by length. Every step takes the same lengths.
#[derive(Debug)]
pub(crate) struct Pool<R>(Arc<Mutex<HashMap<usize, Vec<Vec<R>>>>>);

impl<R> Clone for Pool<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> Default for Pool<R> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<R> Pool<R> {
    pub(crate) fn keep(&self, values: Vec<R>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(values.len()).or_default().push(values);
    }
}

impl<R: Real> Pool<R> {
    /// Returns a buffer of `len` arbitrary values.
    pub(crate) fn take(&self, len: usize) -> Buffer<R> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&len).and_then(Vec::pop);
        Buffer { values: kept.unwrap_or_else(|| vec![R::ZERO; len]), pool: self.clone() }
    }

    /// Returns `len` arbitrary values. The owner may give them [back](Self::keep).
    pub(crate) fn give(&self, len: usize) -> Vec<R> {
        std::mem::take(&mut self.take(len).values)
    }

    pub(crate) fn copy(&self, values: &[R]) -> Buffer<R> {
        let mut buffer = self.take(values.len());
        each(buffer.chunks_mut(BAND).zip(values.chunks(BAND)), |(to, from)| to.copy_from_slice(from));
        buffer
    }

    pub(crate) fn zeros(&self, len: usize) -> Buffer<R> {
        let mut buffer = self.take(len);
        buffer.fill(R::ZERO);
        buffer
    }
}

/// Values that return to their pool on drop.
#[derive(Debug)]
pub(crate) struct Buffer<R> {
    values: Vec<R>,
    pool: Pool<R>,
}

impl<R> Deref for Buffer<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.values
    }
}

impl<R> DerefMut for Buffer<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        &mut self.values
    }
}

impl<R> Drop for Buffer<R> {
    fn drop(&mut self) {
        if !self.values.is_empty() {
            self.pool.keep(std::mem::take(&mut self.values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again() {
        let pool = Pool::<f32>::default();
        let first = pool.take(7);
        let address = first.as_ptr();
        drop(first);
        let again = pool.take(7);
        assert_eq!(again.as_ptr(), address);
        assert_ne!(pool.take(7).as_ptr(), address);
        assert_eq!(*pool.zeros(3), [0.0; 3]);
    }
}
