//! Pictures in memory.

use crate::resize::resize;

/// The largest number of pixels in a picture that a relay, a tab or a command decodes. A program can tell from the
/// file's header, before it takes the memory.
pub const MAX_PIXELS: u64 = 64_000_000;

/// A picture of 8-bit RGB pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    #[error("a picture of {width} x {height} pixels is empty")]
    Empty { width: usize, height: usize },
    #[error("a picture of {width} x {height} pixels needs {expected} values, {found} were given")]
    WrongLength { width: usize, height: usize, expected: usize, found: usize },
}

impl Picture {
    /// Takes row-major RGB bytes, `[height, width, 3]`.
    ///
    /// # Errors
    /// There are no pixels, or `rgb` has another length.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Self, PictureError> {
        check(width, height, 3, rgb.len())?;
        Ok(Self { width, height, rgb })
    }

    /// Takes row-major RGBA bytes, `[height, width, 4]`, as a browser's canvas returns them, and puts them on white.
    ///
    /// # Errors
    /// There are no pixels, or `rgba` has another length.
    pub fn from_rgba(width: usize, height: usize, rgba: &[u8]) -> Result<Self, PictureError> {
        check(width, height, 4, rgba.len())?;
        let over_white = |value: u8, alpha: u8| {
            let (value, alpha) = (u32::from(value), u32::from(alpha));
            ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        };
        let rgb = rgba
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|&[r, g, b, a]| [over_white(r, a), over_white(g, a), over_white(b, a)])
            .collect();
        Ok(Self { width, height, rgb })
    }

    /// Takes `[height, width, 3]` values in [0, 1]. Clamps values out of range; NaN becomes black.
    ///
    /// # Errors
    /// There are no pixels, or `hwc` has another length.
    pub fn from_hwc(width: usize, height: usize, hwc: &[f32]) -> Result<Self, PictureError> {
        check(width, height, 3, hwc.len())?;
        let rgb = hwc.iter().map(|&value| (value.clamp(0.0, 1.0) * 255.0).round() as u8).collect();
        Ok(Self { width, height, rgb })
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn height(&self) -> usize {
        self.height
    }

    /// Row-major RGB bytes, `[height, width, 3]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The same as [`rgb`](Self::rgb), without a copy.
    #[cfg(feature = "codecs")]
    pub(crate) fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }

    /// The largest centred square.
    #[must_use]
    pub fn crop_square(&self) -> Self {
        let side = self.width.min(self.height);
        self.part(side, side)
    }

    /// The centred part of this size, which is at most that of the picture.
    fn part(&self, width: usize, height: usize) -> Self {
        let rgb = self.rows(width, height).flatten().copied().collect();
        Self { width, height, rgb }
    }

    /// The rows of that part.
    fn rows(&self, width: usize, height: usize) -> impl Iterator<Item = &[u8]> {
        let (left, top) = ((self.width - width) / 2, (self.height - height) / 2);
        (top..top + height).map(move |y| {
            let start = (y * self.width + left) * 3;
            &self.rgb[start..start + width * 3]
        })
    }

    /// `[height, width, 3]` values in [0, 1].
    pub fn to_hwc(&self) -> Vec<f32> {
        self.rgb.iter().map(|&value| f32::from(value) / 255.0).collect()
    }

    /// The input of a model with image side `side`: the centre square, resized, `[3, side, side]` in [0, 1].
    ///
    /// Shrinking averages all pixels that fall into one (triangle filter), so that fine texture does not alias. Growing
    /// interpolates.
    ///
    /// # Panics
    /// If `side` is zero.
    pub fn for_model(&self, side: usize) -> Vec<f32> {
        assert!(side > 0, "a model's image side is at least one pixel");
        let shorter = self.width.min(self.height);
        let hwc = resize(self.rows(shorter, shorter), [shorter, shorter], [side, side]);
        hwc_to_chw(&hwc, side, side)
    }

    /// The largest centred part with the form of `width` x `height` pixels, resized to it: `[height, width, 3]` in [0, 1].
    ///
    /// # Panics
    /// If a side is zero.
    pub fn fitted(&self, width: usize, height: usize) -> Vec<f32> {
        assert!(width > 0 && height > 0, "a picture has at least one pixel");
        let is_too_wide = self.width * height > self.height * width;
        let [wide, high] = if is_too_wide {
            [(self.height * width / height).max(1), self.height]
        } else {
            [self.width, (self.width * height / width).max(1)]
        };
        resize(self.rows(wide, high), [wide, high], [width, height])
    }

    /// The whole picture, resized to `width` x `height` pixels whatever its form: `[height, width, 3]` in [0, 1].
    ///
    /// # Panics
    /// If a side is zero.
    pub fn squashed(&self, width: usize, height: usize) -> Vec<f32> {
        assert!(width > 0 && height > 0, "a picture has at least one pixel");
        resize(self.rows(self.width, self.height), [self.width, self.height], [width, height])
    }

    /// The centred part with this share of each side.
    #[must_use]
    pub fn centre(&self, share: f64) -> Self {
        let of = |side: usize| ((side as f64 * share).round() as usize).clamp(1, side);
        self.part(of(self.width), of(self.height))
    }

    /// The centre square at `side` x `side` pixels for display: [`Picture::for_model`] rounded to 8 bits.
    ///
    /// # Panics
    /// If `side` is zero.
    #[must_use]
    pub fn thumbnail(&self, side: usize) -> Self {
        let hwc = chw_to_hwc(&self.for_model(side), side, side);
        let rgb = hwc.iter().map(|&value| (value.clamp(0.0, 1.0) * 255.0).round() as u8).collect();
        Self { width: side, height: side, rgb }
    }
}

