//! A picture that stays on this device, at the sizes models ask for.

use unmask_data::Picture;

use crate::protocol::PICTURE_SIDE;

/// From the page's RGB bytes, [`PICTURE_SIDE`] squared.
///
/// # Errors
/// If there are more or fewer bytes than that.
pub fn picture(rgb: Vec<u8>) -> Result<Picture, String> {
    let side = PICTURE_SIDE as usize;
    Picture::new(side, side, rgb).map_err(|error| error.to_string())
}

/// The private picture.
pub struct OwnPicture {
    picture: Picture,
    /// Its class.
    pub label: usize,
}

impl OwnPicture {
    /// From the page's RGB bytes, [`PICTURE_SIDE`] squared.
    ///
    /// # Errors
    /// If there are more or fewer bytes than that.
    pub fn new(rgb: Vec<u8>, label: u8) -> Result<Self, String> {
        Ok(Self { picture: picture(rgb)?, label: label.into() })
    }

    /// `[3, side, side]` in `[0, 1]`, for the model.
    pub fn chw(&self, side: usize) -> Vec<f32> {
        self.picture.for_model(side)
    }
}
