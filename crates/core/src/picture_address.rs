//! Addresses of pictures, which pages load.

use std::{fmt, ops::Deref};

use serde::{Deserialize, Serialize};
use thiserror::Error;

const SERVER: &str = "/api/";
const EMBEDDED: &str = "data:image/png;base64,";
/// Most characters of an address in an error.
const SHOWN: usize = 60;

/// Address of a picture that a page can load without asking another machine: a path below `/api/` on the server that
/// the page came from, or the picture itself as a `data:` address. An empty address is no picture.
///
/// A recording or a message with any other address is refused when it is read, so that pages may load what they find in
/// such a field. No address contains a character that ends a quoted text in HTML or CSS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PictureAddress(String);

/// Why a text is no [`PictureAddress`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a page may not load a picture from {0:?}: it must begin with {SERVER} or {EMBEDDED}")]
pub struct ForeignAddress(String);

impl PictureAddress {
    /// The address of `path` below `/api/`, without the characters that no such address contains.
    pub fn on_server(path: &str) -> Self {
        Self(SERVER.chars().chain(path.chars().filter(|c| c.is_ascii() && is_of_path(*c as u8))).collect())
    }

    /// The address of a PNG file in base64; no picture if this is not base64.
    pub fn embedded(base64: &str) -> Self {
        if base64.bytes().all(is_of_base64) { Self([EMBEDDED, base64].concat()) } else { Self::default() }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/')
}

fn is_of_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

impl TryFrom<String> for PictureAddress {
    type Error = ForeignAddress;

    fn try_from(address: String) -> Result<Self, ForeignAddress> {
        let is_own = match (address.strip_prefix(SERVER), address.strip_prefix(EMBEDDED)) {
            (Some(path), _) => path.bytes().all(is_of_path),
            (_, Some(base64)) => base64.bytes().all(is_of_base64),
            _ => address.is_empty(),
        };
        if is_own { Ok(Self(address)) } else { Err(ForeignAddress(address.chars().take(SHOWN).collect())) }
    }
}

impl From<PictureAddress> for String {
    fn from(PictureAddress(address): PictureAddress) -> Self {
        address
    }
}

impl Deref for PictureAddress {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PictureAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_taken_as_they_are() {
        for own in
            ["", "/api/original/3.png", "/api/reconstruction/known-start/3-12.png", "data:image/png;base64,ab+/9="]
        {
            assert_eq!(PictureAddress::try_from(own.to_owned()).unwrap().as_str(), own);
        }
        assert_eq!(PictureAddress::on_server("original/3.png").as_str(), "/api/original/3.png");
        assert_eq!(PictureAddress::embedded("ab+/9=").as_str(), "data:image/png;base64,ab+/9=");
    }

    #[test]
    fn foreign_addresses_are_refused_by_name() {
        for foreign in [
            "https://example.org/a.png",
            "HTTP://example.org/a.png",
            "//example.org/a.png",
            "\\\\example.org\\a.png",
            "/\\example.org/a.png",
            "a.png",
            "/a.png",
            " /api/a.png",
            "javascript:alert(1)",
            "data:image/svg+xml,<svg/>",
            "data:image/png;base64,AA\") , url(\"https://example.org/",
            "/api/a.png\"); background-image: url(\"//example.org",
            "/api/a.png?b",
            "/api/a\n.png",
        ] {
            let error = PictureAddress::try_from(foreign.to_owned()).unwrap_err().to_string();
            assert!(error.contains(&format!("{foreign:?}")), "{error}");
        }
        let long = format!("https://example.org/{}", "a".repeat(1000));
        assert!(PictureAddress::try_from(long).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn whatever_an_address_is_made_of_it_can_be_read() {
        for text in ["../../a.png", "\"); url(\"//example.org", "//example.org\\?#", "é\u{2028}"] {
            for made in [PictureAddress::on_server(text), PictureAddress::embedded(text)] {
                assert_eq!(PictureAddress::try_from(made.to_string()).unwrap(), made);
            }
        }
    }
}
