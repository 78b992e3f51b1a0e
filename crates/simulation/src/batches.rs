//! Pictures as model input, optionally mirrored and shifted.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use unmask_client::Batch;
use unmask_data::datasets::Labelled;

/// Reads the pictures at these indices, in this order, at the model's side. With `rng`, each is mirrored with
/// probability 1/2 and shifted by up to an eighth of its side in each direction; the edge is filled with black (He et
/// al., 2016: 4 of 32 pixels).
pub(crate) fn read_batch(set: &Labelled, indices: &[usize], side: usize, mut rng: Option<&mut ChaCha8Rng>) -> Batch {
    let mut batch = Batch::default();
    for &index in indices {
        let (Some(mut image), Some(&label)) = (set.chw_resized(index, side), set.labels().get(index)) else {
            continue;
        };
        if let Some(rng) = rng.as_deref_mut() {
            let (most, mirror) = ((side / 8) as i32, rng.random::<bool>());
            let mut shift = || rng.random_range(-most..=most) as isize;
            image = moved(&image, side, mirror, (shift(), shift()));
        }
        batch.images.extend(image);
        batch.labels.push(label.into());
    }
    batch
}

/// Mirrors `[3, side, side]` left to right, then shifts it by `(right, down)` pixels.
fn moved(image: &[f32], side: usize, mirror: bool, (right, down): (isize, isize)) -> Vec<f32> {
    let mut moved = vec![0.0; image.len()];
    for (from, to) in image.chunks_exact(side * side).zip(moved.chunks_exact_mut(side * side)) {
        for (y, row) in to.chunks_exact_mut(side).enumerate() {
            let Some(source) = y.checked_add_signed(-down).and_then(|y| from.chunks_exact(side).nth(y)) else {
                continue;
            };
            for (x, pixel) in row.iter_mut().enumerate() {
                let at = x.checked_add_signed(-right).filter(|x| *x < side);
                *pixel = at.map_or(0.0, |x| source[if mirror { side - 1 - x } else { x }]);
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// `[3, 3, 3]`: three planes 1..=9, 10..=18, 19..=27.
    fn image() -> Vec<f32> {
        (1..=27).map(|value| value as f32).collect()
    }

    #[test]
    fn a_picture_is_mirrored_and_shifted() {
        let plane = |mirror, shift| moved(&image(), 3, mirror, shift)[..9].to_vec();
        assert_eq!(moved(&image(), 3, false, (0, 0)), image());
        assert_eq!(plane(true, (0, 0)), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0, 9.0, 8.0, 7.0]);
        assert_eq!(plane(false, (1, 0)), [0.0, 1.0, 2.0, 0.0, 4.0, 5.0, 0.0, 7.0, 8.0]);
        assert_eq!(plane(false, (0, -1)), [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0]);
        assert_eq!(plane(true, (-2, 2)), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(moved(&image(), 3, false, (5, 0)), vec![0.0; 27]);
    }

    #[test]
    fn pictures_keep_their_order_and_labels() {
        let classes = vec!["a".to_owned(), "b".to_owned()];
        let pixels = (0..3 * 16 * 3).map(|value| value as u8).collect();
        let set = Labelled::new(4, classes, pixels, vec![0, 1, 1]).unwrap();
        let batch = read_batch(&set, &[2, 0], 4, None);
        assert_eq!(batch.labels, [1, 0]);
        assert_eq!(batch.images, [set.chw(2).unwrap(), set.chw(0).unwrap()].concat());
        assert_eq!(read_batch(&set, &[0], 8, None).images.len(), 3 * 64);
    }

    #[test]
    fn augmentation_is_decided_by_its_generator() {
        let pixels: Vec<u8> = (0..16 * 16 * 3).map(|value| (value % 251) as u8).collect();
        let set = Labelled::new(16, vec!["a".to_owned()], pixels, vec![0]).unwrap();
        let images = |seed| read_batch(&set, &[0; 20], 16, Some(&mut ChaCha8Rng::seed_from_u64(seed))).images;
        assert_eq!(images(1), images(1));
        assert_ne!(images(1), images(2));
        let distinct: std::collections::HashSet<Vec<u32>> =
            images(1).chunks(3 * 256).map(|image| image.iter().map(|value| value.to_bits()).collect()).collect();
        assert!(distinct.len() > 10, "{}", distinct.len());
    }
}
