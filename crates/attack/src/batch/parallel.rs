//! Parallel loops with results in order. A browser has only one thread.

#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

/// Memory that all calls of a loop may take together, in bytes.
#[cfg(not(target_family = "wasm"))]
const MOST_BYTES: usize = 1 << 30;

/// Calls `work` on 0 to `count` - 1, on every processor.
pub(super) fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    map_large(count, 0, work)
}

/// As [`map`], with as few calls at once as calls of so many bytes need, but at least one.
pub(super) fn map_large<T: Send>(count: usize, bytes: usize, work: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    #[cfg(not(target_family = "wasm"))]
    {
        let at_once = (MOST_BYTES / bytes.max(1)).max(1);
        let least = count.div_ceil(at_once).max(1);
        (0..count).into_par_iter().with_min_len(least).with_max_len(least).map(work).collect()
    }
    #[cfg(target_family = "wasm")]
    {
        let _ = bytes;
        (0..count).map(work).collect()
    }
}
