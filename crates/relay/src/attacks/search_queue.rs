//! What the room wants of the search through the model.

use std::sync::Arc;

use unmask_attack::WholeUpdate;

use super::job::Job;

/// An update to search through.
#[derive(Debug)]
pub(super) struct Target {
    /// The update.
    pub(super) job: Arc<Job>,
    /// It whole, with its model.
    pub(super) whole: Arc<WholeUpdate>,
}

/// What the room wants of the search.
#[derive(Debug, Default)]
pub(super) struct SearchQueue {
    /// Whether to search.
    is_on: bool,
    /// The newest update that came while it was on and has not been searched.
    pub(super) next: Option<Target>,
    /// Whether what is being searched counts no longer: a newer update came while it was off, or it is nobody's who is attacked.
    pub(super) is_overtaken: bool,
}

impl SearchQueue {
    /// Whether to search.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins, goes on or stops.
    pub(super) fn turn(&mut self, on: bool) {
        self.is_on = on;
        if !on {
            self.next = None;
        }
    }

    /// A newer update of the client under attack, without its model where the search is off; the one that it replaces.
    pub(super) fn offer(&mut self, job: &Arc<Job>, whole: Option<Arc<WholeUpdate>>) -> Option<Target> {
        let Some(whole) = whole.filter(|whole| self.is_on && !whole.gradient.is_empty()) else {
            self.is_overtaken = true;
            return None;
        };
        self.next.replace(Target { job: Arc::clone(job), whole })
    }

    /// Everything belongs to a model that is gone, or to somebody who is not attacked any more; what waited.
    pub(super) fn forget(&mut self) -> Option<Target> {
        self.is_overtaken = true;
        self.next.take()
    }
}
