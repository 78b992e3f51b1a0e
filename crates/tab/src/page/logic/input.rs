//! Checks input from outside before use: addresses, PINs, and picture files before they are decoded.

use imagesize::{Compression, ImageError, ImageType};
use unmask_data::MAX_PIXELS;

use unmask_words::say;

/// The HTTPS address of this page: the host it was opened with and the port of the room's HTTPS address.
///
/// The room's own host name is not used, since a device may know the relay under another one. `None` if `room_https` is
/// not an HTTPS address.
pub fn https_twin(hostname: &str, room_https: &str, path_and_query: &str) -> Option<String> {
    let rest = room_https.strip_prefix("https://")?;
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    // The last colon may belong to a bracketed IPv6 address.
    let port = match authority.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => port.parse::<u16>().ok()?,
        _ => 443,
    };
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    Some(format!("https://{hostname}{port}{path_and_query}"))
}

/// The address of the room's socket, for a page with this protocol (`http:` or `https:`) and host (with port).
pub fn socket_address(protocol: &str, host: &str) -> String {
    let scheme = if protocol == "https:" { "wss" } else { "ws" };
    format!("{scheme}://{host}/ws")
}

/// The value of `name` in a fragment: a role's secret (`#room=XYZ`) or the passphrase (`#passphrase=blue%20whale`),
/// still percent-encoded. Browsers never send the fragment; a query would reach the relay and its logs.
pub fn from_fragment<'a>(fragment: &'a str, name: &str) -> Option<&'a str> {
    fragment
        .trim_start_matches('#')
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        .filter(|value| !value.is_empty())
}

/// The fragment without the part called `name`, with its `#` unless it is empty.
pub fn without_part(fragment: &str, name: &str) -> String {
    let is_named = |part: &&str| part.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
    let parts = fragment.trim_start_matches('#').split('&').filter(|part| !part.is_empty() && !is_named(part));
    let rest = parts.collect::<Vec<_>>().join("&");
    if rest.is_empty() { rest } else { format!("#{rest}") }
}

const DIGITS: usize = 6;

/// Reads a typed PIN, ignoring spaces and hyphens.
///
/// # Errors
/// A sentence for the user, unless there are six digits.
pub fn read_pin(typed: &str) -> Result<String, String> {
    let pin: String = typed.chars().filter(|character| !character.is_whitespace() && *character != '-').collect();
    let is_pin = pin.len() == DIGITS && pin.bytes().all(|byte| byte.is_ascii_digit());
    if is_pin { Ok(pin) } else { Err(say::entrance::six_digits().to_owned()) }
}

/// The PIN in two halves, as people read it out.
pub fn grouped_pin(pin: &str) -> String {
    match pin.split_at_checked(DIGITS / 2) {
        Some((first, second)) if !second.is_empty() => format!("{first} {second}"),
        _ => pin.to_owned(),
    }
}

/// The header must lie within this many bytes; in a JPEG, camera metadata comes before the size.
pub const HEADER_BYTES: u64 = 1 << 20;

/// The formats offered in a file dialogue. A phone converts its HEIC photographs to JPEG if HEIC is not listed.
pub const FORMATS: &str = "image/png,image/jpeg,image/webp,image/gif,image/avif";

/// Why the file `name` was refused; `width` and `height` are in pixels.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Not a PNG, JPEG, WebP, GIF or AVIF picture.
    NotAPicture { name: String },
    /// A photograph in the iPhone's own format.
    Heic { name: String },
    /// The header claims zero pixels.
    Empty { name: String, width: u64, height: u64 },
    /// More than [`MAX_PIXELS`] pixels.
    TooLarge {
        name: String,
        width: u64,
        height: u64,
        /// Rounded up.
        megapixels: u64,
    },
}

impl HeaderError {
    /// Says in a sentence why and what to do.
    pub fn sentence(&self) -> String {
        match self {
            Self::NotAPicture { name } => say::picture::unknown(name),
            Self::Heic { name } => say::picture::heic(name),
            Self::Empty { name, width, height } => say::picture::empty(name, width, height),
            Self::TooLarge { name, width, height, megapixels } => {
                say::picture::too_large(name, width, height, megapixels, MAX_PIXELS / 1_000_000)
            }
        }
    }
}

