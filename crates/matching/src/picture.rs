//! Conversions between displayed pictures and x.

use crate::Inputs;

/// Converts `[batch, side, side, 3]` in [0, 1] to x, `[batch, 3, side, side]` in [-1, 1].
pub(crate) fn normalise(inputs: Inputs, pictures: &[f32]) -> Vec<f64> {
    let plane = inputs.side * inputs.side;
    let mut x = Vec::with_capacity(pictures.len());
    for picture in pictures.chunks_exact(3 * plane) {
        for channel in 0..3 {
            let values = picture.iter().skip(channel).step_by(3);
            x.extend(values.map(|&value| ((f64::from(value) - 0.5) / 0.5).clamp(-1.0, 1.0)));
        }
    }
    x
}

/// Converts x to `[batch, side, side, 3]` in [0, 1].
pub(crate) fn to_hwc(inputs: Inputs, x: &[f64]) -> Vec<f32> {
    let plane = inputs.side * inputs.side;
    let mut pictures = Vec::with_capacity(x.len());
    for x in x.chunks_exact(3 * plane) {
        for pixel in 0..plane {
            pictures.extend((0..3).map(|channel| (0.5 * x[channel * plane + pixel] + 0.5).clamp(0.0, 1.0) as f32));
        }
    }
    pictures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let inputs = Inputs { batch: 2, side: 3 };
        let pictures: Vec<f32> = (0..54).map(|i| i as f32 / 53.0).collect();
        let x = normalise(inputs, &pictures);
        // Green of the first picture's second pixel.
        assert!((x[9 + 1] - (f64::from(pictures[4]) * 2.0 - 1.0)).abs() < 1e-12);
        for (back, value) in to_hwc(inputs, &x).iter().zip(&pictures) {
            assert!((back - value).abs() < 1e-6);
        }
    }
}
