//! The worker that searches through the model.

mod current;

use std::time::Duration;

use unmask_attack::Searches;
use unmask_wire::view::SearchState;

pub(super) use self::current::Current;
use super::{
    report::Report,
    schedule::{Schedule, Shared},
    search_queue::Target,
};
use crate::time::Moment;

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
}

/// Takes the next step of the search; `None` if there is none to take. It may begin a search, or end it.
pub(super) fn step(
    shared: &Shared,
    searches: &dyn Searches,
    current: &mut Option<Box<Current>>,
    now: &dyn Fn() -> Moment,
) -> Option<Vec<Report>> {
    // Its time is free while the room is paused.
    let (order, is_free) = {
        let mut schedule = shared.lock();
        (order(&mut schedule, current.as_deref())?, schedule.is_paused)
    };
    let started = now();
    let findings = match order {
        Order::Forget => current.take().map(|mut current| current.rest(SearchState::Stopped, now)).unwrap_or_default(),
        Order::Begin(target) => {
            // Free the old search's memory before the new one allocates its own.
            drop(current.take());
            current.insert(Box::new(Current::begin(searches, *target, now))).news(now)
        }
        Order::Retarget(target) => match current {
            Some(found) => {
                found.retarget(searches, *target, now);
                found.news(now)
            }
            None => Vec::new(),
        },
        Order::Step => current.as_mut().map(|current| current.step(searches, now)).unwrap_or_default(),
        Order::Rest(state) => current.as_mut().map(|current| current.rest(state, now)).unwrap_or_default(),
    };
    spend(shared, now() - started, is_free);
    Some(findings.into_iter().map(|finding| Report::Found(Box::new(finding))).collect())
}

fn spend(shared: &Shared, time: Duration, is_free: bool) {
    if !is_free {
        shared.lock().budget.spend_now(time);
    }
}

fn order(schedule: &mut Schedule, current: Option<&Current>) -> Option<Order> {
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
