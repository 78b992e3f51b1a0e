//! From the address a person types to the room's socket.

/// An address that leads to no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no address of a room; give the one the relay prints, such as http://192.168.1.5:8080")]
pub struct AddressError(String);

/// The WebSocket address of the room at `address`: `http` becomes `ws`, `https` becomes `wss`, a missing scheme is `http`,
/// and path, query and fragment are dropped.
///
/// # Errors
/// If there is no host in it, or another scheme.
pub fn socket_address(address: &str) -> Result<String, AddressError> {
    let error = || AddressError(address.to_owned());
    let (scheme, rest) = address.trim().split_once("://").unwrap_or(("http", address.trim()));
    let scheme = match scheme {
        "http" | "ws" => "ws",
        "https" | "wss" => "wss",
        _ => return Err(error()),
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(error());
    }
    Ok(format!("{scheme}://{host}/ws"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_a_person_may_paste() {
        for (given, socket) in [
            ("http://10.0.0.2:8080", "ws://10.0.0.2:8080/ws"),
            ("10.0.0.2:8080", "ws://10.0.0.2:8080/ws"),
            ("https://lab.local:8443/projector#token=abc", "wss://lab.local:8443/ws"),
            (" http://localhost:1/?join=1 ", "ws://localhost:1/ws"),
        ] {
            assert_eq!(socket_address(given).unwrap(), socket);
        }
        for given in ["", "ftp://x", "http:///x"] {
            assert!(socket_address(given).unwrap_err().to_string().contains("is no address"), "{given}");
        }
    }
}
