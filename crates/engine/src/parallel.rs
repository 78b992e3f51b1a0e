//! Work on all threads. In a browser there is one.

#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;

/// Values that one thread takes at once in a pass over memory.
pub(crate) const BAND: usize = 1 << 14;

/// Rows of `len` values that one thread takes at once.
pub(crate) fn band_rows(len: usize) -> usize {
    (BAND / len.max(1)).max(1)
}

/// Runs `work` on a thread of the pool. From outside, every parallel loop would wake one first, which takes as long as a small product.
pub(crate) fn inside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    #[cfg(not(target_family = "wasm"))]
    return rayon::scope(|_| work());
    #[cfg(target_family = "wasm")]
    work()
}

/// Does `work` with each of `items`, in any order.
pub(crate) fn each<I: Send>(items: impl Iterator<Item = I>, work: impl Fn(I) + Send + Sync) {
    #[cfg(not(target_family = "wasm"))]
    {
        let items: Vec<I> = items.collect();
        if items.len() > 1 {
            // One by one: there are few, and each is worth a thread.
            items.into_par_iter().with_max_len(1).for_each(work);
        } else {
            items.into_iter().for_each(work);
        }
    }
    #[cfg(target_family = "wasm")]
    items.for_each(work);
}

/// What `work` makes of each of `items`, in their order.
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

/// Does both.
pub(crate) fn both(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    #[cfg(not(target_family = "wasm"))]
    rayon::join(one, other);
    #[cfg(target_family = "wasm")]
    {
        one();
        other();
    }
}
