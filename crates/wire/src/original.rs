//! A client's own picture, shown to the class.

use crate::bytes::{from_words, to_words};

/// Side of the square picture in pixels.
pub const ORIGINAL_SIDE: u8 = 32;
/// Bytes of the picture: red, green and blue of each pixel, row by row.
pub const ORIGINAL_BYTES: usize = 3 * ORIGINAL_SIDE as usize * ORIGINAL_SIDE as usize;

/// A picture of the wrong size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginalError {
    #[error("a picture of {side} x {side} pixels cannot be shown; send {ORIGINAL_SIDE} x {ORIGINAL_SIDE}")]
    Side { side: u8 },
    #[error("a picture of {found} bytes cannot be shown; send {ORIGINAL_BYTES}: red, green and blue of each pixel")]
    Length { found: usize },
}

/// Packs pixels `[32, 32, 3]` into the body of a message, four bytes to a word.
///
/// # Errors
/// There are not exactly [`ORIGINAL_BYTES`] bytes.
pub fn original_words(pixels: &[u8]) -> Result<Vec<f32>, OriginalError> {
    if pixels.len() != ORIGINAL_BYTES {
        return Err(OriginalError::Length { found: pixels.len() });
    }
    Ok(to_words(pixels.iter().copied()).collect())
}

/// Reads pixels `[32, 32, 3]` from the body of a message that announced `side`.
///
/// # Errors
/// Side or length is wrong.
pub fn read_original(side: u8, words: &[f32]) -> Result<Vec<u8>, OriginalError> {
    if side != ORIGINAL_SIDE {
        return Err(OriginalError::Side { side });
    }
    if 4 * words.len() != ORIGINAL_BYTES {
        return Err(OriginalError::Length { found: 4 * words.len() });
    }
    Ok(from_words(words).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Assembler, ClientMessage, frames};

    proptest! {
        #[test]
        fn pixels_survive_the_wire(pixels in proptest::collection::vec(any::<u8>(), ORIGINAL_BYTES)) {
            let header = ClientMessage::Original { side: ORIGINAL_SIDE };
            let frames = frames(&header, &original_words(&pixels).unwrap()).unwrap();
            let limit = Assembler::limit_for(ORIGINAL_BYTES / 4);
            let (back, words): (ClientMessage, _) = Assembler::new(limit).push(&frames[0]).unwrap().unwrap();
            prop_assert_eq!((back, read_original(32, &words).unwrap()), (header, pixels));
        }
    }

    #[test]
    fn other_sizes_are_refused() {
        for length in [0, 3071, 3073, 4096] {
            assert_eq!(original_words(&vec![0; length]), Err(OriginalError::Length { found: length }));
        }
        assert_eq!(read_original(64, &[0.0; 768]), Err(OriginalError::Side { side: 64 }));
        assert_eq!(read_original(32, &[0.0; 767]), Err(OriginalError::Length { found: 3068 }));
    }
}
