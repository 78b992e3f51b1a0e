//! What a room knows of differential privacy. Its host computes the guarantee.

/// The mechanism that every update goes through: clipping to L2 norm `clip`, if any, then independent normal noise on
/// each value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mechanism {
    /// S_f, the largest L2 norm of a clipped update; `None` without clipping.
    pub clip: Option<f64>,
    /// The noise's standard deviation, S_f sigma.
    pub deviation: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Guarantee {
    /// Number of rounds with noised updates that it covers.
    pub rounds: u32,
    /// The epsilon at [`delta`](Self::delta); `None` if none can be computed, such as without noise or clipping.
    pub epsilon: Option<f64>,
    /// At most the delta that was asked for.
    pub delta: f64,
    /// Epsilon, delta and their meaning, for a classroom.
    pub sentence: String,
}

/// Returns the guarantee of one student against the relay after a number of rounds, for at most this delta.
pub type Accountant = fn(Mechanism, u32, f64) -> Guarantee;
