//! A network of this process alone, with addresses that the relay takes for those of other machines. It takes all
//! loopback addresses for its own.

use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::Path,
    process::{Command, Stdio},
};

/// The kernel answers at all addresses of this network, though no interface has one.
const SET_UP: &str = "ip link set lo up && ip route add local 10.213.0.0/24 dev lo";

/// An address of another machine; it can be used only in a network [of its own](in_own_network).
pub(crate) fn foreign(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 213, 0, number).into()
}

/// Whether this process may use `foreign` addresses.
pub fn has_foreign_addresses() -> bool {
    UdpSocket::bind((foreign(1), 0)).is_ok()
}

/// A call of `program` in a network of its own. `None` unless the system allows it: this needs Linux, `unshare` and `ip`.
pub fn in_own_network(program: &Path) -> Option<Command> {
    let call = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", &format!("{SET_UP}{then}")]);
        command
    };
    let tried = call("").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = call(" && exec \"$0\" \"$@\"");
    command.arg(program);
    Some(command)
}
