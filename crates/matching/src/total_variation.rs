//! The prior that neighbouring pixels are similar.

use crate::Inputs;

/// Anisotropic total variation of pictures `[batch, 3, side, side]`: mean of |x(i, j+1) - x(i, j)| plus mean of |x(i+1,
/// j) - x(i, j)|. Adds `weight` times its derivative to `slope` and returns `weight` times its value.
pub(crate) fn add_total_variation(inputs: Inputs, x: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
    let side = inputs.side;
    if side < 2 || weight == 0.0 {
        return 0.0;
    }
    let share = weight / (inputs.batch * 3 * side * (side - 1)) as f64;
    let mut sum = 0.0;
    for (plane, slope) in x.chunks_exact(side * side).zip(slope.chunks_exact_mut(side * side)) {
        let mut pair = |from: usize, to: usize| {
            let difference = plane[to] - plane[from];
            sum += difference.abs();
            let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
            slope[to] += share * sign;
            slope[from] -= share * sign;
        };
        for y in 0..side {
            for x in 0..side {
                if x + 1 < side {
                    pair(y * side + x, y * side + x + 1);
                }
                if y + 1 < side {
                    pair(y * side + x, (y + 1) * side + x);
                }
            }
        }
    }
    share * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_edge_counts_its_height() {
        let inputs = Inputs { batch: 1, side: 2 };
        // Red: a vertical edge of height 2 in both rows. Green and blue: flat.
        let x = [-1.0, 1.0, -1.0, 1.0, 0.3, 0.3, 0.3, 0.3, 0.0, 0.0, 0.0, 0.0];
        let mut slope = vec![0.0; x.len()];
        let value = add_total_variation(inputs, &x, 0.6, &mut slope);
        // Two of six horizontal pairs differ by 2.
        assert!((value - 0.6 * 4.0 / 6.0).abs() < 1e-15);
        for (slope, expected) in slope.iter().zip([-0.1, 0.1, -0.1, 0.1]) {
            assert!((slope - expected).abs() < 1e-15);
        }
        assert!(slope[4..].iter().all(|&s| s == 0.0));
    }
}
