//! The check of a picture file before anything decodes it.

use imagesize::{ImageError, ImageType};
use thiserror::Error;

/// Pixels beyond which a picture is refused: decoding 64 megapixels takes 256 MB.
pub const PIXEL_LIMIT: u64 = 64_000_000;

/// Bytes at the start of a file in which its header must be; camera metadata comes before a JPEG's size.
pub const HEADER_BYTES: u64 = 1 << 20;

/// Why the file `name` was refused; `width` and `height` are in pixels.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// The bytes are no PNG, JPEG or WebP picture.
    #[error("“{name}” is not a picture that this page can read. Choose a PNG, JPEG or WebP file.")]
    NotAPicture { name: String },
    /// The picture says it has no pixels.
    #[error("“{name}” claims to be {width} × {height} pixels, so there is nothing to show. Choose another picture.")]
    Empty { name: String, width: u64, height: u64 },
    /// The picture has more than [`PIXEL_LIMIT`] pixels.
    #[error(
        "“{name}” has {width} × {height} pixels ({megapixels} megapixels); the limit is 64 megapixels. Make it smaller, or choose another picture."
    )]
    TooLarge {
        name: String,
        width: u64,
        height: u64,
        /// Rounded up.
        megapixels: u64,
    },
}

/// Reads width and height in pixels from a file's first bytes, at most [`HEADER_BYTES`] of them.
///
/// # Errors
/// [`HeaderError`], which names the file and what to do.
pub fn check(name: &str, start: &[u8]) -> Result<(u64, u64), HeaderError> {
    let not_a_picture = || HeaderError::NotAPicture { name: name.to_owned() };
    match imagesize::image_type(start) {
        Ok(ImageType::Png | ImageType::Jpeg | ImageType::Webp) => {}
        Ok(_) | Err(_) => return Err(not_a_picture()),
    }
    let size = imagesize::blob_size(start).map_err(|_: ImageError| not_a_picture())?;
    let (width, height) = (size.width as u64, size.height as u64);
    let pixels = width.saturating_mul(height);
    if pixels == 0 {
        return Err(HeaderError::Empty { name: name.to_owned(), width, height });
    }
    if pixels > PIXEL_LIMIT {
        let megapixels = pixels.div_ceil(1_000_000);
        return Err(HeaderError::TooLarge { name: name.to_owned(), width, height, megapixels });
    }
    Ok((width, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signature and IHDR chunk of a PNG, which is all that the check reads.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn size_is_read_and_the_limit_is_exact() {
        assert_eq!(check("a.png", &png(640, 480)), Ok((640, 480)));
        assert_eq!(check("a.png", &png(8000, 8000)), Ok((8000, 8000)));
        assert!(matches!(
            check("a.png", &png(8000, 8001)),
            Err(HeaderError::TooLarge { megapixels: 65, width: 8000, height: 8001, .. })
        ));
        assert!(matches!(check("a.png", &png(u32::MAX, u32::MAX)), Err(HeaderError::TooLarge { .. })));
    }

    #[test]
    fn what_is_no_picture_is_refused_by_name() {
        let gif = b"GIF89a\x10\0\x10\0\0\0\0";
        for bytes in [&b""[..], b"hello, this is text", gif, b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"] {
            let error = check("notes.txt", bytes).expect_err("no picture");
            assert!(error.to_string().contains("notes.txt"), "{error}");
        }
        assert!(matches!(check("a.png", &png(0, 10)), Err(HeaderError::Empty { .. })));
    }
}
