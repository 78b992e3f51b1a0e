//! The (epsilon, delta) that actually holds after several rounds of Gaussian noise.
//!
//! The papers calibrate noise to one update and to a delta of their own choice. The real guarantee must cover
//! everything the relay can infer from all updates of one student together. [`guarantee`] has OpenDP compute it and
//! puts it into words.

mod accountant;
mod words;

pub use unmask_room::{Guarantee, Mechanism};

/// The largest delta reported: the guarantee fails for at most one student in a hundred thousand.
pub const LARGEST_DELTA: f64 = 1e-5;

/// Returns the guarantee of one student against the relay after `rounds` updates through `mechanism`.
///
/// - The relay sees each client's own noised update, not only their mean (the local model), so neither the crowd nor
///   sampling amplifies privacy.
/// - Neighbours differ in the training data of one student. That can turn a clipped update into any other of norm S_f,
///   so the sensitivity is **2 S_f**, not S_f: two vectors of norm S_f may point in opposite directions.
/// - Later updates may depend on earlier ones, as they do in training.
/// - The epsilon is OpenDP's bound by zero-concentrated differential privacy. It holds; from 0.03 on, the smallest
///   epsilon that holds is less than 15 % lower.
/// - The noise is treated as real numbers; rounding to f32 (Mironov 2012) is not accounted for.
///
/// `asked_delta` is the defence's delta; the guarantee is for the smaller of it and [`LARGEST_DELTA`].
///
/// Takes some milliseconds, for any number of rounds, and serves one caller at a time.
pub fn guarantee(mechanism: Mechanism, rounds: u32, asked_delta: f64) -> Guarantee {
    let delta = asked_delta.min(LARGEST_DELTA);
    let epsilon = if rounds == 0 { Some(0.0) } else { accountant::epsilon(mechanism, rounds, delta) };
    let sentence = words::sentence(rounds, epsilon, delta, asked_delta, mechanism.clip.is_some());
    Guarantee { rounds, epsilon, delta, sentence }
}
