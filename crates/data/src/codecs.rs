//! Image files in memory: reads PNG, JPEG and WebP, writes PNG.

use std::io::Cursor;

use image::{
    DynamicImage, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits, RgbImage, metadata::Orientation,
};

use crate::{MAX_PIXELS, Picture, PictureError};

/// The most bytes of decoded pixels: enough for [`MAX_PIXELS`] with four channels of 8 bits.
const MAX_DECODED: u64 = MAX_PIXELS * 4;
/// The most memory a decoder may allocate: the pixels, and a progressive JPEG's coefficients beside them.
const MAX_ALLOCATED: u64 = 2 * MAX_DECODED + (64 << 20);

#[derive(Debug, thiserror::Error)]
pub enum NotAPicture {
    #[error("this is not a PNG, JPEG or WebP picture")]
    UnknownFormat,
    #[error("the picture has {width} x {height} pixels, more than {limit} million: make it smaller first", limit = MAX_PIXELS / 1_000_000)]
    TooLarge { width: u32, height: u32 },
    #[error(
        "the picture has {width} x {height} pixels and takes {megabytes} MB, more than {limit}: make it smaller, or save \
         it with 8 bits for each colour", limit = MAX_DECODED / 1_000_000
    )]
    TooDeep {
        width: u32,
        height: u32,
        /// Millions of bytes, decoded.
        megabytes: u64,
    },
    #[error("the picture cannot be read: {0}")]
    Broken(#[from] image::ImageError),
    #[error(transparent)]
    Empty(#[from] PictureError),
}

/// Decodes a PNG, JPEG or WebP file to 8-bit RGB. Applies the EXIF orientation, puts transparent pictures on white, and
/// takes the first frame of an animation.
///
/// # Errors
/// [`NotAPicture`]: another format, more than [`MAX_PIXELS`] pixels, more than four bytes for each of so many pixels (the header
/// is enough to tell both), or broken data.
pub fn decode(bytes: &[u8]) -> Result<Picture, NotAPicture> {
    Ok(decode_turned(bytes, true)?.0)
}

/// As [`decode`], but leaves the picture as it is stored; `None` if it has no EXIF orientation.
///
/// # Errors
/// As [`decode`].
pub fn decode_as_stored(bytes: &[u8]) -> Result<Option<Picture>, NotAPicture> {
    let (picture, has_orientation) = decode_turned(bytes, false)?;
    Ok(has_orientation.then_some(picture))
}

/// The picture, and whether it has an EXIF orientation, which is applied if asked for.
fn decode_turned(bytes: &[u8], is_turned: bool) -> Result<(Picture, bool), NotAPicture> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(image::ImageError::IoError)?;
    match reader.format() {
        Some(ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP) => {}
        _ => return Err(NotAPicture::UnknownFormat),
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOCATED);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(NotAPicture::TooLarge { width, height });
    }
    let decoded = decoder.total_bytes();
    if decoded > MAX_DECODED {
        return Err(NotAPicture::TooDeep { width, height, megabytes: decoded.div_ceil(1_000_000) });
    }
    // Broken EXIF data does not make the picture unreadable.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    let picture = if image.color().has_alpha() {
        Picture::from_rgba(width, height, image.into_rgba8().as_raw())?
    } else {
        Picture::new(width, height, image.into_rgb8().into_raw())?
    };
    let has_orientation = orientation != Orientation::NoTransforms;
    let picture = if is_turned && has_orientation { turned(picture, orientation)? } else { picture };
    Ok((picture, has_orientation))
}

/// Turning is last, because it copies the picture: as 8-bit RGB it is smallest.
fn turned(picture: Picture, orientation: Orientation) -> Result<Picture, PictureError> {
    let (width, height) = (picture.width() as u32, picture.height() as u32);
    let image = RgbImage::from_raw(width, height, picture.into_rgb()).unwrap_or_default();
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(orientation);
    Picture::new(image.width() as usize, image.height() as usize, image.into_rgb8().into_raw())
}

