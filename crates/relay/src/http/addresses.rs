//! The names and addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use tracing::warn;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Hosts for a student's address, best first; never empty.
    pub(crate) hosts: Vec<String>,
    /// Names and addresses that the certificate must cover.
    pub(crate) names: Vec<String>,
}

impl Addresses {
    /// Inspects this machine's network. `bind` is the address the relay listens on, `host` the one the user wants
    /// students to open.
    pub(crate) fn find(bind: IpAddr, host: Option<&str>) -> Self {
        let lan = lan_addresses();
        let hosts = match host {
            Some(host) => vec![host.to_owned()],
            None if bind.is_loopback() => vec!["localhost".to_owned()],
            None if !bind.is_unspecified() => vec![bind.to_string()],
            None if lan.is_empty() => vec!["localhost".to_owned()],
            None => lan.iter().map(ToString::to_string).collect(),
        };
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        let machine = gethostname::gethostname().to_string_lossy().to_ascii_lowercase();
        if !machine.is_empty() && !machine.starts_with("localhost") {
            names.extend([format!("{}.local", machine.trim_end_matches(".local")), machine]);
        }
        names.extend(lan.iter().map(ToString::to_string));
        names.extend(hosts.iter().cloned());
        names.retain(|name| {
            name.parse::<IpAddr>().is_ok()
                || name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        });
        names.sort();
        names.dedup();
        Self { hosts, names }
    }
}

/// Returns `scheme://host:port/`, with brackets around an IPv6 address.
pub(crate) fn url(scheme: &str, host: &str, port: u16) -> String {
    if host.contains(':') { format!("{scheme}://[{host}]:{port}/") } else { format!("{scheme}://{host}:{port}/") }
}

/// Whether this machine currently has this address.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_listed = || if_addrs::get_if_addrs().is_ok_and(|all| all.iter().any(|interface| interface.ip() == address));
    address.is_loopback() || is_listed()
}

/// Returns this machine's IPv4 addresses without loopback and link-local ones, the one with the default route first.
fn lan_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        warn!("this machine's network cannot be listed ({error}); students' address may be wrong, set it with --host");
        Vec::new()
    });
    let first = default_address();
    let mut addresses: Vec<IpAddr> = first.into_iter().collect();
    for interface in interfaces {
        let address = interface.ip();
        let is_useful = match address {
            IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
            IpAddr::V6(_) => false,
        };
        if is_useful && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Returns the address of the default route. Connecting a datagram socket sends nothing.
fn default_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // This address is reserved for documentation.
    socket.connect(SocketAddr::from(([192, 0, 2, 1], 9))).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_follow_what_was_asked_for() {
        let find = |bind: [u8; 4], host| Addresses::find(IpAddr::from(bind), host);
        assert_eq!(find([127, 0, 0, 1], None).hosts, ["localhost"]);
        assert_eq!(find([192, 0, 2, 7], None).hosts, ["192.0.2.7"]);
        let named = find([0, 0, 0, 0], Some("classroom.test"));
        assert_eq!(named.hosts, ["classroom.test"]);
        for name in ["classroom.test", "localhost", "127.0.0.1", "::1"] {
            assert!(named.names.iter().any(|n| n == name), "{name} is not in {:?}", named.names);
        }
        assert!(!find([0, 0, 0, 0], None).hosts.is_empty());
    }

    #[test]
    fn ipv6_gets_brackets() {
        assert_eq!(url("https", "::1", 8443), "https://[::1]:8443/");
        assert_eq!(url("http", "10.0.0.2", 80), "http://10.0.0.2:80/");
    }
}
