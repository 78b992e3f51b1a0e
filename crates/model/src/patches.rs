//! From images to the rows that the patch embedding multiplies.

use unmask_params::VitConfig;

/// Cuts `images` (`[batch, 3, side, side]` in [0, 1]) into normalised patches `[batch, S, L]`.
///
/// A convolution whose stride is its kernel side is a matrix product on patches. Patches go row by row, values in a
/// patch channel by channel, as `patch_embed.proj.weight` flattened to `[D, L]` has them. Each value becomes
/// (x - 0.5) / 0.5.
pub(crate) fn normalised_patches(config: &VitConfig, images: &[f32]) -> Vec<f32> {
    let VitConfig { image: side, patch, .. } = *config;
    let image_len = VitConfig::CHANNELS * side * side;
    let mut patches = Vec::with_capacity(images.len());
    for image in images.chunks_exact(image_len) {
        for top in (0..side).step_by(patch) {
            for left in (0..side).step_by(patch) {
                for plane in image.chunks_exact(side * side) {
                    for row in plane.chunks_exact(side).skip(top).take(patch) {
                        patches.extend(row[left..left + patch].iter().map(|x| (x - 0.5) / 0.5));
                    }
                }
            }
        }
    }
    patches
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
}
