//! From images to the rows that the patch embedding multiplies.

use std::ops::{Div, Range, Sub};

use unmask_core::VitConfig;

/// Cuts `images` (`[batch, 3, side, side]` in [0, 1]) into normalised patches `[batch, S, L]`.
///
/// A convolution whose stride is its kernel side is a matrix product on patches. Patches go row by row, values in a
/// patch channel by channel, as `patch_embed.proj.weight` flattened to `[D, L]` has them. Each value becomes
/// (x - 0.5) / 0.5.
pub(crate) fn normalised_patches<T>(config: &VitConfig, images: &[T]) -> Vec<T>
where
    T: Copy + From<f32> + Sub<Output = T> + Div<Output = T>,
{
    let half = T::from(0.5);
    let mut patches = Vec::with_capacity(images.len());
    for image in images.chunks_exact(image_len(config)) {
        for row in rows(config) {
            patches.extend(image[row].iter().map(|&x| (x - half) / half));
        }
    }
    patches
}

/// dl/d(images) of dl/d([`normalised_patches`]).
pub(crate) fn image_gradient(config: &VitConfig, patches: &[f64]) -> Vec<f64> {
    let mut images = vec![0.0; patches.len()];
    let len = image_len(config);
    for (image, patches) in images.chunks_exact_mut(len).zip(patches.chunks_exact(len)) {
        for (row, values) in rows(config).zip(patches.chunks_exact(config.patch)) {
            for (image, value) in image[row].iter_mut().zip(values) {
                *image = value / 0.5;
            }
        }
    }
    images
}

fn image_len(config: &VitConfig) -> usize {
    VitConfig::CHANNELS * config.image * config.image
}

/// Where the rows of the patches lie in an image, in the order of the patches.
fn rows(config: &VitConfig) -> impl Iterator<Item = Range<usize>> {
    let VitConfig { image: side, patch, .. } = *config;
    (0..side).step_by(patch).flat_map(move |top| {
        (0..side).step_by(patch).flat_map(move |left| {
            (0..VitConfig::CHANNELS).flat_map(move |channel| {
                (top..top + patch).map(move |y| {
                    let start = (channel * side + y) * side + left;
                    start..start + patch
                })
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_go_row_by_row_and_channel_by_channel() {
        let config = VitConfig { image: 4, patch: 2, dim: 6, depth: 1, heads: 1, classes: 2, april_block: false };
        let images: Vec<f32> = (0..2 * 48).map(|i| i as f32).collect();
        let patches = normalised_patches(&config, &images);
        assert_eq!(patches.len(), images.len());
        let indices: Vec<f32> = patches.iter().map(|p| p * 0.5 + 0.5).collect();
        // Second patch of the first row: columns 2 and 3 of rows 0 and 1, in each of the three planes.
        assert_eq!(indices[12..24], [2., 3., 6., 7., 18., 19., 22., 23., 34., 35., 38., 39.]);
        // First patch of the second image.
        assert_eq!(indices[48..52], [48., 49., 52., 53.]);
    }

    #[test]
    fn gradients_go_back_to_the_pixels_they_came_from() {
        let config = VitConfig { image: 4, patch: 2, dim: 6, depth: 1, heads: 1, classes: 2, april_block: false };
        let images: Vec<f64> = (0..2 * 48).map(f64::from).collect();
        let slope = image_gradient(&config, &normalised_patches(&config, &images));
        for (index, value) in slope.iter().enumerate() {
            assert_eq!(*value, (index as f64 - 0.5) / 0.25);
        }
    }
}
