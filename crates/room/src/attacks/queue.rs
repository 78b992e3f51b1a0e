//! The queue of tasks on the newest update.

use std::collections::{BTreeMap, BTreeSet};

use unmask_core::AttackMethod;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Label,
    /// Reconstruct the picture.
    Method(AttackMethod),
    /// Tell whether the teacher's picture was in the update.
    Membership,
}

impl Task {
    /// Whether the task may use up any time it is given. On a small machine with one thread, short tasks run first.
    fn is_long(self) -> bool {
        matches!(self, Self::Method(AttackMethod::Completion | AttackMethod::Rounds | AttackMethod::Batch))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Method(method) => method.name(),
            Self::Membership => "membership",
        }
    }
}

/// A task for the update `J`.
#[derive(Debug, PartialEq)]
pub(super) struct QueuedTask<J> {
    pub(super) task: Task,
    pub(super) job: J,
    /// Whether the teacher has just asked for the task, which exempts it from the time limit.
    pub(super) is_asked: bool,
}

/// Waiting tasks on the newest update. Tasks left out of the previous update come first, those that waited longest in
/// front; then short tasks, then long ones. A task never runs twice at the same time, so that a slow one occupies only
/// one thread.
#[derive(Debug)]
pub(super) struct Queue<J> {
    waiting: Vec<QueuedTask<J>>,
    running: BTreeSet<Task>,
    /// Tasks that did not run on their last update.
    left_out: BTreeSet<Task>,
    /// Number of the update on which each task last ran.
    last: BTreeMap<Task, u64>,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self { waiting: Vec::new(), running: BTreeSet::new(), left_out: BTreeSet::new(), last: BTreeMap::new() }
    }
}

impl<J: Clone> Queue<J> {
    /// Queues the tasks for a newer update. Drops those that still wait for an older one.
    pub(super) fn renew(&mut self, tasks: impl IntoIterator<Item = Task>, job: &J) {
        self.left_out.extend(self.waiting.drain(..).map(|queued| queued.task));
        for task in tasks {
            self.add(QueuedTask { task, job: job.clone(), is_asked: false });
        }
    }

    /// Queues a task for the newest update, replacing the same task if it is waiting.
    pub(super) fn add(&mut self, queued: QueuedTask<J>) {
        self.waiting.retain(|waiting| waiting.task != queued.task);
        let key = |task: Task| {
            let is_left_out = self.left_out.contains(&task);
            (!is_left_out, !is_left_out && task.is_long(), self.last.get(&task).copied().unwrap_or(0), task)
        };
        let place = self.waiting.partition_point(|waiting| key(waiting.task) < key(queued.task));
        self.waiting.insert(place, queued);
    }

    /// Starts and returns the next task that may begin. `serial` is the number of the newest update.
    pub(super) fn take(&mut self, serial: u64, is_ready: impl Fn(Task) -> bool) -> Option<QueuedTask<J>> {
        let may = |queued: &QueuedTask<J>| !self.running.contains(&queued.task) && is_ready(queued.task);
        let queued = self.waiting.remove(self.waiting.iter().position(may)?);
        self.running.insert(queued.task);
        self.left_out.remove(&queued.task);
        self.last.insert(queued.task, serial);
        Some(queued)
    }

    /// Removes the tasks for which there is no time. They run first on the next update.
    pub(super) fn skip(&mut self, is_skipped: impl Fn(&QueuedTask<J>) -> bool) -> Vec<Task> {
        let skipped: Vec<Task> =
            self.waiting.iter().filter(|queued| is_skipped(queued)).map(|queued| queued.task).collect();
        self.waiting.retain(|queued| !is_skipped(queued));
        self.left_out.extend(&skipped);
        skipped
    }

    pub(super) fn done(&mut self, task: Task) {
        self.running.remove(&task);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

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
        // A task overtaken while it waits counts as left out.
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
