//! A client's own picture, shown to the class.

/// Side of the square picture in pixels.
pub const ORIGINAL_SIDE: u8 = 32;
/// Values of the picture: red, green and blue of each pixel, row by row.
pub const ORIGINAL_VALUES: usize = 3 * ORIGINAL_SIDE as usize * ORIGINAL_SIDE as usize;

/// A picture that cannot be shown.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OriginalError {
    #[error("a picture of {side} x {side} pixels cannot be shown; send {ORIGINAL_SIDE} x {ORIGINAL_SIDE}")]
    Side { side: u8 },
    #[error("a picture of {found} values cannot be shown; send {ORIGINAL_VALUES}: red, green and blue of each pixel")]
    Length { found: usize },
    #[error("value {at} of the picture is {value}; send values from 0 to 1")]
    Value { at: usize, value: f32 },
}

/// Checks a picture `[32, 32, 3]` in [0, 1]. It is not rounded to 8 bits: a model of that side trained on exactly these
/// values, so the class can ask an update about exactly this picture.
///
/// # Errors
/// Side, length or a value is wrong.
pub fn check_original(side: u8, values: &[f32]) -> Result<(), OriginalError> {
    if side != ORIGINAL_SIDE {
        return Err(OriginalError::Side { side });
    }
    if values.len() != ORIGINAL_VALUES {
        return Err(OriginalError::Length { found: values.len() });
    }
    match values.iter().position(|value| !(0.0..=1.0).contains(value)) {
        Some(at) => Err(OriginalError::Value { at, value: values[at] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_size_and_values_from_0_to_1() {
        assert_eq!(check_original(32, &[0.3; ORIGINAL_VALUES]), Ok(()));
        assert_eq!(check_original(64, &[0.0; ORIGINAL_VALUES]), Err(OriginalError::Side { side: 64 }));
        assert_eq!(check_original(32, &[0.0; 3071]), Err(OriginalError::Length { found: 3071 }));
        for value in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
            let mut values = vec![0.5; ORIGINAL_VALUES];
            values[7] = value;
            assert!(matches!(check_original(32, &values), Err(OriginalError::Value { at: 7, .. })), "{value}");
        }
    }
}
