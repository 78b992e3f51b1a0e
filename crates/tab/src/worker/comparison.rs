//! How close a reconstruction came to the picture it is of.

use unmask_data::{jigsaw, metrics};

/// PSNR in dB and SSIM of a reconstruction `[side, side, 3]` against `own` `[side, side, 3]`; of one whose patches, `patch`
/// pixels wide, are in no order, in their best one.
///
/// # Errors
/// If sizes do not match.
pub fn score(own: &[f32], side: usize, reconstruction: &[f32], patch: Option<usize>) -> Result<(f32, f32), String> {
    let arranged = patch
        .map(|patch| jigsaw::best_arrangement(reconstruction, own, side, patch))
        .transpose()
        .map_err(|error| error.to_string())?;
    let reconstruction = arranged.as_deref().unwrap_or(reconstruction);
    let psnr = metrics::psnr(own, reconstruction, side, side).map_err(|error| error.to_string())?;
    let ssim = metrics::ssim(own, reconstruction, side, side).map_err(|error| error.to_string())?;
    Ok((psnr as f32, ssim as f32))
}

/// `[side, side, 3]` in `[0, 1]` as RGBA bytes.
pub fn rgba(hwc: &[f32]) -> Vec<u8> {
    let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round() as u8;
    hwc.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [byte(r), byte(g), byte(b), 255]).collect()
}

#[cfg(test)]
mod tests {
    use unmask_data::chw_to_hwc;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::{protocol::PICTURE_SIDE, worker::own_picture::OwnPicture};

    /// Patches in no order score nothing as they came, and all in their best order.
    #[wasm_bindgen_test]
    fn a_jigsaw_is_compared_in_its_best_order() {
        let (side, patch) = (32, 8);
        let pixels = PICTURE_SIDE * PICTURE_SIDE;
        let rgb = (0..3 * pixels).map(|i| ((f64::from(i) * 0.000_37).sin() * 127.0 + 128.0) as u8).collect();
        let own = OwnPicture::new(rgb, 0).expect("a picture");
        let truth = chw_to_hwc(&own.chw(side), side, side);
        // Rows of patches from the bottom up.
        let strip = side * patch * 3;
        let found: Vec<f32> = truth.chunks_exact(strip).rev().flatten().copied().collect();
        let (_, as_it_came) = score(&truth, side, &found, None).expect("a score");
        let (_, arranged) = score(&truth, side, &found, Some(patch)).expect("a score");
        assert!(as_it_came < 0.6 && arranged > 0.999, "{as_it_came} then {arranged}");
        assert!(score(&truth, side, &found, Some(5)).expect_err("5 does not divide 32").contains("5 x 5"));
    }
}