/// Reads width and height in pixels from the first bytes of a file, at most [`HEADER_BYTES`]. In an animation the first
/// frame counts, which is also what browsers draw.
///
/// # Errors
/// [`HeaderError`], which names the file and says what to do.
pub fn check_picture(name: &str, start: &[u8]) -> Result<(u64, u64), HeaderError> {
    let not_a_picture = || HeaderError::NotAPicture { name: name.to_owned() };
    let size = match imagesize::image_type(start) {
        Ok(ImageType::Png | ImageType::Jpeg | ImageType::Webp) => {
            let size = imagesize::blob_size(start).map_err(|_: ImageError| not_a_picture())?;
            Some((size.width as u64, size.height as u64))
        }
        Ok(ImageType::Gif) => gif_size(start),
        Ok(ImageType::Heif(Compression::Av1)) => avif_size(start),
        Ok(ImageType::Heif(Compression::Hevc)) => return Err(HeaderError::Heic { name: name.to_owned() }),
        Ok(_) | Err(_) => None,
    };
    let (width, height) = size.ok_or_else(not_a_picture)?;
    let pixels = width.saturating_mul(height);
    if pixels == 0 {
        return Err(HeaderError::Empty { name: name.to_owned(), width, height });
    }
    if pixels > MAX_PIXELS {
        let megapixels = pixels.div_ceil(1_000_000);
        return Err(HeaderError::TooLarge { name: name.to_owned(), width, height, megapixels });
    }
    Ok((width, height))
}

/// The size that a browser allocates for a GIF: its screen, extended if the first frame reaches beyond it.
fn gif_size(start: &[u8]) -> Option<(u64, u64)> {
    let short = |at: usize| start.get(at..)?.first_chunk().map(|bytes| u64::from(u16::from_le_bytes(*bytes)));
    let (width, height, packed) = (short(6)?, short(8)?, *start.get(10)?);
    let colours = if packed & 0x80 == 0 { 0 } else { 3 << ((packed & 7) + 1) };
    let mut at = 13 + colours;
    loop {
        match start.get(at)? {
            // An extension: a label, then blocks up to an empty one.
            0x21 => {
                at += 2;
                loop {
                    let length = usize::from(*start.get(at)?);
                    at += 1 + length;
                    if length == 0 {
                        break;
                    }
                }
            }
            // A frame: its position, then its size.
            0x2c => {
                let (right, bottom) = (short(at + 1)? + short(at + 5)?, short(at + 3)? + short(at + 7)?);
                return Some((width.max(right), height.max(bottom)));
            }
            _ => return None,
        }
    }
}

