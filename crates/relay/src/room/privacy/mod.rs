//! The (epsilon, delta) that really holds after some rounds of Gaussian noise.
//!
//! The papers calibrate noise to one update and a delta of their own choice. What counts is what the relay can tell from
//! all updates of one student together; that is what [`guarantee`] has OpenDP account for, and says in words.

mod accountant;
mod words;

/// What every update goes through: clipped to L2 norm `clip`, if it is, then independent normal noise on each value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mechanism {
    /// S_f, the largest L2 norm that an update keeps; `None` where it keeps any.
    pub clip: Option<f64>,
    /// The noise's standard deviation, S_f sigma.
    pub deviation: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Guarantee {
    /// Rounds of noised updates it covers.
    pub rounds: u32,
    /// The epsilon at [`delta`](Self::delta), or `None` where there is none that OpenDP can compute: without noise or clipping, or
    /// with so little noise that it would exceed some 70 000.
    pub epsilon: Option<f64>,
    /// The smaller of what was asked for and 1e-5.
    pub delta: f64,
    /// Epsilon, delta and what they are worth, for a classroom.
    pub sentence: String,
}

/// The largest delta reported: a guarantee that fails for one student in a hundred thousand at most.
pub const LARGEST_DELTA: f64 = 1e-5;

/// The guarantee of one student against the relay after `rounds` updates through `mechanism`.
///
/// - The relay sees each client's own noised update, not only their mean (the local model), so there is no
///   amplification by the crowd or by sampling.
/// - Neighbours differ in what one student trains on. That can move a clipped update to any other of norm S_f, so the
///   sensitivity is **2 S_f**, not S_f: two vectors of norm S_f may point in opposite directions.
/// - Later updates may depend on earlier ones, as they do in training.
/// - The epsilon is OpenDP's bound by zero-concentrated differential privacy. It holds, and from 0.03 on the smallest that
///   holds lies less than 15 % below.
/// - The noise is taken for real numbers; that it is rounded to f32 (Mironov 2012) is not accounted for.
///
/// `asked_delta` is what the defence was set up with; what is reported is at the smaller of it and [`LARGEST_DELTA`].
///
/// Takes some milliseconds, however many rounds there were, and one caller at a time.
pub fn guarantee(mechanism: Mechanism, rounds: u32, asked_delta: f64) -> Guarantee {
    let delta = asked_delta.min(LARGEST_DELTA);
    let epsilon = if rounds == 0 { Some(0.0) } else { accountant::epsilon(mechanism, rounds, delta) };
    let sentence = words::sentence(rounds, epsilon, delta, asked_delta, mechanism.clip.is_some());
    Guarantee { rounds, epsilon, delta, sentence }
}
