//! Anti-aliased resizing.

/// Weights of the input pixels for one output pixel.
struct Tap {
    start: usize,
    weights: Vec<f32>,
}

/// The triangle filter along one axis. It extends over one input pixel to each side when growing, one output pixel when
/// shrinking.
fn taps(from: usize, to: usize) -> Vec<Tap> {
    let scale = from as f64 / to as f64;
    let support = scale.max(1.0);
    (0..to)
        .map(|out| {
            let centre = (out as f64 + 0.5) * scale;
            let start = ((centre - support).floor().max(0.0) as usize).min(from - 1);
            let end = ((centre + support).ceil() as usize).clamp(start + 1, from);
            let weights: Vec<f64> =
                (start..end).map(|i| (1.0 - (i as f64 + 0.5 - centre).abs() / support).max(0.0)).collect();
            let sum: f64 = weights.iter().sum();
            Tap { start, weights: weights.iter().map(|weight| (weight / sum) as f32).collect() }
        })
        .collect()
}

/// Resizes bytes to `[height, width, 3]` values in [0, 1]. Sizes are `[width, height]`, all at least one; each of the
/// `from[1]` rows has `from[0]` pixels of three bytes. Only one row at a time becomes floating-point numbers, which
/// would take four times the picture's memory.
pub(crate) fn resize<'a>(rows: impl Iterator<Item = &'a [u8]>, from: [usize; 2], to: [usize; 2]) -> Vec<f32> {
    let values = |row: &'a [u8]| row.iter().map(|&value| f32::from(value) / 255.0);
    if from == to {
        return rows.flat_map(values).collect();
    }
    let columns = taps(from[0], to[0]);
    let taps_of_rows = taps(from[1], to[1]);
    let mut narrow = Vec::with_capacity(to[0] * from[1] * 3);
    let mut row = Vec::with_capacity(from[0] * 3);
    for bytes in rows {
        row.clear();
        row.extend(values(bytes));
        for tap in &columns {
            for channel in 0..3 {
                let pixels = row[tap.start * 3 + channel..].iter().step_by(3);
                narrow.push(tap.weights.iter().zip(pixels).map(|(weight, value)| weight * value).sum());
            }
        }
    }
    let stride = to[0] * 3;
    let mut out = vec![0.0; stride * to[1]];
    for (tap, out_row) in taps_of_rows.iter().zip(out.chunks_exact_mut(stride)) {
        let input = narrow[tap.start * stride..].chunks_exact(stride);
        for (weight, row) in tap.weights.iter().zip(input) {
            for (out, value) in out_row.iter_mut().zip(row) {
                *out += weight * value;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pattern::pattern;

    fn resized(bytes: &[u8], from: [usize; 2], to: [usize; 2]) -> Vec<f32> {
        resize(bytes.chunks_exact(3 * from[0]), from, to)
    }

    #[test]
    fn constant_stays_constant() {
        for (from, to) in [([5, 9], [3, 3]), ([3, 2], [8, 7]), ([1, 1], [4, 4]), ([100, 100], [1, 1])] {
            for value in resized(&vec![51; from[0] * from[1] * 3], from, to) {
                assert!((value - 0.2).abs() < 1e-6, "{from:?} to {to:?}: {value}");
            }
        }
    }

    #[test]
    fn fine_stripes_average_out() {
        let stripes: Vec<u8> = (0..64 * 64).flat_map(|i| [(i % 2) as u8 * 255; 3]).collect();
        for value in resized(&stripes, [64, 64], [8, 8]) {
            assert!((value - 0.5).abs() < 0.02, "{value}");
        }
    }

    /// Compares with an independent implementation of the same filter.
    #[cfg(feature = "codecs")]
    #[test]
    fn agrees_with_the_image_crate() {
        for (from, to) in [([61, 45], [32, 32]), ([224, 224], [32, 32]), ([16, 16], [64, 48])] {
            let bytes: Vec<u8> = pattern(from[0], from[1]).iter().map(|value| (value * 255.0).round() as u8).collect();
            let source = bytes.iter().map(|&value| f32::from(value) / 255.0).collect();
            let buffer: image::Rgb32FImage =
                image::ImageBuffer::from_raw(from[0] as u32, from[1] as u32, source).unwrap();
            let theirs =
                image::imageops::resize(&buffer, to[0] as u32, to[1] as u32, image::imageops::FilterType::Triangle);
            for (ours, theirs) in resized(&bytes, from, to).iter().zip(theirs.as_raw()) {
                assert!((ours - theirs).abs() < 1e-4, "{from:?} to {to:?}: {ours} and {theirs}");
            }
        }
    }
}
