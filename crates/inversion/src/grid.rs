//! The arrangement of patches. Shapes show their number, but not how many stand in a row.

use unmask_core::VitConfig;

const CHANNELS: usize = VitConfig::CHANNELS;

/// Joins of another arrangement below this share of the square's say that the pictures are not square. Photographs cut
/// into squares have a share of at least 1.1 (see the tests).
const SMOOTHER: f64 = 0.7;

/// Rearranges the patches of a picture, `[height, width, 3]`, from rows of `from` patches to rows of `to`.
///
/// The picture must have a whole number of these rows.
pub(crate) fn rearranged(picture: &[f32], patch: usize, from: usize, to: usize) -> Vec<f32> {
    let mut out = vec![0.0; picture.len()];
    let patches = picture.len() / (patch * patch * CHANNELS).max(1);
    // Where row `y` of a patch begins.
    let begin = |token: usize, columns: usize, y: usize| {
        ((token / columns * patch + y) * columns * patch + token % columns * patch) * CHANNELS
    };
    let length = patch * CHANNELS;
    for token in 0..patches {
        for y in 0..patch {
            let (source, target) = (begin(token, from, y), begin(token, to, y));
            out[target..target + length].copy_from_slice(&picture[source..source + length]);
        }
    }
    out
}

/// The number of patches in a row of another arrangement whose patches join much more smoothly than in rows of `columns`;
/// `None` if there is none.
pub(crate) fn smoother(picture: &[f32], patch: usize, columns: usize) -> Option<usize> {
    let patches = picture.len().checked_div(patch * patch * CHANNELS)?;
    let cost = |to: usize| joins(&rearranged(picture, patch, columns, to), patch, to);
    let own = cost(columns);
    let others = (2..patches).filter(|to| patches.is_multiple_of(*to) && patches / to > 1 && *to != columns);
    let best = others.map(|to| (to, cost(to))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    (best.1 < SMOOTHER * own).then_some(best.0)
}

/// Mean absolute difference of neighbouring pixels across the borders between patches.
fn joins(picture: &[f32], patch: usize, columns: usize) -> f64 {
    let width = columns * patch;
    let height = picture.len() / (width * CHANNELS).max(1);
    let pixel = |x: usize, y: usize, channel: usize| f64::from(picture[(y * width + x) * CHANNELS + channel]);
    let (mut sum, mut count) = (0.0, 0);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..CHANNELS {
                if x > 0 && x.is_multiple_of(patch) {
                    sum += (pixel(x, y, channel) - pixel(x - 1, y, channel)).abs();
                    count += 1;
                }
                if y > 0 && y.is_multiple_of(patch) {
                    sum += (pixel(x, y, channel) - pixel(x, y - 1, channel)).abs();
                    count += 1;
                }
            }
        }
    }
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use unmask_data::sample_photographs;

    use super::*;

    #[test]
    fn patches_go_back_where_they_were() {
        let picture: Vec<f32> = (0..16 * 4 * 3).map(|i| i as f32).collect();
        let other = rearranged(&picture, 2, 8, 4);
        assert_ne!(other, picture);
        assert_eq!(rearranged(&other, 2, 4, 8), picture);
        // The first patch of the second row of four is the fifth of the first row of eight.
        assert_eq!(other[2 * 8 * 3], picture[4 * 2 * 3]);
    }

    /// Every sample photograph, cut into squares and into strips of several forms, is arranged as it was.
    #[test]
    fn photographs_join_best_as_they_were() {
        for (name, photograph) in sample_photographs().unwrap() {
            for (width, height, patch) in
                [(32, 32, 8), (32, 32, 4), (64, 64, 16), (64, 16, 8), (16, 64, 8), (72, 32, 8)]
            {
                let picture = photograph.fitted(width, height);
                let (columns, patches) = (width / patch, width * height / patch / patch);
                let square = patches.isqrt();
                let found = smoother(&rearranged(&picture, patch, columns, square), patch, square);
                let expected = (columns != square).then_some(columns);
                // A picture may join well in two ways, but a square one never better in another.
                if columns == square {
                    assert_eq!(found, None, "{name} at {width} x {height}");
                } else if found.is_some() {
                    assert_eq!(found, expected, "{name} at {width} x {height}");
                }
            }
        }
    }

    #[test]
    fn most_photographs_that_are_no_squares_are_noticed() {
        let all = sample_photographs().unwrap();
        let is_noticed = |(width, height): (usize, usize)| {
            let count = all.iter().filter(|(_, photograph)| {
                let picture = photograph.fitted(width, height);
                let square = (width * height / 64).isqrt();
                smoother(&rearranged(&picture, 8, width / 8, square), 8, square) == Some(width / 8)
            });
            count.count()
        };
        for size in [(64, 16), (16, 64), (72, 32), (128, 32)] {
            assert!(is_noticed(size) * 4 >= all.len() * 3, "{size:?}: {} of {}", is_noticed(size), all.len());
        }
    }
}
