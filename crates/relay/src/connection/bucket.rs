//! Rate limiting.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A token bucket: a burst, then a steady rate per second.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    burst: f64,
    per_second: f64,
    counted: Instant,
}

impl Bucket {
    /// Returns a full bucket. Both numbers are raised to at least 1.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { tokens: burst, burst, per_second: f64::from(per_second.max(1)), counted: Instant::now() }
    }

    /// Waits for a token without taking it, so that cancelling loses nothing.
    pub(crate) async fn ready(&mut self) {
        loop {
            self.fill(Instant::now());
            match self.missing() {
                Duration::ZERO => return,
                missing => sleep(missing).await,
            }
        }
    }

    pub(crate) fn take(&mut self) {
        self.tokens -= 1.0;
    }

    fn missing(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.tokens) / self.per_second).max(0.0))
    }

    fn fill(&mut self, now: Instant) {
        let since = now.duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + since * self.per_second).min(self.burst);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_at_once_and_then_at_the_rate() {
        let mut bucket = Bucket::new(20, 60);
        for _ in 0..60 {
            assert_eq!(bucket.missing(), Duration::ZERO);
            bucket.take();
        }
        assert_eq!(bucket.missing(), Duration::from_millis(50));
        let later = bucket.counted + Duration::from_millis(110);
        bucket.fill(later);
        for _ in 0..2 {
            assert_eq!(bucket.missing(), Duration::ZERO);
            bucket.take();
        }
        assert!(bucket.missing() > Duration::ZERO);
        bucket.fill(later + Duration::from_secs(3600));
        assert!((bucket.tokens - 60.0).abs() < 1e-9, "{} tokens", bucket.tokens);
    }

    #[tokio::test]
    async fn whoever_is_out_of_tokens_waits() {
        let mut bucket = Bucket::new(10, 1);
        let begun = Instant::now();
        for _ in 0..4 {
            bucket.ready().await;
            bucket.take();
        }
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    }
}
