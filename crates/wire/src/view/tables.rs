//! The numbers that the wall takes apart.

use serde::{Deserialize, Serialize};
use unmask_core::{PictureAddress, VitConfig};

/// The tables of embedding inversion, a pixel for each number that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TablesView {
    /// Address of G_pos without the class token's row, `[patches, dim]`, as PNG.
    pub positions: Option<PictureAddress>,
    /// Address of G_E, `[dim, patch * patch * 3]`, as PNG.
    pub patches: Option<PictureAddress>,
    /// Side of a patch in pixels.
    pub patch: u16,
    /// Patches along each side of the picture.
    pub per_side: u16,
    pub dim: u32,
}

impl TablesView {
    const MOST_PATCHES: usize = 64;
    const MOST_DIMENSIONS: usize = 192;

    /// Whether the wall can show the tables of this model: each number must remain a visible dot.
    pub fn fits(config: &VitConfig) -> bool {
        config.patches() <= Self::MOST_PATCHES && config.dim <= Self::MOST_DIMENSIONS
    }
}
