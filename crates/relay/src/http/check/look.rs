//! What a program can see of its machine and network without rights.

use std::{
    fs,
    net::{IpAddr, ToSocketAddrs as _},
    path::Path,
};

use super::super::{
    addresses::{Addresses, is_own_address},
    tls::Identity,
};
use crate::config::RelayConfig;

/// A firewall that decides what reaches this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Firewall {
    Ufw,
    Firewalld,
    /// No such program is seen to run. Rules of the kernel can only be read by root.
    Unseen,
}

/// Where the program runs, if not directly on the machine that students reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Machine,
    Container,
    /// Windows Subsystem for Linux.
    Wsl,
}

/// Where a relay serves, or would serve.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) bind: IpAddr,
    /// From --host.
    pub(crate) host: Option<String>,
    /// What students open, best first.
    pub(crate) hosts: Vec<String>,
    /// HTTP and HTTPS.
    pub(crate) ports: [u16; 2],
    /// Whether the given certificate is for the first of `hosts`; `None` for the relay's own.
    pub(crate) is_covered: Option<bool>,
    /// SHA-256 of the certificate.
    pub(crate) fingerprint: String,
}

impl Place {
    pub(crate) fn new(config: &RelayConfig, addresses: &Addresses, identity: &Identity, ports: [u16; 2]) -> Self {
        let best = addresses.hosts.first().map_or("localhost", String::as_str);
        Self {
            bind: config.bind,
            host: config.host.clone(),
            hosts: addresses.hosts.clone(),
            ports,
            is_covered: config.certificate.is_some().then(|| identity.covers(best)),
            fingerprint: identity.fingerprint.clone(),
        }
    }
}

/// The ports of a relay.
#[derive(Debug, Clone)]
pub(super) enum Ports {
    /// By the relay that looks.
    Served,
    Free,
    /// Why a port cannot be used, with the remedy.
    Taken(Vec<String>),
}

#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) place: Place,
    /// From --host, with the addresses that its name leads to, or why it leads nowhere.
    pub(super) host: Option<(String, Result<Vec<IpAddr>, String>)>,
    /// Whether one of those addresses is this machine's.
    pub(super) host_is_own: bool,
    pub(super) ports: Ports,
    pub(super) firewall: Firewall,
    pub(super) inside: Inside,
}

impl Look {
    /// Looks around; asks the network for the addresses of the place's host.
    pub(super) fn around(place: Place, ports: Ports) -> Self {
        let host = place.host.clone().map(|name| {
            let found = (name.as_str(), 0).to_socket_addrs();
            let found = found.map(|all| all.map(|address| address.ip()).collect()).map_err(|error| error.to_string());
            (name, found)
        });
        let found = host.iter().filter_map(|(_, found)| found.as_ref().ok()).flatten();
        let host_is_own = found.copied().any(is_own_address);
        let (firewall, inside) = (firewall(Path::new("/")), inside(Path::new("/")));
        Self { place, host, host_is_own, ports, firewall, inside }
    }
}

/// `root` is the file system's, except in tests.
fn firewall(root: &Path) -> Firewall {
    let ufw = fs::read_to_string(root.join("etc/ufw/ufw.conf")).unwrap_or_default();
    if ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("enabled=yes")) {
        return Firewall::Ufw;
    }
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let mut names = processes.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    if names.any(|name| name.trim() == "firewalld") { Firewall::Firewalld } else { Firewall::Unseen }
}

fn inside(root: &Path) -> Inside {
    let kernel = fs::read_to_string(root.join("proc/version")).unwrap_or_default().to_lowercase();
    if kernel.contains("microsoft") {
        Inside::Wsl
    } else if [".dockerenv", "run/.containerenv"].iter().any(|mark| root.join(mark).exists()) {
        Inside::Container
    } else {
        Inside::Machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn firewalls_are_seen_by_their_traces() {
        for (files, seen) in [
            (&[][..], Firewall::Unseen),
            (&[("etc/ufw/ufw.conf", "# on at start\nENABLED=yes\n")], Firewall::Ufw),
            (&[("etc/ufw/ufw.conf", "ENABLED=no\n")], Firewall::Unseen),
            (&[("proc/1/comm", "systemd\n"), ("proc/77/comm", "firewalld\n")], Firewall::Firewalld),
        ] {
            assert_eq!(firewall(root(files).path()), seen, "{files:?}");
        }
    }

    #[test]
    fn containers_and_windows_are_seen() {
        for (files, seen) in [
            (&[("proc/version", "Linux version 6.8.0-generic")][..], Inside::Machine),
            (&[("proc/version", "Linux version 5.15.0-microsoft-standard-WSL2")], Inside::Wsl),
            (&[(".dockerenv", "")], Inside::Container),
            (&[("run/.containerenv", "")], Inside::Container),
        ] {
            assert_eq!(inside(root(files).path()), seen, "{files:?}");
        }
    }
}