/// The largest picture in an AVIF file: the one shown, or the whole grid of tiles. `imagesize` takes the largest too,
/// but compares areas that overflow a 32-bit `usize`.
fn avif_size(start: &[u8]) -> Option<(u64, u64)> {
    // An image spatial extents box, version 0: name, version and three flag bytes, width, height.
    const NAME: &[u8] = b"ispe\0";
    let size = |extents: &[u8]| {
        let [width, height] = extents.get(8..16)?.as_chunks::<4>().0 else { return None };
        Some((u64::from(u32::from_be_bytes(*width)), u64::from(u32::from_be_bytes(*height))))
    };
    let boxes = (0..start.len()).map(|at| &start[at..]).filter(|rest| rest.starts_with(NAME));
    boxes.filter_map(size).max_by_key(|(width, height)| width * height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_twin_keeps_the_host_and_takes_the_port() {
        let twin = |hostname, https| https_twin(hostname, https, "/?image=cat");
        assert_eq!(
            twin("classroom.test", "https://192.168.1.5:8443/").as_deref(),
            Some("https://classroom.test:8443/?image=cat")
        );
        assert_eq!(twin("[fe80::1]", "https://[fe80::2]:9000").as_deref(), Some("https://[fe80::1]:9000/?image=cat"));
        assert_eq!(twin("a.test", "https://[fe80::2]/").as_deref(), Some("https://a.test/?image=cat"));
        assert_eq!(twin("a.test", "https://b.test").as_deref(), Some("https://a.test/?image=cat"));
    }

    #[test]
    fn https_twin_refuses_what_is_no_https_address() {
        for bad in ["", "http://a.test:80/", "https://", "https://a.test:99999/", "https://a.test:/"] {
            assert_eq!(https_twin("a.test", bad, "/"), None, "{bad}");
        }
    }

    #[test]
    fn socket_follows_the_page() {
        assert_eq!(socket_address("https:", "a.test:8443"), "wss://a.test:8443/ws");
        assert_eq!(socket_address("http:", "localhost:8080"), "ws://localhost:8080/ws");
    }

    #[test]
    fn fragments_are_read_by_name() {
        for (fragment, name, value) in [
            ("#token=XYZ", "token", Some("XYZ")),
            ("#view=big&token=a-b_c", "token", Some("a-b_c")),
            ("#token=", "token", None),
            ("", "token", None),
            ("#passphrase=blue%20whale", "passphrase", Some("blue%20whale")),
            ("#token=XYZ&passphrase=a=b", "passphrase", Some("a=b")),
            ("#passphrases=no", "passphrase", None),
            ("#passphrase=", "passphrase", None),
        ] {
            assert_eq!(from_fragment(fragment, name), value, "{fragment}");
        }
    }

    #[test]
    fn a_part_is_taken_and_the_others_stay() {
        for (fragment, name, rest) in [
            ("#room=XYZ", "room", ""),
            ("#room=XYZ&passphrase=blue%20whale", "room", "#passphrase=blue%20whale"),
            ("#room=XYZ&passphrase=a=b", "passphrase", "#room=XYZ"),
            ("#rooms=1&room=", "room", "#rooms=1"),
            ("#", "room", ""),
            ("", "room", ""),
        ] {
            assert_eq!(without_part(fragment, name), rest, "{fragment} without {name}");
            assert_eq!(from_fragment(&without_part(fragment, name), name), None);
        }
    }

    #[test]
    fn a_pin_is_read_as_people_type_it() {
        for typed in ["123456", " 123 456 ", "123-456", "12 34 56", "123\u{a0}456"] {
            assert_eq!(read_pin(typed).as_deref(), Ok("123456"), "{typed}");
        }
        assert_eq!(read_pin("000000").as_deref(), Ok("000000"));
    }

    #[test]
    fn what_is_no_pin_is_not_sent() {
        for typed in ["", "12345", "1234567", "12345a", "١٢٣٤٥٦", "+12345", "12.456"] {
            assert!(read_pin(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_pin_is_shown_in_halves() {
        for (pin, shown) in [("123456", "123 456"), ("", ""), ("123", "123"), ("ééé", "ééé")] {
            assert_eq!(grouped_pin(pin), shown);
        }
        assert_eq!(read_pin(&grouped_pin("004210")).as_deref(), Ok("004210"));
    }

    /// Signature and IHDR chunk of a PNG; the check reads no more.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    /// A GIF with this screen, a comment, and a first frame with this position and size.
    fn gif(screen: [u16; 2], frame: [u16; 4]) -> Vec<u8> {
        let mut bytes = b"GIF89a".to_vec();
        bytes.extend(screen.map(u16::to_le_bytes).as_flattened());
        // A table of two colours, then a comment in two blocks, one of which looks like a frame.
        bytes.extend([0x80, 0, 0, 1, 2, 3, 4, 5, 6, 0x21, 0xfe, 3, 0x2c, 9, 9, 1, 9, 0, 0x2c]);
        bytes.extend(frame.map(u16::to_le_bytes).as_flattened());
        bytes
    }

    /// The start of an AVIF with these spatial extents.
    fn avif(brand: &[u8; 4], extents: &[[u32; 2]]) -> Vec<u8> {
        let mut bytes = [&b"\0\0\0\x10ftyp"[..], brand, &[0; 4]].concat();
        for size in extents {
            bytes.extend(b"\0\0\0\x14ispe\0\0\0\0");
            bytes.extend(size.map(u32::to_be_bytes).as_flattened());
        }
        // `imagesize` reads past the extents.
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn size_is_read_and_the_limit_is_exact() {
        assert_eq!(check_picture("a.png", &png(640, 480)), Ok((640, 480)));
        assert_eq!(check_picture("a.png", &png(8000, 8000)), Ok((8000, 8000)));
        assert!(matches!(
            check_picture("a.png", &png(8000, 8001)),
            Err(HeaderError::TooLarge { megapixels: 65, width: 8000, height: 8001, .. })
        ));
        assert!(matches!(check_picture("a.png", &png(u32::MAX, u32::MAX)), Err(HeaderError::TooLarge { .. })));
    }

    #[test]
    fn real_files_are_read() {
        assert_eq!(check_picture("a.gif", include_bytes!("../../../tests/pictures/two_frames.gif")), Ok((24, 16)));
        assert_eq!(check_picture("a.avif", include_bytes!("../../../tests/pictures/red.avif")), Ok((24, 16)));
    }

    #[test]
    fn a_first_frame_larger_than_the_screen_counts() {
        assert_eq!(check_picture("a.gif", &gif([40, 30], [0, 0, 40, 30])), Ok((40, 30)));
        assert_eq!(check_picture("a.gif", &gif([40, 30], [10, 0, 40, 20])), Ok((50, 30)));
        assert_eq!(check_picture("a.gif", &gif([0, 0], [0, 0, 7, 5])), Ok((7, 5)));
        let bomb = check_picture("a.gif", &gif([1, 1], [0, 0, u16::MAX, u16::MAX]));
        assert!(matches!(bomb, Err(HeaderError::TooLarge { width: 65_535, .. })), "{bomb:?}");
        assert!(matches!(check_picture("a.gif", &gif([0, 0], [0; 4])), Err(HeaderError::Empty { .. })));
        let whole = gif([40, 30], [0, 0, 40, 30]);
        for length in 0..whole.len() {
            assert!(check_picture("a.gif", &whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn the_largest_extents_count() {
        assert_eq!(check_picture("a.avif", &avif(b"avif", &[[64, 64], [640, 480], [8, 8]])), Ok((640, 480)));
        assert_eq!(check_picture("a.avif", &avif(b"avis", &[[64, 48]])), Ok((64, 48)));
        // In 32 bits, 65536² is 0 and 65537 × 65536 is 65536.
        for huge in [[65_536, 65_536], [65_537, 65_536], [u32::MAX, u32::MAX]] {
            let bomb = check_picture("a.avif", &avif(b"avif", &[[1000, 1000], huge]));
            assert!(matches!(bomb, Err(HeaderError::TooLarge { .. })), "{huge:?}: {bomb:?}");
        }
        assert!(matches!(check_picture("a.avif", &avif(b"avif", &[])), Err(HeaderError::NotAPicture { .. })));
    }

    #[test]
    fn heic_gets_a_remedy() {
        let error =
            check_picture("IMG_1.heic", &avif(b"heic", &[[64, 64]])).expect_err("no browser is sure to read it");
        assert!(matches!(error, HeaderError::Heic { .. }), "{error:?}");
        assert!(error.sentence().contains("screenshot"), "{error:?}");
    }

    #[test]
    fn what_is_no_picture_is_refused_by_name() {
        let gif = b"GIF89a\x10\0\x10\0\0\0\0";
        let film = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom";
        for bytes in [&b""[..], b"hello, this is text", gif, film, b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"] {
            let error = check_picture("notes.txt", bytes).expect_err("no picture");
            assert!(error.sentence().contains("notes.txt"), "{error:?}");
        }
        assert!(matches!(check_picture("a.png", &png(0, 10)), Err(HeaderError::Empty { .. })));
    }
}
