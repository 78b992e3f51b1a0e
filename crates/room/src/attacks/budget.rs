//! The time that attacks may take.

use std::time::Duration;

use unmask_wire::view::BudgetView;

/// While rounds run, an attack is ended after this many budgets. This is a compromise: a higher factor lets attacks
/// succeed on larger models but delays their results. At 5 s a round it leaves enough time for low-rank completion of
/// 224 x 224 pixels, which takes 7 to 12 s when it finds the picture, and keeps a stuck attack from holding a thread
/// for minutes.
const OVERTIME: u32 = 4;

/// Time spent on the newest update, and the attacks skipped on it.
#[derive(Debug)]
pub(super) struct Budget {
    limit: Duration,
    newest: u64,
    spent: Duration,
    skipped: Vec<&'static str>,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, newest: 0, spent: Duration::ZERO, skipped: Vec::new() }
    }

    /// Sets the time for each round; 0 runs nothing.
    pub(super) fn set(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Starts counting for a newer update.
    pub(super) fn begin(&mut self, serial: u64) {
        (self.newest, self.spent) = (serial, Duration::ZERO);
        self.skipped.clear();
    }

    /// Counts time spent on update number `serial`. Time spent on an older update does not reduce the newest one's
    /// budget.
    pub(super) fn spend(&mut self, serial: u64, time: Duration) {
        if serial == self.newest {
            self.spent += time;
        }
    }

    /// Counts time spent on a search, on any update, towards the current round.
    pub(super) fn spend_now(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Whether no further attack may begin.
    pub(super) fn is_spent(&self) -> bool {
        self.spent >= self.limit
    }

    /// Whether an attack that has run for this long has exceeded its time.
    pub(super) fn is_overrun(&self, time: Duration) -> bool {
        time > self.limit.saturating_mul(OVERTIME)
    }

    /// Whether nothing may run at all.
    pub(super) fn is_none(&self) -> bool {
        self.limit.is_zero()
    }

    pub(super) fn skip(&mut self, name: &'static str) {
        self.skipped.push(name);
    }

    /// Notes that a skipped attack ran after all.
    pub(super) fn make_up(&mut self, name: &str) {
        self.skipped.retain(|skipped| *skipped != name);
    }

    pub(super) fn view(&self) -> BudgetView {
        BudgetView {
            seconds: self.limit.as_secs_f64(),
            spent: self.spent.as_secs_f64(),
            skipped: self.skipped.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_older_updates_time_is_not_held_against_the_newest() {
        let mut budget = Budget::new(2 * SECOND);
        budget.begin(1);
        budget.spend(1, SECOND);
        budget.skip("april");
        budget.begin(2);
        budget.spend(1, 5 * SECOND);
        assert!(!budget.is_spent() && budget.view().skipped.is_empty());
        budget.spend(2, SECOND);
        budget.spend_now(SECOND);
        assert!(budget.is_spent());
        assert_eq!((budget.view().seconds, budget.view().spent), (2.0, 2.0));
        budget.set(3 * SECOND);
        assert!(!budget.is_spent());
    }

    #[test]
    fn an_attack_may_take_a_few_budgets() {
        let budget = Budget::new(5 * SECOND);
        assert!(!budget.is_overrun(20 * SECOND) && budget.is_overrun(21 * SECOND));
        assert!(Budget::new(Duration::ZERO).is_overrun(SECOND));
        assert!(!Budget::new(Duration::MAX).is_overrun(Duration::MAX), "no time is too long");
    }

    #[test]
    fn no_budget_runs_nothing() {
        let mut budget = Budget::new(Duration::ZERO);
        budget.begin(1);
        assert!(budget.is_spent() && budget.is_none());
        budget.skip("embedding");
        budget.skip("april");
        budget.make_up("embedding");
        assert_eq!(budget.view().skipped, ["april"]);
    }
}
