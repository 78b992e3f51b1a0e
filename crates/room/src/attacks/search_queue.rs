//! The room's orders for the search through the model.

use std::sync::Arc;

use unmask_attack::WholeUpdate;

use super::job::Job;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) job: Arc<Job>,
    /// The update in full, with its model.
    pub(super) whole: Arc<WholeUpdate>,
}

#[derive(Debug, Default)]
pub(super) struct SearchQueue {
    is_on: bool,
    /// The newest update that arrived while the search was on and that has not been searched.
    pub(super) next: Option<Target>,
    /// Whether the current search is outdated: a newer update arrived while the search was off, its client is no longer
    /// the target, or its model is gone.
    pub(super) is_overtaken: bool,
}

impl SearchQueue {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn turn(&mut self, on: bool) {
        self.is_on = on;
        if !on {
            self.next = None;
        }
    }

    /// Offers a newer update of the target; returns the waiting update that it replaces. While the search is off, the
    /// update comes without its model and outdates the current search.
    pub(super) fn offer(&mut self, job: &Arc<Job>, whole: Option<Arc<WholeUpdate>>) -> Option<Target> {
        let Some(whole) = whole.filter(|whole| self.is_on && !whole.gradient.is_empty()) else {
            self.is_overtaken = true;
            return None;
        };
        self.next.replace(Target { job: Arc::clone(job), whole })
    }

    /// Marks the current search as outdated, and returns the update that was waiting. Its model is gone or its client
    /// is no longer the target.
    pub(super) fn forget(&mut self) -> Option<Target> {
        self.is_overtaken = true;
        self.next.take()
    }
}
