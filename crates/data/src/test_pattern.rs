//! A picture from a formula that `scripts/metrics_reference.py` uses too.

/// `[height, width, 3]` in [0, 1]: smooth, with one edge, different in each channel.
pub(crate) fn pattern(width: usize, height: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let (x, y, c) = (x as f64, y as f64, c as f64);
                let wave = 0.5 + 0.3 * (0.37 * x + 0.11 * c * y).sin() * (0.23 * y + c).cos();
                let edge = if x + y > 20.0 + 5.0 * c { 0.2 } else { 0.0 };
                values.push((wave + edge) as f32);
            }
        }
    }
    values
}

/// The pattern plus a ripple of amplitude `amount`, clamped to [0, 1].
pub(crate) fn rippled(width: usize, height: usize, amount: f64) -> Vec<f32> {
    let ripple = |i: usize| amount * (1.7 * i as f64).sin();
    pattern(width, height)
        .iter()
        .enumerate()
        .map(|(i, &value)| (f64::from(value) + ripple(i)).clamp(0.0, 1.0) as f32)
        .collect()
}
