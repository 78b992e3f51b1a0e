//! The server's step on the averaged gradient.

use std::sync::Arc;

use unmask_core::OptimiserKind;

use crate::sums::Block;

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

#[derive(Debug, Clone)]
pub struct Optimiser {
    kind: OptimiserKind,
    steps: i32,
    /// Shared with code that saves the room; a step in the meantime works on a copy.
    moments: Arc<Moments>,
}

/// Adam's moments; empty for SGD and before the first step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moments {
    /// First moment of each parameter, `[P]`.
    pub first: Vec<f32>,
    /// Second moment, `[P]`.
    pub second: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct OptimiserState {
    /// Number of Adam steps; SGD steps are not counted.
    pub steps: u32,
    pub moments: Moments,
}

/// One step, taken block by block.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Sgd(f32),
    Adam {
        rate: f32,
        /// Factors for the first and second moment, which correct their start at zero.
        corrections: (f32, f32),
        moments: (&'a mut [f32], &'a mut [f32]),
    },
}

impl Optimiser {
    pub fn new(kind: OptimiserKind) -> Self {
        Self { kind, steps: 0, moments: Arc::default() }
    }

    pub fn sgd(rate: f32) -> Self {
        Self::new(OptimiserKind::Sgd { rate })
    }

    pub fn kind(&self) -> OptimiserKind {
        self.kind
    }

    /// Changes eta for later steps, as a schedule asks; moments stay.
    pub fn set_rate(&mut self, rate: f32) {
        self.kind = self.kind.with_rate(rate);
    }

    /// The state from which a later run can continue.
    pub fn state(&self) -> OptimiserState {
        OptimiserState { steps: self.steps(), moments: Moments::clone(&self.moments) }
    }

    /// Number of Adam steps; SGD steps are not counted.
    pub(crate) fn steps(&self) -> u32 {
        self.steps.unsigned_abs()
    }

    pub(crate) fn moments(&self) -> &Arc<Moments> {
        &self.moments
    }

    /// An optimiser that continues from `state` exactly. If the moments differ in length, the longer one is cut.
    pub fn resumed(kind: OptimiserKind, state: OptimiserState) -> Self {
        let OptimiserState { steps, mut moments } = state;
        let len = moments.first.len().min(moments.second.len());
        moments.first.truncate(len);
        moments.second.truncate(len);
        Self::with_moments(kind, steps, Arc::new(moments))
    }

    /// An optimiser that continues from `moments` after `steps` steps.
    pub(crate) fn with_moments(kind: OptimiserKind, steps: u32, moments: Arc<Moments>) -> Self {
        Self { kind, steps: i32::try_from(steps).unwrap_or(i32::MAX), moments }
    }

    pub(crate) fn step(&mut self, parameters: usize) -> Step<'_> {
        match self.kind {
            OptimiserKind::Sgd { rate } => Step::Sgd(rate),
            OptimiserKind::Adam { rate } => {
                self.steps = self.steps.saturating_add(1);
                let Moments { first, second } = Arc::make_mut(&mut self.moments);
                first.resize(parameters, 0.0);
                second.resize(parameters, 0.0);
                let corrections = (1.0 / (1.0 - BETA1.powi(self.steps)), 1.0 / (1.0 - BETA2.powi(self.steps)));
                Step::Adam { rate, corrections, moments: (first, second) }
            }
        }
    }
}

impl Step<'_> {
    /// Eqs. 1 and 2 on one block: moves `weights` against the mean gradient. A parameter that nobody sent stays bit for
    /// bit the same, and so do its moments.
    pub(crate) fn apply(&mut self, weights: &mut [f32], block: &Block<'_>) {
        let gradients = block.sums.iter().zip(block.weights);
        match self {
            Self::Sgd(rate) => {
                for (weight, (sum, &divisor)) in weights.iter_mut().zip(gradients) {
                    let moved = *weight - *rate * (sum / divisor);
                    *weight = if divisor > 0.0 { moved } else { *weight };
                }
            }
            Self::Adam { rate, corrections, moments } => {
                let place = block.start..block.start + weights.len();
                let moments = (&mut moments.0[place.clone()], &mut moments.1[place]);
                adam(*rate, *corrections, weights, moments.0, moments.1, block.sums, block.weights);
            }
        }
    }
}