/// Encodes a picture as PNG.
///
/// # Errors
/// The encoder failed. It has no reason to for a picture of at most [`MAX_PIXELS`].
pub fn encode_png(picture: &Picture) -> Result<Vec<u8>, image::ImageError> {
    let mut bytes = Vec::new();
    image::codecs::png::PngEncoder::new(&mut bytes).write_image(
        picture.rgb(),
        picture.width() as u32,
        picture.height() as u32,
        image::ExtendedColorType::Rgb8,
    )?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pattern::pattern;

    fn encode(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn picture() -> Picture {
        Picture::from_hwc(24, 16, &pattern(24, 16)).unwrap()
    }

    fn dynamic(picture: &Picture) -> DynamicImage {
        let (width, height) = (picture.width() as u32, picture.height() as u32);
        DynamicImage::ImageRgb8(RgbImage::from_raw(width, height, picture.rgb().to_vec()).unwrap())
    }

    #[test]
    fn lossless_formats_round_trip() {
        let picture = picture();
        assert_eq!(decode(&encode_png(&picture).unwrap()).unwrap(), picture);
        assert_eq!(decode(&encode(&dynamic(&picture), ImageFormat::WebP)).unwrap(), picture);
    }

    #[test]
    fn jpeg_is_close() {
        let picture = picture();
        let read = decode(&encode(&dynamic(&picture), ImageFormat::Jpeg)).unwrap();
        let psnr = crate::metrics::psnr(&picture.to_hwc(), &read.to_hwc(), 24, 16).unwrap();
        assert!(psnr > 25.0, "{psnr}");
    }

    #[test]
    fn every_kind_of_pixel_becomes_rgb() {
        let grey = DynamicImage::ImageLuma8(image::GrayImage::from_raw(1, 1, vec![77]).unwrap());
        assert_eq!(decode(&encode(&grey, ImageFormat::Png)).unwrap().rgb(), [77, 77, 77]);
        let deep = DynamicImage::ImageRgb16(image::ImageBuffer::from_raw(1, 1, vec![0, 0x8080, 0xffff]).unwrap());
        assert_eq!(decode(&encode(&deep, ImageFormat::Png)).unwrap().rgb(), [0, 0x80, 255]);
        let clear = DynamicImage::ImageRgba8(image::RgbaImage::from_raw(1, 1, vec![9, 9, 9, 0]).unwrap());
        assert_eq!(decode(&encode(&clear, ImageFormat::Png)).unwrap().rgb(), [255, 255, 255]);
        let clear = DynamicImage::ImageLumaA8(image::GrayAlphaImage::from_raw(1, 1, vec![9, 0]).unwrap());
        assert_eq!(decode(&encode(&clear, ImageFormat::Png)).unwrap().rgb(), [255, 255, 255]);
    }

    /// CMYK ink: red on the left (0, 255, 255, 0), darkened blue on the right (255, 128, 0, 100), stored inverted as
    /// Adobe does. The same bytes declared as YCCK are other colours. Pillow gave the expected values.
    #[test]
    fn inks_become_light() {
        let inks = include_bytes!("../testdata/cmyk.jpg").to_vec();
        let marker = inks.windows(5).position(|bytes| bytes == b"Adobe").unwrap();
        let mut ycck = inks.clone();
        ycck[marker + 11] = 2;
        for (bytes, left, right) in [(inks, [255, 0, 0], [0, 77, 155]), (ycck, [179, 0, 227], [47, 155, 155])] {
            let picture = decode(&bytes).unwrap();
            assert_eq!((picture.width(), picture.height()), (16, 8));
            for (x, expected) in [(2, left), (13, right)] {
                let found = &picture.rgb()[(4 * 16 + x) * 3..][..3];
                let close = found.iter().zip(expected).all(|(&found, expected)| found.abs_diff(expected) <= 3);
                assert!(close, "pixel {x}: {found:?}, expected {expected:?}");
            }
        }
    }

    /// A JPEG from a camera held sideways: an APP1 segment with orientation 6 (rotate right) follows the first marker.
    #[test]
    fn orientation_is_applied() {
        let upright = picture();
        let mut bytes = encode(&dynamic(&upright), ImageFormat::Jpeg);
        let tiff = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let length = (tiff.len() as u16 + 2).to_be_bytes();
        let segment = [&[0xff, 0xe1], &length[..], &tiff[..]].concat();
        bytes.splice(2..2, segment);
        let turned = decode(&bytes).unwrap();
        assert_eq!((turned.width(), turned.height()), (16, 24));
        let plain = decode(&encode(&dynamic(&upright), ImageFormat::Jpeg)).unwrap();
        assert_eq!(turned.rgb()[15 * 3..16 * 3], plain.rgb()[..3], "top left becomes top right");
    }

    #[test]
    fn refuses_what_is_no_picture() {
        assert!(matches!(decode(b""), Err(NotAPicture::UnknownFormat)));
        assert!(matches!(decode(b"<html>"), Err(NotAPicture::UnknownFormat)));
        assert!(matches!(decode(b"GIF89a\x01\x00\x01\x00"), Err(NotAPicture::UnknownFormat)));
        let whole = encode_png(&picture()).unwrap();
        for length in [8, 20, 40, whole.len() / 2] {
            assert!(matches!(decode(&whole[..length]), Err(NotAPicture::Broken(_))), "{length} bytes");
        }
    }

    /// The header says 10000 x 10000 and there is no data. If the data were decoded first, the error would be "broken"
    /// and not "too large".
    #[test]
    fn refuses_size_from_the_header() {
        let mut bytes = encode_png(&picture()).unwrap();
        bytes[16..24].copy_from_slice(&[0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10]);
        let crc = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.to_be_bytes());
        let error = decode(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the picture has 10000 x 10000 pixels, more than 64 million: make it smaller first"
        );
    }

    /// 7000 x 6000 pixels of 8 bytes: the header says 16 bits for each of four channels.
    #[test]
    fn refuses_deep_pixels_from_the_header() {
        let mut bytes = encode_png(&picture()).unwrap();
        bytes[16..26].copy_from_slice(&[0, 0, 0x1b, 0x58, 0, 0, 0x17, 0x70, 16, 6]);
        let crc = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.to_be_bytes());
        let error = decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("7000 x 6000 pixels and takes 336 MB, more than 256: make it smaller"), "{error}");
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
    }
}
