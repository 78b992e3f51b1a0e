//! The newest of many.

use std::collections::VecDeque;

/// Most points of a curve.
pub(super) const CURVE: usize = 1000;

/// The newest `most` items, oldest first.
#[derive(Debug)]
pub(super) struct Recent<T> {
    items: VecDeque<T>,
    most: usize,
}

impl<T> Recent<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { items: VecDeque::new(), most }
    }

    /// Adds one, and forgets the oldest if there are too many.
    pub(super) fn push(&mut self, item: T) {
        if self.items.len() == self.most {
            self.items.pop_front();
        }
        self.items.push_back(item);
    }

    /// Takes up items that were written down.
    pub(super) fn refilled(mut self, items: impl IntoIterator<Item = T>) -> Self {
        items.into_iter().for_each(|item| self.push(item));
        self
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    pub(super) fn retain(&mut self, is_kept: impl FnMut(&T) -> bool) {
        self.items.retain(is_kept);
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
    }
}
