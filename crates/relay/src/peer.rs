//! What tells one device from another, as far as a relay can know: good enough to ban a student in a classroom, not to keep
//! out somebody who clears cookies and changes networks.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::random;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Absent for a connection of this machine's own, whose address says nothing about who it is.
    pub(crate) address: Option<IpAddr>,
    /// Absent for programs, and for browsers that keep no cookies.
    pub(crate) device: Option<DeviceId>,
}

/// The number in a browser's cookie, 128 bits. It stands for a browser, and authorises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceId(u128);

impl DeviceId {
    /// A fresh one.
    ///
    /// # Errors
    /// If the operating system gives no random numbers.
    pub(crate) fn draw() -> anyhow::Result<Self> {
        random::bytes().map(|bytes| Self(u128::from_le_bytes(bytes)))
    }

    /// The one that a cookie's value stands for, if it is one.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let is_number = value.len() <= 32 && value.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| u128::from_str_radix(value, 16).ok()).flatten().map(Self)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_comes_back_from_its_cookie() {
        let device = DeviceId::draw().unwrap();
        assert_eq!(DeviceId::parse(&device.to_string()), Some(device));
        for other in ["", "x", "0123456789abcdef0123456789abcdef0"] {
            assert_eq!(DeviceId::parse(other), None, "{other}");
        }
    }
}
