//! Checks that a request is meant for this relay, by its `Host` and the `Origin` of the page that sends it.

use std::net::IpAddr;

use axum::http::uri::Authority;

use super::addresses::{Addresses, is_own_address};

/// The names that this relay answers to, on any port, since a container or a router may map the port. Unknown names are
/// refused, which prevents DNS rebinding by other sites.
#[derive(Debug)]
pub(crate) struct Names {
    /// In lower case.
    names: Vec<String>,
}

impl Names {
    pub(crate) fn new(addresses: &Addresses) -> Self {
        Self { names: addresses.names.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        host.parse::<Authority>().is_ok_and(|authority| self.is_own_name(&authority))
    }

    fn is_own_name(&self, authority: &Authority) -> bool {
        // Neither header contains a user name.
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host().trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
        match name.parse::<IpAddr>() {
            // A laptop's address may have changed since the relay started.
            Ok(address) => self.names.contains(&address.to_string()) || is_own_address(address),
            Err(_) => self.names.contains(&name),
        }
    }
}

/// Whether the request came over TLS; the HTTPS port adds it to each of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverTls;

/// Whether an `Origin` matches the `Host` in name and port, and in its scheme if the request came over TLS. A different
/// port may be a different program, and anybody in the network can make a page for `http:`.
///
/// Over plain HTTP, a page of `https:` with the relay's own name and port can only come through a proxy that ends TLS.
pub(super) fn is_same_origin(origin: &str, host: &str, is_over_tls: bool) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let usual = match scheme {
        "http" if !is_over_tls => ":80",
        "https" => ":443",
        _ => return false,
    };
    // Some programs write the default port, which is redundant.
    let short = |authority: &str| authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase();
    short(authority) == short(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let names = Names::new(&Addresses::find([127, 0, 0, 1].into(), Some("Classroom.test")));
        for own in [
            "localhost:8080",
            "LOCALHOST:443",
            "localhost",
            "127.0.0.1:8080",
            "127.0.0.7:8080",
            "[::1]:8080",
            "[::1]",
            "classroom.test:9090",
            "classroom.test.",
        ] {
            assert!(names.is_own_host(own), "{own}");
        }
        for foreign in [
            "",
            "evil.test:8080",
            "localhost.evil.test:8080",
            "192.0.2.1:8080",
            "[2001:db8::1]:8080",
            "a@localhost:8080",
            "localhost:8080/path",
            "local host",
        ] {
            assert!(!names.is_own_host(foreign), "{foreign}");
        }
    }

    #[test]
    fn origins() {
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8080"),
            ("https://localhost", "localhost"),
            ("https://classroom.test:443", "Classroom.test"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert!(is_same_origin(origin, host, false), "{origin}");
            assert_eq!(is_same_origin(origin, host, true), origin.starts_with("https:"), "{origin} over TLS");
        }
        for foreign in [
            "null",
            "",
            "localhost:8080",
            "http://localhost",
            "http://localhost:3000",
            "http://localhost:80",
            "https://evil.test",
            "https://evil.test:8080",
            "ftp://localhost:8080",
        ] {
            for is_over_tls in [false, true] {
                assert!(!is_same_origin(foreign, "localhost:8080", is_over_tls), "{foreign}");
            }
        }
    }
}
