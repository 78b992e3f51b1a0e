//! The workers that do what the attacks' schedule asks for.

use std::{fmt, sync::Arc};

use unmask_attack::{NoSearches, Searches};

use super::{
    everybody, gathering, pool,
    report::Report,
    schedule::Shared,
    search::{self, Current},
    sum,
};
use crate::time::Moment;

pub(super) enum Duty {
    /// Closed forms, labels and membership on the newest update.
    ClosedForms,
    /// The search through the model, if one has begun.
    Search(Option<Box<Current>>),
    /// Adding up rounds of one client. This is cheap and must not wait behind an attack.
    Gathering,
    /// One update of each client, or the sum of a few.
    Everybody,
}

/// One worker of a room's attacks. Its host lets it step again and again, beside the others.
pub struct Worker {
    duty: Duty,
    shared: Arc<Shared>,
    searches: Option<Arc<dyn Searches>>,
}

/// What came of a step.
#[derive(Debug)]
pub enum Step {
    /// There was nothing to do. The schedule's `wake` is called when there may be again.
    Idle,
    /// Work was done; its reports go to the room as [`Input::Attacked`](crate::Input).
    Worked(Vec<Report>),
    /// The room is gone, and so is the work.
    Over,
}

impl Worker {
    pub(super) fn new(duty: Duty, shared: Arc<Shared>, searches: Option<Arc<dyn Searches>>) -> Self {
        Self { duty, shared, searches }
    }

    /// A name for its thread.
    pub fn name(&self) -> &'static str {
        match self.duty {
            Duty::ClosedForms => "attacks",
            Duty::Search(_) => "search",
            Duty::Gathering => "gathering",
            Duty::Everybody => "everybody",
        }
    }

    /// Does the next piece of work, which takes a while, by the clock `now`. `tell` gets what the room should hear before the
    /// end. An attack that panics is reported as one that broke down.
    pub fn step(&mut self, now: &dyn Fn() -> Moment, tell: &dyn Fn(Report)) -> Step {
        let Self { duty, shared, searches } = self;
        if shared.lock().is_closed {
            return Step::Over;
        }
        let searches: &dyn Searches = searches.as_deref().unwrap_or(&NoSearches);
        let worked = match duty {
            Duty::ClosedForms => pool::step(shared, searches, now),
            Duty::Search(current) => search::step(shared, searches, current, now),
            Duty::Gathering => gathering::step(shared),
            Duty::Everybody => everybody::step(shared).or_else(|| sum::step(shared, searches, now, tell)),
        };
        worked.map_or(Step::Idle, Step::Worked)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.name()).finish()
    }
}
