//! Reports refused connections to the room without flooding its log.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use unmask_room::Input;

/// Longest time until counted refusals are reported.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of distinct reasons within one period.
const MAX_REASONS: usize = 8;
/// Refusals that may wait to be counted. Further ones are missing from the log only.
const MAX_WAITING: usize = 1024;
const OTHERS: &str = "various reasons";

/// The sender of refusals to the room's log.
#[derive(Debug, Clone)]
pub(crate) struct Refusals(mpsc::Sender<String>);

impl Refusals {
    /// Starts a task that reports a new reason to the room immediately, and a repeated one at most once a minute. The
    /// task ends with the last clone of this value, or with the room.
    pub(crate) fn told_to(room: mpsc::WeakSender<Input>) -> Self {
        let (sender, reasons) = mpsc::channel(MAX_WAITING);
        tokio::spawn(tell(reasons, room));
        Self(sender)
    }

    /// Notes a refused connection without waiting; `reason` completes "A connection was refused: ".
    pub(crate) fn note(&self, reason: String) {
        let _ = self.0.try_send(reason);
    }
}

async fn tell(mut reasons: mpsc::Receiver<String>, room: mpsc::WeakSender<Input>) {
    let mut unsaid = Unsaid::default();
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let lines = tokio::select! {
            reason = reasons.recv() => match reason {
                Some(reason) => unsaid.count(reason).into_iter().collect(),
                None => return,
            },
            _ = period.tick() => unsaid.take(),
        };
        for (reason, count) in lines {
            let Some(room) = room.upgrade() else { return };
            if room.send(Input::TurnedAway { count, reason }).await.is_err() {
                return;
            }
        }
    }
}

/// How often each reason occurred since its last report.
#[derive(Debug, Default)]
struct Unsaid(BTreeMap<String, u64>);

impl Unsaid {
    /// Counts a reason. Returns it for immediate report if it is new.
    fn count(&mut self, reason: String) -> Option<(String, u64)> {
        if let Some(count) = self.0.get_mut(&reason) {
            *count += 1;
            return None;
        }
        if self.0.len() < MAX_REASONS {
            self.0.insert(reason.clone(), 0);
            return Some((reason, 1));
        }
        *self.0.entry(OTHERS.to_owned()).or_default() += 1;
        None
    }

    /// Takes the accumulated counts. Forgets a reason that did not recur, so that it counts as new next time.
    fn take(&mut self) -> Vec<(String, u64)> {
        self.0.retain(|_, count| *count > 0);
        self.0.iter_mut().map(|(reason, count)| (reason.clone(), std::mem::take(count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_at_once_and_then_counted() {
        let mut unsaid = Unsaid::default();
        assert_eq!(unsaid.count("full".into()), Some(("full".into(), 1)));
        assert_eq!((unsaid.count("full".into()), unsaid.count("full".into())), (None, None));
        assert_eq!(unsaid.take(), [("full".into(), 2)]);
        assert_eq!(unsaid.count("full".into()), None, "it goes on");
        assert_eq!(unsaid.take(), [("full".into(), 1)]);
        assert!(unsaid.take().is_empty());
        assert_eq!(unsaid.count("full".into()), Some(("full".into(), 1)), "it begins again");
    }

    #[test]
    fn ever_other_reasons_are_counted_together() {
        let mut unsaid = Unsaid::default();
        let said = (0..1000).filter_map(|number| unsaid.count(format!("reason {number}"))).count();
        assert_eq!(said, MAX_REASONS);
        assert_eq!(unsaid.take(), [(OTHERS.to_owned(), 1000 - MAX_REASONS as u64)]);
    }
}
