//! A bounded list of the newest items.

use std::collections::VecDeque;

/// Upper limit of points on a curve.
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

    pub(super) fn push(&mut self, item: T) {
        if self.items.len() == self.most {
            self.items.pop_front();
        }
        self.items.push_back(item);
    }

    /// Fills the list with restored items.
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
