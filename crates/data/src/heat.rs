//! Numbers with signs as colours.

use crate::{Picture, PictureError};

/// Colours saturate at this multiple of the root mean square.
const SATURATION: f64 = 2.5;

/// The value from which on a colour is as strong as it gets, for these values.
pub fn saturation(values: impl IntoIterator<Item = f32>) -> f32 {
    let (mut squares, mut count) = (0.0, 0_u64);
    for value in values {
        squares += f64::from(value) * f64::from(value);
        count += 1;
    }
    (SATURATION * (squares / count.max(1) as f64).sqrt()) as f32
}

/// Blue below zero, red above, white at zero. Both have equal lightness, so that colour-blind users can read the sign.
pub fn signed_colour(value: f32, saturation: f32) -> [u8; 3] {
    let strength = if saturation > 0.0 { (value / saturation).clamp(-1.0, 1.0) } else { 0.0 };
    let end: [u8; 3] = if strength < 0.0 { [0x21, 0x66, 0xac] } else { [0xb2, 0x3a, 0x1e] };
    end.map(|end| (255.0 + (f32::from(end) - 255.0) * strength.abs()).round() as u8)
}

/// A pixel for each value of a table, `[rows, width]`.
///
/// # Errors
/// If the values are no rows of that width.
pub fn heat_map(width: usize, values: &[f32]) -> Result<Picture, PictureError> {
    let saturation = saturation(values.iter().copied());
    let rgb = values.iter().flat_map(|&value| signed_colour(value, saturation)).collect();
    Picture::new(width, values.len() / width.max(1), rgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_colours_and_zero_is_white() {
        let drawn = heat_map(2, &[1.0, -1.0, 0.0, 0.0]).unwrap();
        assert_eq!((drawn.width(), drawn.height()), (2, 2));
        let [above, below, zero, _] = [0, 3, 6, 9].map(|at| &drawn.rgb()[at..at + 3]);
        assert!(above[0] > above[2] && below[2] > below[0], "{above:?} {below:?}");
        assert_eq!(zero, [255, 255, 255]);
        assert_eq!(signed_colour(9.0, 1.0), signed_colour(1.0, 1.0));
        assert!(heat_map(2, &[0.0; 3]).is_err() && heat_map(0, &[]).is_err());
    }
}
