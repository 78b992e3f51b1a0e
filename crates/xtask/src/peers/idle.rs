//! The load from other programs during a measurement.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Time of one observation. None of our programs computes during it, so that all load is from others.
const GLANCE: Duration = Duration::from_millis(300);
/// Above this share PyTorch's threads wait for the one that lost its processor, and times mean little.
const LITTLE: f64 = 0.05;

/// The share of the processors that other programs use, observed repeatedly.
#[derive(Debug, Default)]
pub struct Others {
    shares: Vec<f64>,
}

impl Others {
    /// Observes once. Works only on Linux; elsewhere it sees nothing.
    ///
    /// # Errors
    /// The kernel's counters cannot be parsed.
    pub fn look(&mut self) -> Result<()> {
        const COUNTERS: &str = "/proc/stat";
        let read = || fs::read_to_string(COUNTERS).with_context(|| format!("cannot read {COUNTERS}"));
        if !fs::exists(COUNTERS).unwrap_or(false) {
            return Ok(());
        }
        let before = read()?;
        thread::sleep(GLANCE);
        self.shares.extend(busy(&before, &read()?));
        Ok(())
    }

    /// A sentence with the mean of the observations; `None` without observations.
    pub fn sentence(&self) -> Option<String> {
        let mean = self.shares.iter().sum::<f64>() / self.shares.len() as f64;
        let percent = format!("Other programs took {:.0} % of the processors between the turns", 100.0 * mean);
        match mean {
            _ if self.shares.is_empty() => None,
            ..=LITTLE => Some(format!("{percent}.")),
            _ => Some(format!("{percent}: too much. Measure again when the machine has nothing else to do.")),
        }
    }
}

/// The share of the time between two reads of /proc/stat in which the processors were busy.
fn busy(before: &str, after: &str) -> Option<f64> {
    let counters = |text: &str| -> Option<(f64, f64)> {
        let line = text.lines().find(|line| line.starts_with("cpu "))?;
        // User, nice, system, idle, I/O wait, two kinds of interrupts, and time stolen by the hypervisor.
        let times: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Some((times.get(3)? + times.get(4)?, times.iter().sum()))
    };
    let ((idle_before, before), (idle_after, after)) = (counters(before)?, counters(after)?);
    (after > before).then(|| 1.0 - (idle_after - idle_before) / (after - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_idle_is_busy() {
        let before = "cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2 3 4\n";
        let after = "cpu  110 0 55 840 55 0 0 0 9 9\ncpu0 1 2 3 4\n";
        assert_eq!(busy(before, after), Some(0.25));
        assert_eq!(busy(before, before), None);
        assert_eq!(busy("", after), None);
    }

    #[test]
    fn a_busy_machine_is_named() {
        let say = |shares: &[f64]| Others { shares: shares.to_vec() }.sentence();
        assert_eq!(say(&[]), None);
        assert_eq!(say(&[0.0, 0.04]).as_deref(), Some("Other programs took 2 % of the processors between the turns."));
        assert!(say(&[0.0, 0.9]).is_some_and(|sentence| sentence.contains("45 %") && sentence.contains("again")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_sees_a_share() {
        let mut others = Others::default();
        others.look().expect("a kernel with counters");
        assert!(others.shares.iter().all(|share| (0.0..=1.0).contains(share)), "{others:?}");
    }
}
