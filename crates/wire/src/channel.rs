//! What pages and a room in the same browser tell each other over a channel, where there is no relay. All come from one
//! build, so the format needs no version.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A request, as a page makes it over HTTP: a `GET`, or with a body a `POST`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Such as `/api/control`.
    pub path: String,
    pub body: Option<Vec<u8>>,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { path: path.to_owned(), body: None }
    }

    pub fn post(path: &str, body: Vec<u8>) -> Self {
        Self { path: path.to_owned(), body: Some(body) }
    }
}

/// The answer to a [`Request`], with the status that it has over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Tells a request's answer from all others: the page's random number, and how many requests it made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asker {
    pub page: u64,
    pub number: u32,
}

/// A message to the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRoom {
    Ask(Asker, Request),
    /// A page wants to hear of every state from now on, beginning with the present one.
    Watch,
    /// A client will send frames on the channel of this random number, and expects its own there.
    Connect {
        socket: u64,
    },
}

/// A message from the room. Every page gets all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRoom {
    /// The room has opened. What it was told before is lost.
    Opened,
    /// There is no room, for this reason, as a sentence.
    Failed(String),
    Answer(Asker, Answer),
    /// The whole room as JSON, like an event of `GET /api/events`.
    State(String),
}

/// What the address of a socket begins with, if the name of the room's channel follows.
pub const SCHEME: &str = "channel:";
/// A message on a socket's channel that is no frame: the room listens.
pub const OPEN: &[u8] = &[1];
/// Another: the other side has closed the socket.
pub const CLOSED: &[u8] = &[];

/// The name of the channel on which the room hears its pages, given that of the channel on which they hear the room.
pub fn asking_channel(room: &str) -> String {
    format!("{room}/asks")
}

/// The name of a socket's channel, given that of the room's.
pub fn socket_channel(room: &str, socket: u64) -> String {
    format!("{room}/{socket:016x}")
}

/// Encodes a message of a channel.
///
/// # Errors
/// If it is longer than memory.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, ChannelError> {
    Ok(postcard::to_stdvec(message)?)
}

/// Decodes a message of a channel.
///
/// # Errors
/// If it comes from another build.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ChannelError> {
    Ok(postcard::from_bytes(bytes)?)
}

/// A message of a channel that cannot be read or written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a message between page and room cannot be read ({0}); reload the page, so that both come from one build")]
pub struct ChannelError(#[from] postcard::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let asker = Asker { page: u64::MAX, number: 7 };
        for message in [
            ToRoom::Ask(asker, Request::post("/api/control", b"{}".to_vec())),
            ToRoom::Ask(asker, Request::get("/api/room")),
            ToRoom::Watch,
            ToRoom::Connect { socket: 3 },
        ] {
            assert_eq!(decode::<ToRoom>(&encode(&message).unwrap()).unwrap(), message);
        }
        let answer = FromRoom::Answer(asker, Answer { status: 204, body: Vec::new() });
        assert_eq!(decode::<FromRoom>(&encode(&answer).unwrap()).unwrap(), answer);
        let error = decode::<FromRoom>(&[250]).unwrap_err().to_string();
        assert!(error.contains("reload the page"), "{error}");
    }

    #[test]
    fn sockets_of_two_rooms_have_different_channels() {
        let names = [("a", 1), ("b", 1), ("a", 2)].map(|(room, socket)| socket_channel(room, socket));
        assert_eq!(names[0], "a/0000000000000001");
        assert!(names[0] != names[1] && names[0] != names[2]);
        assert!(asking_channel("a") != asking_channel("b") && !names.contains(&asking_channel("a")));
    }
}
