//! Percentiles, slopes, and the operating system's numbers about a process.

use std::{fmt, fs, time::Duration};

use unmask_core::processor_name;

/// Sorted times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<Duration>);

impl Times {
    /// The time that a share of them, between 0 and 1, does not exceed; zero if there are no times.
    pub fn percentile(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((share * last as f64).ceil() as usize).copied().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| self.percentile(share).as_secs_f64() * 1e3);
        write!(f, "p50 {p50:.0} ms, p99 {p99:.0} ms, longest {most:.0} ms")
    }
}

/// The resources of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Resident memory in MB (10^6 bytes).
    pub(crate) megabytes: f64,
    pub(crate) descriptors: usize,
}

impl Usage {
    /// The usage of the process with this number; `None` if the system does not tell or there is no such process.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        Some(Self { megabytes: resident(&status)?, descriptors })
    }
}

fn resident(status: &str) -> Option<f64> {
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(kibibytes.trim().parse::<f64>().ok()? * 1024.0 / 1e6)
}

/// The processor's name and number of cores, to print with the measurements.
pub fn processor() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    format!("{}, {cores} cores", processor_name(&info).unwrap_or("unknown processor"))
}

/// A slope with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    pub value: f64,
    pub error: f64,
}

/// The slope of the least-squares line through the points, whose errors are taken for independent; `None` for fewer than
/// three.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    let freedom = points.len().checked_sub(2).filter(|&freedom| freedom > 0)?;
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if variance == 0.0 {
        return None;
    }
    let value = covariance / variance;
    let left: f64 = points.iter().map(|(x, y)| (y - mean_y - value * (x - mean_x)).powi(2)).sum();
    Some(Slope { value, error: (left / freedom as f64 / variance).sqrt() })
}

/// The least y of each interval of x of this length, with the middle of the interval.
pub(crate) fn least(points: &[(f64, f64)], length: f64) -> Vec<(f64, f64)> {
    let mut least: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in points {
        let middle = ((x / length).floor() + 0.5) * length;
        match least.last_mut() {
            Some((last, lowest)) if *last == middle => *lowest = lowest.min(y),
            _ => least.push((middle, y)),
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_came() {
        let times: Times = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| times.percentile(share).as_millis()), [1, 51, 100, 100]);
        assert_eq!(Times::default().percentile(0.99), Duration::ZERO);
        assert_eq!(times.to_string(), "p50 51 ms, p99 100 ms, longest 100 ms");
    }

    #[test]
    fn slopes() {
        let exact = slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert!((exact.value - 2.0).abs() < 1e-12 && exact.error < 1e-12, "{exact:?}");
        // Residuals 1, -2, 1 over one degree of freedom, and a variance of 2.
        let rough = slope(&[(0.0, 1.0), (1.0, -2.0), (2.0, 1.0)]).unwrap();
        assert!(rough.value.abs() < 1e-12 && (rough.error - 3f64.sqrt()).abs() < 1e-12, "{rough:?}");
        assert_eq!([slope(&[(0.0, 1.0), (1.0, 1.0)]), slope(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)])], [None; 2]);
        assert_eq!(least(&[(0.1, 5.0), (0.9, 3.0), (1.0, 9.0), (1.2, 8.0)], 1.0), [(0.5, 3.0), (1.5, 8.0)]);
    }

    #[test]
    fn resident_memory_is_read_from_its_line() {
        assert_eq!(resident("Name:\tunmask\nVmRSS:\t  250000 kB\nThreads:\t9\n"), Some(256.0));
        assert_eq!(resident("Name:\tunmask\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_holds_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.megabytes > 0.5 && usage.descriptors >= 3, "{usage:?}");
    }
}