/// Separate slices and selects instead of branches let the compiler vectorise this.
fn adam(
    rate: f32,
    corrections: (f32, f32),
    weights: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    sums: &[f32],
    divisors: &[f32],
) {
    let len = weights.len();
    let (first, second) = (&mut first[..len], &mut second[..len]);
    let (sums, divisors) = (&sums[..len], &divisors[..len]);
    for i in 0..len {
        let is_sent = divisors[i] > 0.0;
        let gradient = sums[i] / divisors[i];
        let m = BETA1 * first[i] + (1.0 - BETA1) * gradient;
        let v = BETA2 * second[i] + (1.0 - BETA2) * gradient * gradient;
        let moved = weights[i] - rate * (m * corrections.0) / ((v * corrections.1).sqrt() + EPSILON);
        weights[i] = if is_sent { moved } else { weights[i] };
        first[i] = if is_sent { m } else { first[i] };
        second[i] = if is_sent { v } else { second[i] };
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    /// Adam never moves a weight by more than this many rates, given any finite gradients. By the Cauchy-Schwarz
    /// inequality, m = (1 - b1) sum b1^k g_k is at most (1 - b1) / sqrt(1 - b2) sqrt(sum (b1^2 / b2)^k) sqrt(v). The
    /// corrections multiply this by sqrt(1 - b2^t) / (1 - b1^t), which is at most 1.
    fn longest_step() -> f32 {
        (1.0 - BETA1) / (1.0 - BETA2).sqrt() / (1.0 - BETA1 * BETA1 / BETA2).sqrt()
    }

    /// Lengths of the steps along these gradients, in rates.
    fn lengths(gradients: impl IntoIterator<Item = Option<f32>>) -> Vec<f32> {
        let rate = 0.5;
        let mut adam = Optimiser::new(OptimiserKind::Adam { rate });
        let length = |gradient| {
            let mut weight = [0.0];
            step(&mut adam, &mut weight, &[gradient]);
            weight[0].abs() / rate
        };
        gradients.into_iter().map(length).collect()
    }

    proptest! {
        /// The gradients reach the largest that [`Aggregate::overflows`](crate::aggregate::Aggregate::overflows)
        /// accepts.
        #[test]
        fn no_step_is_larger_than_adam_can_make(gradients in vec(option::of(-1e18_f32..1e18), 1..200), scale in -40..0_i32) {
            let scaled = gradients.into_iter().map(|gradient| gradient.map(|value| value * 10_f32.powi(scale)));
            for length in lengths(scaled) {
                prop_assert!(length <= 1.001 * longest_step(), "{length}");
            }
        }
    }

    /// The worst case: gradients that grow as fast as Adam forgets, after a long silence.
    #[test]
    fn the_bound_on_a_step_is_reached() {
        let growing = (0..200).map(|k| Some((BETA2 / BETA1).powi(k) * 1e-3));
        let longest = lengths([Some(0.0); 4000].into_iter().chain(growing)).into_iter().fold(0.0, f32::max);
        assert!((0.9 * longest_step()..=1.001 * longest_step()).contains(&longest), "{longest} of {}", longest_step());
    }

    /// Takes one step for each parameter that has a gradient.
    fn step(optimiser: &mut Optimiser, weights: &mut [f32], gradients: &[Option<f32>]) {
        let sums: Vec<f32> = gradients.iter().map(|gradient| 2.0 * gradient.unwrap_or(0.0)).collect();
        let divisors: Vec<f32> = gradients.iter().map(|gradient| if gradient.is_some() { 2.0 } else { 0.0 }).collect();
        let block = Block { start: 0, sums: &sums, weights: &divisors, sent: 0 };
        optimiser.step(weights.len()).apply(weights, &block);
    }

    /// By hand: step 1 moves by eta g/|g|; step 2, g = 0.5 then -1: m = .9*.05 - .1 = -.055, /.19; v = .999*.00025 +
    /// .001 = .00124975, /.001999; 0.1 * -.2894737 / .7906900 = -.0366103.
    #[test]
    fn adam_by_hand() {
        let mut adam = Optimiser::new(OptimiserKind::Adam { rate: 0.1 });
        let mut weights = [1.0];
        step(&mut adam, &mut weights, &[Some(0.5)]);
        assert!((weights[0] - 0.9).abs() < 1e-6, "{weights:?}");
        step(&mut adam, &mut weights, &[Some(-1.0)]);
        assert!((weights[0] - (0.9 + 0.036_610_3)).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn sgd_moves_against_the_gradient() {
        let mut weights = [1.0, 2.0, 3.0];
        step(&mut Optimiser::sgd(0.5), &mut weights, &[Some(1.0), None, Some(-2.0)]);
        assert_eq!(weights, [0.5, 2.0, 4.0]);
    }

    /// A round without a parameter changes neither the parameter nor its moments.
    #[test]
    fn adam_leaves_what_nobody_sends() {
        let mut adam = Optimiser::new(OptimiserKind::Adam { rate: 0.1 });
        let mut weights = [1.0, 2.0];
        step(&mut adam, &mut weights, &[Some(1.0), Some(0.0)]);
        assert_eq!(weights[1], 2.0);
        let before = (weights, adam.moments.clone());
        step(&mut adam, &mut weights, &[None, None]);
        assert_eq!((weights, adam.moments), before);
    }

    #[test]
    fn goes_on_from_its_state_as_if_it_had_not_stopped() {
        let kind = OptimiserKind::Adam { rate: 0.1 };
        let (mut whole, mut weights) = (Optimiser::new(kind), [1.0, 2.0]);
        step(&mut whole, &mut weights, &[Some(1.0), Some(-3.0)]);
        let (mut resumed, mut again) = (Optimiser::resumed(kind, whole.state()), weights);
        for (optimiser, weights) in [(&mut whole, &mut weights), (&mut resumed, &mut again)] {
            optimiser.set_rate(0.05);
            step(optimiser, weights, &[Some(0.5), None]);
        }
        assert_eq!((weights, whole.state()), (again, resumed.state()));
        assert_eq!(whole.kind(), OptimiserKind::Adam { rate: 0.05 });
        assert_eq!(whole.state().steps, 2);
    }
}
