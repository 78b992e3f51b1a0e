//! The private picture, at the sizes models ask for.

use unmask_data::{Picture, chw_to_hwc, metrics};

use crate::protocol::PICTURE_SIDE;

/// The picture that never leaves this device.
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
        let side = PICTURE_SIDE as usize;
        let picture = Picture::new(side, side, rgb).map_err(|error| error.to_string())?;
        Ok(Self { picture, label: label.into() })
    }

    /// `[3, side, side]` in `[0, 1]`, for the model.
    pub fn chw(&self, side: usize) -> Vec<f32> {
        self.picture.for_model(side)
    }

    /// `[side, side, 3]` in `[0, 1]`, for comparison.
    pub fn hwc(&self, side: usize) -> Vec<f32> {
        chw_to_hwc(&self.chw(side), side, side)
    }

    /// PSNR in dB and SSIM of a reconstruction `[side, side, 3]` against this picture.
    ///
    /// # Errors
    /// If sizes do not match.
    pub fn score(&self, side: usize, reconstruction: &[f32]) -> Result<(f32, f32), String> {
        let own = self.hwc(side);
        let psnr = metrics::psnr(&own, reconstruction, side, side).map_err(|error| error.to_string())?;
        let ssim = metrics::ssim(&own, reconstruction, side, side).map_err(|error| error.to_string())?;
        Ok((psnr as f32, ssim as f32))
    }
}

/// `[side, side, 3]` in `[0, 1]` as RGBA bytes.
pub fn rgba(hwc: &[f32]) -> Vec<u8> {
    let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round() as u8;
    hwc.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [byte(r), byte(g), byte(b), 255]).collect()
}
