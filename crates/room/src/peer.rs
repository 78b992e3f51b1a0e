//! Identifies devices well enough to ban a student in a classroom. It does not stop a person who clears cookies and
//! changes networks.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Absent for connections from this machine, since its address does not identify the client.
    pub address: Option<IpAddr>,
    /// Absent for programs, and for browsers that keep no cookies.
    pub device: Option<DeviceId>,
}

/// The 128-bit number in a browser's cookie. It identifies a browser and grants no access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceId(u128);

impl DeviceId {
    /// The id with these bytes, which must be random.
    pub fn of(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    pub fn parse(value: &str) -> Option<Self> {
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
        let device = DeviceId::of([0xa7; 16]);
        assert_eq!(DeviceId::parse(&device.to_string()), Some(device));
        for other in ["", "x", "0123456789abcdef0123456789abcdef0"] {
            assert_eq!(DeviceId::parse(other), None, "{other}");
        }
    }
}
