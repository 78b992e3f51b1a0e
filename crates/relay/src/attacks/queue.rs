//! What is to be run on the newest update.

use std::collections::{BTreeMap, BTreeSet};

use unmask_core::AttackMethod;

/// One thing to do with an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Read the labels.
    Label,
    /// Reconstruct the picture.
    Method(AttackMethod),
    /// Tell whether the picture that was dropped is the client's.
    Membership,
}

impl Task {
    /// Whether it may take as long as it is given: what takes moments comes before it, on the only thread of a small machine.
    fn is_long(self) -> bool {
        matches!(self, Self::Method(AttackMethod::Completion | AttackMethod::Rounds))
    }

    /// Its name in the budget's view.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Method(method) => method.name(),
            Self::Membership => "membership",
        }
    }
}

/// A task with the update `J` it is for.
#[derive(Debug, PartialEq)]
pub(super) struct QueuedTask<J> {
    /// What to do.
    pub(super) task: Task,
    /// The update.
    pub(super) job: J,
    /// Whether the teacher has just asked for it, so that it is not left out for want of time.
    pub(super) is_asked: bool,
}

/// Tasks on the newest update that wait: first those that were left out of the one before, which went longest without a turn
/// before the others; then short ones before long ones. No task runs twice at one time, so
/// that a slow one takes one thread and not all.
#[derive(Debug)]
pub(super) struct Queue<J> {
    waiting: Vec<QueuedTask<J>>,
    running: BTreeSet<Task>,
    /// Those that had no turn on the newest update they were for.
    left_out: BTreeSet<Task>,
    /// The number of the update on which a task last had its turn.
    last: BTreeMap<Task, u64>,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self { waiting: Vec::new(), running: BTreeSet::new(), left_out: BTreeSet::new(), last: BTreeMap::new() }
    }
}

impl<J: Clone> Queue<J> {
    /// A newer update: what still waits for an older one is dropped.
    pub(super) fn renew(&mut self, tasks: impl IntoIterator<Item = Task>, job: &J) {
        self.left_out.extend(self.waiting.drain(..).map(|queued| queued.task));
        for task in tasks {
            self.add(QueuedTask { task, job: job.clone(), is_asked: false });
        }
    }

    /// One more task for the newest update, in place of the same one where that waits.
    pub(super) fn add(&mut self, queued: QueuedTask<J>) {
        self.waiting.retain(|waiting| waiting.task != queued.task);
        let key = |task: Task| {
            let is_left_out = self.left_out.contains(&task);
            (!is_left_out, !is_left_out && task.is_long(), self.last.get(&task).copied().unwrap_or(0), task)
        };
        let place = self.waiting.partition_point(|waiting| key(waiting.task) < key(queued.task));
        self.waiting.insert(place, queued);
    }

    /// The next task that may begin, which runs from now on. `serial` is the number of the newest update.
    pub(super) fn take(&mut self, serial: u64, is_ready: impl Fn(Task) -> bool) -> Option<QueuedTask<J>> {
        let may = |queued: &QueuedTask<J>| !self.running.contains(&queued.task) && is_ready(queued.task);
        let queued = self.waiting.remove(self.waiting.iter().position(may)?);
        self.running.insert(queued.task);
        self.left_out.remove(&queued.task);
        self.last.insert(queued.task, serial);
        Some(queued)
    }

    /// Takes out those that may not begin for want of time; they have their turn first on the next update.
    pub(super) fn skip(&mut self, is_skipped: impl Fn(&QueuedTask<J>) -> bool) -> Vec<Task> {
        let skipped: Vec<Task> =
            self.waiting.iter().filter(|queued| is_skipped(queued)).map(|queued| queued.task).collect();
        self.waiting.retain(|queued| !is_skipped(queued));
        self.left_out.extend(&skipped);
        skipped
    }

    /// A task has ended.
    pub(super) fn done(&mut self, task: Task) {
        self.running.remove(&task);
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Whether something waits for its turn.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether nothing waits and nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMBEDDING: Task = Task::Method(AttackMethod::Embedding);
    const APRIL: Task = Task::Method(AttackMethod::April);

    fn next(queue: &mut Queue<u64>, serial: u64) -> Option<(Task, u64)> {
        queue.take(serial, |_| true).map(|queued| (queued.task, queued.job))
    }

    #[test]
    fn whoever_had_no_turn_goes_first_on_the_next_update() {
        let mut queue = Queue::default();
        queue.renew([EMBEDDING, APRIL, Task::Label], &1);
        assert_eq!(next(&mut queue, 1), Some((Task::Label, 1)));
        queue.done(Task::Label);
        assert_eq!(next(&mut queue, 1), Some((EMBEDDING, 1)));
        queue.done(EMBEDDING);
        assert_eq!(queue.skip(|_| true), [APRIL]);
        assert!(queue.is_idle());
        queue.renew([Task::Label, EMBEDDING, APRIL], &2);
        assert_eq!(next(&mut queue, 2), Some((APRIL, 2)));
        // Overtaken while it waits is as good as left out.
        queue.renew([Task::Label, EMBEDDING, APRIL], &3);
        queue.done(APRIL);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue, 3)).map(|(task, _)| task).collect();
        assert_eq!(order, [Task::Label, EMBEDDING, APRIL]);
    }

    #[test]
    fn what_takes_its_time_is_last_even_where_it_had_no_turn() {
        let mut queue = Queue::default();
        queue.renew([EMBEDDING], &1);
        assert_eq!(next(&mut queue, 1), Some((EMBEDDING, 1)));
        queue.done(EMBEDDING);
        let completion = Task::Method(AttackMethod::Completion);
        queue.renew([completion, EMBEDDING], &2);
        assert_eq!(next(&mut queue, 2), Some((EMBEDDING, 2)));
        assert!(queue.is_awaited());
        assert_eq!(next(&mut queue, 2), Some((completion, 2)));
        assert!(!queue.is_awaited());
    }

    #[test]
    fn no_task_runs_twice_at_one_time() {
        let mut queue = Queue::default();
        queue.renew([EMBEDDING], &1);
        assert_eq!(next(&mut queue, 1), Some((EMBEDDING, 1)));
        queue.renew([EMBEDDING, APRIL], &2);
        assert_eq!(next(&mut queue, 2), Some((APRIL, 2)));
        assert_eq!(next(&mut queue, 2), None);
        queue.done(EMBEDDING);
        assert_eq!(next(&mut queue, 2), Some((EMBEDDING, 2)));
    }

    #[test]
    fn what_is_not_ready_waits() {
        let mut queue = Queue::default();
        queue.renew([EMBEDDING, APRIL], &1);
        assert_eq!(queue.take(1, |task| task != EMBEDDING).map(|queued| queued.task), Some(APRIL));
        assert_eq!(queue.take(1, |task| task != EMBEDDING), None);
        assert!(!queue.is_idle());
    }
}
