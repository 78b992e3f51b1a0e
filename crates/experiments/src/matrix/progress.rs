//! Progress of rows that are computed in parallel.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{MatrixEvent, OnMatrixEvent, plan::Cell};

/// Passes events on one at a time, from any thread.
pub(super) struct Progress<'a>(Mutex<State<'a>>);

struct State<'a> {
    on_event: OnMatrixEvent<'a>,
    finished: u64,
    /// Work of unfinished rows, by row number.
    under_way: BTreeMap<usize, u64>,
    is_stopped: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(on_event: OnMatrixEvent<'a>) -> Self {
        Self(Mutex::new(State { on_event, finished: 0, under_way: BTreeMap::new(), is_stopped: false }))
    }

    pub(super) fn tell(&self, event: MatrixEvent<'_>) -> ControlFlow<()> {
        self.lock().tell(|_| event)
    }

    pub(super) fn reached(&self, cell: &Cell, work: u64) -> ControlFlow<()> {
        let mut state = self.lock();
        state.under_way.insert(cell.number, work);
        state.tell(|done| MatrixEvent::Progress { done })
    }

    pub(super) fn finished(&self, cell: &Cell, work: u64) -> ControlFlow<()> {
        let mut state = self.lock();
        state.under_way.remove(&cell.number);
        state.finished += work;
        state.tell(|done| MatrixEvent::RowFinished { done })
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State<'_> {
    fn tell<'b>(&mut self, event: impl FnOnce(u64) -> MatrixEvent<'b>) -> ControlFlow<()> {
        let done = self.finished + self.under_way.values().sum::<u64>();
        // After the handler has stopped the run it is not called again.
        self.is_stopped = self.is_stopped || (self.on_event)(event(done)).is_break();
        if self.is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
