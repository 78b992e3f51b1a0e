//! The thread that searches through the model.

mod current;

use std::time::{Duration, Instant};

use unmask_attack::Searches;
use unmask_wire::view::SearchState;

use self::current::Current;
use super::{
    report::Report,
    schedule::{Schedule, Shared},
    search_queue::Target,
};

#[derive(Debug)]
enum Order {
    /// Begin with an update and drop the previous search.
    Begin(Box<Target>),
    /// Continue with a newer update from the pictures found so far.
    Retarget(Box<Target>),
    Step,
    /// Report that the search has paused.
    Rest(SearchState),
    /// Stop and drop the search, because its update is outdated.
    Forget,
    End,
}

/// Searches until the room is gone.
pub(super) fn work(shared: &Shared, searches: &dyn Searches) {
    let mut current: Option<Current> = None;
    loop {
        let (order, is_free) = next(shared, current.as_ref());
        let started = Instant::now();
        let findings = match order {
            Order::End => return,
            Order::Forget => current.take().map(|mut current| current.rest(SearchState::Stopped)).unwrap_or_default(),
            Order::Begin(target) => {
                // Free the old search's memory before the new one allocates its own.
                drop(current.take());
                let mut begun = Current::begin(searches, *target);
                let findings = begun.news();
                current = Some(begun);
                findings
            }
            Order::Retarget(target) => {
                let Some(found) = &mut current else { continue };
                found.retarget(searches, *target);
                found.news()
            }
            Order::Step => current.as_mut().map(|current| current.step(searches)).unwrap_or_default(),
            Order::Rest(state) => current.as_mut().map(|current| current.rest(state)).unwrap_or_default(),
        };
        spend(shared, started.elapsed(), is_free);
        for finding in findings {
            if !shared.report(Report::Found(Box::new(finding))) {
                return;
            }
        }
    }
}

fn spend(shared: &Shared, time: Duration, is_free: bool) {
    if !is_free {
        shared.lock().budget.spend_now(time);
    }
}

/// Waits for an order. The flag says that its time is free, because the room is paused.
fn next(shared: &Shared, current: Option<&Current>) -> (Order, bool) {
    let mut schedule = shared.lock();
    loop {
        if let Some(order) = order(&mut schedule, current) {
            return (order, schedule.is_paused);
        }
        schedule = shared.wait(schedule);
    }
}

fn order(schedule: &mut Schedule, current: Option<&Current>) -> Option<Order> {
    if schedule.is_closed {
        return Some(Order::End);
    }
    let state = current.map(Current::state);
    if !schedule.search.is_on() && matches!(state, Some(SearchState::Running | SearchState::Waiting)) {
        return Some(Order::Rest(SearchState::Stopped));
    }
    if std::mem::take(&mut schedule.search.is_overtaken) && current.is_some() {
        return Some(Order::Forget);
    }
    if !schedule.search.is_on() {
        return None;
    }
    if schedule.may_search() {
        let is_same = |target: &Target| current.is_some_and(|current| current.is_like(&target.job));
        let is_done = matches!(state, None | Some(SearchState::Done));
        let is_due = |target: &mut Target| is_done || !is_same(target);
        return match schedule.search.next.take_if(is_due) {
            Some(target) if is_same(&target) => Some(Order::Retarget(Box::new(target))),
            Some(target) => Some(Order::Begin(Box::new(target))),
            None if is_done => None,
            None => Some(Order::Step),
        };
    }
    // If only the closed forms hold the search up, it resumes in a moment: report nothing.
    let is_out = schedule.budget.is_spent() && state == Some(SearchState::Running);
    is_out.then_some(Order::Rest(SearchState::Waiting))
}
