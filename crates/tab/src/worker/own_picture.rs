//! The private picture, at the sizes models ask for.

use unmask_data::{Picture, chw_to_hwc, jigsaw, metrics};

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

    /// PSNR in dB and SSIM of a reconstruction `[side, side, 3]` against this picture; of one whose patches, `patch`
    /// pixels wide, are in no order, in their best one.
    ///
    /// # Errors
    /// If sizes do not match.
    pub fn score(&self, side: usize, reconstruction: &[f32], patch: Option<usize>) -> Result<(f32, f32), String> {
        let own = self.hwc(side);
        let arranged = patch
            .map(|patch| jigsaw::best_arrangement(reconstruction, &own, side, patch))
            .transpose()
            .map_err(|error| error.to_string())?;
        let reconstruction = arranged.as_deref().unwrap_or(reconstruction);
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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    /// Patches in no order score nothing as they came, and all in their best order.
    #[wasm_bindgen_test]
    fn a_jigsaw_is_compared_in_its_best_order() {
        let (side, patch) = (32, 8);
        let pixels = PICTURE_SIDE * PICTURE_SIDE;
        let rgb = (0..3 * pixels).map(|i| ((f64::from(i) * 0.000_37).sin() * 127.0 + 128.0) as u8).collect();
        let own = OwnPicture::new(rgb, 0).expect("a picture");
        let truth = own.hwc(side);
        // Rows of patches from the bottom up.
        let strip = side * patch * 3;
        let found: Vec<f32> = truth.chunks_exact(strip).rev().flatten().copied().collect();
        let (_, as_it_came) = own.score(side, &found, None).expect("a score");
        let (_, arranged) = own.score(side, &found, Some(patch)).expect("a score");
        assert!(as_it_came < 0.6 && arranged > 0.999, "{as_it_came} then {arranged}");
        assert!(own.score(side, &found, Some(5)).expect_err("5 does not divide 32").contains("5 x 5"));
    }
}
