//! Whether a request means this relay: its `Host`, and the `Origin` of the page that sends it.

use std::net::IpAddr;

use axum::http::uri::Authority;

use super::addresses::{Addresses, is_own_address};

/// The names that this relay answers to, on two ports. A page of another site cannot get a name of its own past it by
/// pointing that name at this machine (DNS rebinding).
#[derive(Debug)]
pub(crate) struct Names {
    /// In lower case.
    names: Vec<String>,
    http: u16,
    https: u16,
}

impl Names {
    pub(crate) fn new(addresses: &Addresses, http: u16, https: u16) -> Self {
        let names = addresses.names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names, http, https }
    }

    /// Whether a `Host` is one of ours, on either port.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        [(80, self.http), (443, self.https)]
            .into_iter()
            .any(|(usual, port)| authority.port_u16().unwrap_or(usual) == port)
            && self.is_own_name(&authority)
    }

    /// Whether an `Origin` is a page of ours, over HTTP or HTTPS.
    pub(crate) fn is_own_origin(&self, origin: &str) -> bool {
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        let (usual, port) = match scheme {
            "http" => (80, self.http),
            "https" => (443, self.https),
            _ => return false,
        };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        authority.port_u16().unwrap_or(usual) == port && self.is_own_name(&authority)
    }

    fn is_own_name(&self, authority: &Authority) -> bool {
        // Neither header ever names a user.
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host().trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
        match name.parse::<IpAddr>() {
            // A laptop may have got another address since the relay was started.
            Ok(address) => self.names.contains(&address.to_string()) || is_own_address(address),
            Err(_) => self.names.contains(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(&Addresses::find([127, 0, 0, 1].into(), Some("Classroom.test")), 8080, 443)
    }

    #[test]
    fn hosts() {
        for own in [
            "localhost:8080",
            "LOCALHOST:443",
            "localhost",
            "127.0.0.1:8080",
            "127.0.0.7:8080",
            "[::1]:8080",
            "[::1]",
            "classroom.test:8080",
            "classroom.test.",
        ] {
            assert!(names().is_own_host(own), "{own}");
        }
        for foreign in [
            "",
            "evil.test:8080",
            "localhost.evil.test:8080",
            "localhost:9090",
            "localhost:80",
            "192.0.2.1:8080",
            "[2001:db8::1]:8080",
            "a@localhost:8080",
            "localhost:8080/path",
            "local host",
        ] {
            assert!(!names().is_own_host(foreign), "{foreign}");
        }
    }

    #[test]
    fn origins() {
        for own in ["http://localhost:8080", "https://localhost", "https://classroom.test:443", "http://[::1]:8080"] {
            assert!(names().is_own_origin(own), "{own}");
        }
        for foreign in [
            "null",
            "",
            "localhost:8080",
            "https://localhost:8080",
            "http://localhost",
            "http://localhost:3000",
            "https://evil.test",
            "ftp://localhost:8080",
        ] {
            assert!(!names().is_own_origin(foreign), "{foreign}");
        }
    }
}
