//! Parallel loops. A browser has only one thread.

#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

/// Values per task in a pass over memory.
pub(crate) const BAND: usize = 1 << 14;

/// Rows of `len` values per task.
pub(crate) fn band_rows(len: usize) -> usize {
    (BAND / len.max(1)).max(1)
}

/// Runs `work` on a thread of the pool. Otherwise every parallel loop would first wake one, which takes as long as a
/// small product.
pub(crate) fn inside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    #[cfg(not(target_family = "wasm"))]
    return rayon::scope(|_| work());
    #[cfg(target_family = "wasm")]
    work()
}

/// Calls `work` on each of `items`, in any order.
pub(crate) fn each<I: Send>(items: impl Iterator<Item = I>, work: impl Fn(I) + Send + Sync) {
    #[cfg(not(target_family = "wasm"))]
    {
        let items: Vec<I> = items.collect();
        if items.len() > 1 {
            // One item per task: there are few, and each is large.
            items.into_par_iter().with_max_len(1).for_each(work);
        } else {
            items.into_iter().for_each(work);
        }
    }
    #[cfg(target_family = "wasm")]
    items.for_each(work);
}

pub(crate) fn map<I: Send, T: Send>(items: impl Iterator<Item = I>, work: impl Fn(I) -> T + Send + Sync) -> Vec<T> {
    #[cfg(not(target_family = "wasm"))]
    {
        let items: Vec<I> = items.collect();
        if items.len() > 1 {
            items.into_par_iter().with_max_len(1).map(work).collect()
        } else {
            items.into_iter().map(work).collect()
        }
    }
    #[cfg(target_family = "wasm")]
    items.map(work).collect()
}

pub(crate) fn both(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    #[cfg(not(target_family = "wasm"))]
    rayon::join(one, other);
    #[cfg(target_family = "wasm")]
    {
        one();
        other();
    }
}
