//! The attacks on a bench, step by step.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use super::Bench;
use crate::{Input, Moment, Step};

impl Bench {
    /// Lets an attack find the clock this much later at each look, which counts towards its budget. No time passes for
    /// the room.
    pub fn let_looks_take(&mut self, look: Duration) {
        self.look = look;
    }

    /// Lets the worker of this number, or each of them, take a step of the attacks. Returns whether there was one.
    pub fn attack(&mut self, worker: usize) -> bool {
        let (moment, look, count) = (self.now.moment, self.look, self.workers.len());
        let reports = RefCell::new(Vec::new());
        let tell = |report| reports.borrow_mut().push(Input::Attacked(report));
        let mut has_worked = false;
        for (number, each) in self.workers.iter_mut().enumerate() {
            if (worker == usize::MAX || worker % count == number)
                && let Step::Worked(news) = each.step(&clock(moment, look), &tell)
            {
                has_worked = true;
                news.into_iter().for_each(tell);
            }
        }
        self.hear(reports.into_inner());
        has_worked
    }
}

/// A clock that shows this moment at first, and moves on at each look.
fn clock(moment: Moment, look: Duration) -> impl Fn() -> Moment {
    let shown = Cell::new(moment);
    move || shown.replace(shown.get() + look)
}
