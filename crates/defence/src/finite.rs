//! Detection of NaN and infinity.

/// Independent sums, so that additions do not wait for each other.
const LANES: usize = 16;

/// Returns whether all values are finite. Runs at memory speed; testing one value at a time does not.
pub(crate) fn all_finite(values: &[f32]) -> bool {
    // Reading from four places in parallel makes better use of the memory bandwidth.
    let (chunks, rest) = values.as_chunks::<LANES>();
    let quarter = chunks.len() / 4;
    let (a, b) = chunks.split_at(quarter);
    let (b, c) = b.split_at(quarter);
    let (c, d) = c.split_at(quarter);
    let (d, behind) = d.split_at(quarter);
    // 0 x is 0 for every finite x and NaN otherwise, and a NaN stays in the sum.
    let mut sums = [0f32; LANES];
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        for lane in 0..LANES {
            sums[lane] += (0.0 * a[lane] + 0.0 * b[lane]) + (0.0 * c[lane] + 0.0 * d[lane]);
        }
    }
    sums.iter().chain(behind.as_flattened()).chain(rest).all(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_looked_at() {
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
            let mut values: Vec<f32> = (0..len).map(|i| i as f32 * if i % 2 == 0 { -1e36 } else { 1e36 }).collect();
            assert!(all_finite(&values));
            for i in 0..len {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let good = std::mem::replace(&mut values[i], bad);
                    assert!(!all_finite(&values), "{bad} at {i} of {len}");
                    values[i] = good;
                }
            }
        }
    }
}
