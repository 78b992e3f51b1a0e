//! Pictures between the page, the model and the screen.

use unmask_data::{Picture, PictureError};

use crate::protocol::PICTURE_SIDE;

/// From the page's RGB bytes, [`PICTURE_SIDE`] squared.
///
/// # Errors
/// If there are more or fewer bytes than that.
pub fn from_page(rgb: Vec<u8>) -> Result<Picture, PictureError> {
    let side = PICTURE_SIDE as usize;
    Picture::new(side, side, rgb)
}

/// `[side, side, 3]` in `[0, 1]` as RGBA bytes.
pub fn rgba(hwc: &[f32]) -> Vec<u8> {
    let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round() as u8;
    hwc.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [byte(r), byte(g), byte(b), 255]).collect()
}