fn check(width: usize, height: usize, channels: usize, found: usize) -> Result<(), PictureError> {
    if width == 0 || height == 0 {
        return Err(PictureError::Empty { width, height });
    }
    let expected = width.saturating_mul(height).saturating_mul(channels);
    if found != expected {
        return Err(PictureError::WrongLength { width, height, expected, found });
    }
    Ok(())
}

/// Converts `[3, height, width]` to `[height, width, 3]`.
///
/// # Panics
/// If `chw` has fewer than 3 x height x width values.
pub fn chw_to_hwc(chw: &[f32], width: usize, height: usize) -> Vec<f32> {
    let plane = width * height;
    (0..plane).flat_map(|pixel| [chw[pixel], chw[plane + pixel], chw[2 * plane + pixel]]).collect()
}

/// Converts `[height, width, 3]` to `[3, height, width]`.
///
/// # Panics
/// If `hwc` has fewer than 3 x height x width values.
pub fn hwc_to_chw(hwc: &[f32], width: usize, height: usize) -> Vec<f32> {
    let plane = width * height;
    (0..3).flat_map(|channel| (0..plane).map(move |pixel| hwc[pixel * 3 + channel])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crop_takes_the_centre() {
        let picture = Picture::new(4, 2, (0..24).collect()).unwrap();
        let square = picture.crop_square();
        assert_eq!((square.width(), square.height()), (2, 2));
        assert_eq!(square.rgb(), [3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20]);
    }

    #[test]
    fn alpha_shows_white() {
        let picture = Picture::from_rgba(3, 1, &[10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 128]).unwrap();
        assert_eq!(picture.rgb(), [10, 20, 30, 255, 255, 255, 127, 177, 227]);
    }

    #[test]
    fn layouts_are_inverse() {
        let chw: Vec<f32> = (0..18).map(|v| v as f32).collect();
        let hwc = chw_to_hwc(&chw, 3, 2);
        assert_eq!(hwc[..3], [0.0, 6.0, 12.0]);
        assert_eq!(hwc_to_chw(&hwc, 3, 2), chw);
    }

    #[test]
    fn eight_bits_round_trip() {
        let picture = Picture::new(16, 16, (0..=255).flat_map(|v| [v, 255 - v, v / 2]).collect()).unwrap();
        assert_eq!(Picture::from_hwc(16, 16, &picture.to_hwc()).unwrap(), picture);
    }

    #[test]
    fn wrong_sizes_are_named() {
        let error = Picture::new(2, 2, vec![0; 11]).unwrap_err();
        assert_eq!(error.to_string(), "a picture of 2 x 2 pixels needs 12 values, 11 were given");
        assert!(matches!(Picture::new(0, 2, vec![]), Err(PictureError::Empty { .. })));
        assert!(Picture::new(usize::MAX, usize::MAX, vec![]).is_err());
    }
}
