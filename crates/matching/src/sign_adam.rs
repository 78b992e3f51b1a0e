//! Adam on the signs of a gradient, as in Inverting Gradients.

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

#[derive(Debug, Clone)]
pub(crate) struct SignAdam {
    first: Vec<f64>,
    second: Vec<f64>,
    steps: i32,
}

impl SignAdam {
    pub(crate) fn new(len: usize) -> Self {
        Self { first: vec![0.0; len], second: vec![0.0; len], steps: 0 }
    }

    /// Moves `x` against the signs of `gradient` and clamps it to [-1, 1]. The sign of zero is zero.
    pub(crate) fn step(&mut self, x: &mut [f64], gradient: &[f64], rate: f64) {
        self.steps = self.steps.saturating_add(1);
        let first_scale = 1.0 / (1.0 - FIRST_DECAY.powi(self.steps));
        let second_scale = 1.0 / (1.0 - SECOND_DECAY.powi(self.steps));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((x, &slope), (first, second)) in x.iter_mut().zip(gradient).zip(moments) {
            let sign = if slope == 0.0 { 0.0 } else { slope.signum() };
            *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * sign;
            *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * sign * sign;
            let step = *first * first_scale / ((*second * second_scale).sqrt() + EPSILON);
            *x = (*x - rate * step).clamp(-1.0, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first step is one rate long, regardless of the gradient's size, and stays within [-1, 1].
    #[test]
    fn first_step_is_the_rate() {
        let mut x = [0.5, 0.5, 0.5, -0.95];
        SignAdam::new(4).step(&mut x, &[1e-9, -7.0, 0.0, 3.0], 0.1);
        for (x, expected) in x.iter().zip([0.4, 0.6, 0.5, -1.0]) {
            assert!((x - expected).abs() < 1e-7, "{x}, want {expected}");
        }
    }
}
