//! Parallel loops with results in order. A browser has only one thread.

#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

/// Calls `work` on 0 to `count` - 1, on every processor.
pub(super) fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    #[cfg(not(target_family = "wasm"))]
    return (0..count).into_par_iter().with_max_len(1).map(work).collect();
    #[cfg(target_family = "wasm")]
    (0..count).map(work).collect()
}
