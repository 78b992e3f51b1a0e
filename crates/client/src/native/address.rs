//! Turns the address a person types into the room's socket.

/// An address that leads to no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the address of a room; give the one the relay prints, such as http://192.168.1.5:8080")]
pub struct AddressError(String);

/// The room's addresses, and the secret from the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomAddress {
    /// URL of the WebSocket.
    pub(crate) socket: String,
    /// URL that exchanges a PIN for a secret.
    pub(crate) session: String,
    /// From the fragment, as in `#room=SECRET`; the projector's and the teacher's secrets open the room as well.
    pub(crate) secret: Option<String>,
}

impl RoomAddress {
    /// Parses an address: `http` becomes `ws`, `https` becomes `wss`, a missing scheme is `http`; path and query are
    /// dropped.
    ///
    /// # Errors
    /// The address has no host, or another scheme.
    pub fn parse(address: &str) -> Result<Self, AddressError> {
        let error = || AddressError(address.to_owned());
        let (scheme, rest) = address.trim().split_once("://").unwrap_or(("http", address.trim()));
        let (socket, page) = match scheme {
            "http" | "ws" => ("ws", "http"),
            "https" | "wss" => ("wss", "https"),
            _ => return Err(error()),
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(error());
        }
        let fragment = rest.split_once('#').map_or("", |(_, fragment)| fragment);
        let secret = fragment.split('&').find_map(|pair| match pair.split_once('=') {
            Some(("room" | "view" | "token", secret)) if !secret.is_empty() => Some(secret.to_owned()),
            _ => None,
        });
        Ok(Self { socket: format!("{socket}://{host}/ws"), session: format!("{page}://{host}/api/session"), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_a_person_may_paste() {
        for (given, socket, session, secret) in [
            ("http://10.0.0.2:8080", "ws://10.0.0.2:8080/ws", "http://10.0.0.2:8080/api/session", None),
            ("10.0.0.2:8080/#room=abc", "ws://10.0.0.2:8080/ws", "http://10.0.0.2:8080/api/session", Some("abc")),
            (
                "https://lab.local:8443/projector#token=abc",
                "wss://lab.local:8443/ws",
                "https://lab.local:8443/api/session",
                Some("abc"),
            ),
            (" http://localhost:1/?join=1 ", "ws://localhost:1/ws", "http://localhost:1/api/session", None),
            ("localhost:1#passphrase=a&room=b", "ws://localhost:1/ws", "http://localhost:1/api/session", Some("b")),
            ("localhost:1/#room=", "ws://localhost:1/ws", "http://localhost:1/api/session", None),
        ] {
            let address = RoomAddress::parse(given).unwrap();
            assert_eq!((address.socket.as_str(), address.session.as_str()), (socket, session));
            assert_eq!(address.secret.as_deref(), secret, "{given}");
        }
        for given in ["", "ftp://x", "http:///x"] {
            assert!(RoomAddress::parse(given).unwrap_err().to_string().contains("is not the address"), "{given}");
        }
    }
}
