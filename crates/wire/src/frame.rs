//! Messages cut into frames, and put together again under a limit.

use serde::{Serialize, de::DeserializeOwned};

use crate::message::{decode, encode};

/// Version of the format; both sides must speak the same.
pub const VERSION: u8 = 1;
/// Longest frame in bytes, header included: small enough to interleave with pings on a slow phone.
pub const MAX_FRAME: usize = 256 * 1024;

const MAGIC: [u8; 2] = *b"um";
/// `[magic: 2][version: 1][last: 1][message length: u32 LE]`
const FRAME_HEADER: usize = 8;

/// Why bytes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a frame of this protocol.
    #[error("a frame of {bytes} bytes does not start as an unmask frame; is this an unmask client?")]
    Foreign {
        /// Its length.
        bytes: usize,
    },
    /// The other side is of another release.
    #[error(
        "the other side speaks version {theirs} of the protocol, this side version {VERSION}; reload the page or update the client"
    )]
    Version {
        /// What the frame says.
        theirs: u8,
    },
    /// Longer than this receiver takes.
    #[error("a message of {bytes} bytes is over the limit of {limit} bytes")]
    TooLong {
        /// The length announced.
        bytes: usize,
        /// The receiver's limit.
        limit: usize,
    },
    /// Frames that do not add up to the length announced.
    #[error("a message announced as {announced} bytes came as {received} bytes")]
    Length {
        /// Length in the first frame's header.
        announced: usize,
        /// Bytes that came.
        received: usize,
    },
    /// A message that ends inside its header.
    #[error("a message of {bytes} bytes ends before its header does")]
    Truncated {
        /// Its length.
        bytes: usize,
    },
    /// A header over its limit.
    #[error("a message header of {bytes} bytes is over the limit of {limit} bytes")]
    LongHeader {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A header that does not decode: malformed, or of a kind this side does not know.
    #[error("unknown or malformed message header: {0}")]
    Header(String),
    /// Bytes left over.
    #[error("{bytes} bytes are left over behind the message")]
    Surplus {
        /// How many.
        bytes: usize,
    },
}

/// Encodes a message and cuts it into frames, to be sent in order as binary WebSocket messages.
///
/// # Errors
/// If the header is longer than 4096 bytes (an overlong string in it).
pub fn frames(header: &impl Serialize, values: &[f32]) -> Result<Vec<Vec<u8>>, WireError> {
    let message = encode(header, values)?;
    let total = u32::try_from(message.len())
        .map_err(|_| WireError::TooLong { bytes: message.len(), limit: u32::MAX as usize })?;
    let mut chunks = message.chunks(MAX_FRAME - FRAME_HEADER).peekable();
    let mut frames = Vec::with_capacity(chunks.len());
    while let Some(chunk) = chunks.next() {
        let mut frame = Vec::with_capacity(FRAME_HEADER + chunk.len());
        frame.extend_from_slice(&MAGIC);
        frame.push(VERSION);
        frame.push(u8::from(chunks.peek().is_none()));
        frame.extend_from_slice(&total.to_le_bytes());
        frame.extend_from_slice(chunk);
        frames.push(frame);
    }
    Ok(frames)
}

/// Puts the frames of one socket together again.
///
/// Memory never exceeds the limit, and grows only with bytes that really came.
#[derive(Debug)]
pub struct Assembler {
    limit: usize,
    announced: usize,
    message: Vec<u8>,
}

impl Assembler {
    /// An assembler that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, announced: 0, message: Vec::new() }
    }

    /// Changes the limit for messages to come.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The limit that fits a message with at most `values` `f32` values.
    pub fn limit_for(values: usize) -> usize {
        8 * 1024 + 4 * values
    }

    /// Takes the next frame; returns the message when this was its last one.
    ///
    /// # Errors
    /// See [`WireError`]. After an error the message in progress is forgotten, but the frames still to come of it will
    /// be refused too, so a receiver does best to close the socket.
    pub fn push<M: DeserializeOwned>(&mut self, frame: &[u8]) -> Result<Option<(M, Vec<f32>)>, WireError> {
        let outcome = self.assemble(frame);
        if !matches!(outcome, Ok(false)) {
            let message = std::mem::take(&mut self.message);
            return outcome.and_then(|_| decode(&message).map(Some));
        }
        Ok(None)
    }

    /// Whether the message is complete.
    fn assemble(&mut self, frame: &[u8]) -> Result<bool, WireError> {
        let foreign = || WireError::Foreign { bytes: frame.len() };
        let (&[m0, m1, version, last, ref length @ ..], chunk) =
            frame.split_first_chunk::<FRAME_HEADER>().ok_or_else(foreign)?;
        if [m0, m1] != MAGIC {
            return Err(foreign());
        }
        if version != VERSION {
            return Err(WireError::Version { theirs: version });
        }
        let announced = u32::from_le_bytes(*length) as usize;
        for (bytes, limit) in [(announced, self.limit), (frame.len(), MAX_FRAME)] {
            if bytes > limit {
                return Err(WireError::TooLong { bytes, limit });
            }
        }
        if self.message.is_empty() {
            self.announced = announced;
        }
        let received = self.message.len() + chunk.len();
        let complete = last != 0;
        if announced != self.announced
            || received > announced
            || chunk.is_empty()
            || complete != (received == announced)
        {
            return Err(WireError::Length { announced: self.announced, received });
        }
        self.message.extend_from_slice(chunk);
        Ok(complete)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ClientMessage, RelayMessage, UpdateKind};

    fn update(zero_rate: u32) -> ClientMessage {
        ClientMessage::Update {
            round: 3,
            policy: 1,
            loss: 2.5,
            samples: 1,
            kind: UpdateKind::Masked { seed: [9; 32], zero_rate },
        }
    }

    fn assemble<M: DeserializeOwned>(frames: &[Vec<u8>], limit: usize) -> Result<Option<(M, Vec<f32>)>, WireError> {
        let mut assembler = Assembler::new(limit);
        let (last, first) = frames.split_last().unwrap();
        for frame in first {
            assert!(assembler.push::<M>(frame)?.is_none());
        }
        assembler.push(last)
    }

    #[test]
    fn long_message_takes_several_frames() {
        let values: Vec<f32> = (0..200_000).map(|i| i as f32).collect();
        let frames = frames(&update(0), &values).unwrap();
        assert_eq!(frames.len(), 4);
        let limit = Assembler::limit_for(values.len());
        assert_eq!(assemble(&frames, limit).unwrap().unwrap(), (update(0), values));
    }

    #[test]
    fn frame_overhead_is_small() {
        let bytes: usize = frames(&update(7), &vec![0.5; 230_000]).unwrap().iter().map(Vec::len).sum();
        assert!(bytes < 4 * 230_000 + 256, "{bytes}");
    }

    #[test]
    fn refusals_name_the_reason() {
        let frames = frames(&update(0), &[1.0; 100]).unwrap();
        let refuse = |frame: &[u8]| Assembler::new(1000).push::<ClientMessage>(frame).unwrap_err();
        assert_eq!(assemble::<ClientMessage>(&frames, 100).unwrap_err(), WireError::TooLong { bytes: 446, limit: 100 });
        assert_eq!(refuse(b"GET / HTTP/1.1"), WireError::Foreign { bytes: 14 });
        let mut other = frames[0].clone();
        other[2] = 9;
        assert_eq!(refuse(&other), WireError::Version { theirs: 9 });
        let cut = &frames[0][..frames[0].len() - 1];
        assert_eq!(refuse(cut), WireError::Length { announced: 446, received: 445 });
        let mut unknown = frames[0].clone();
        unknown[FRAME_HEADER + 4] = 99;
        assert!(matches!(refuse(&unknown), WireError::Header(_)));
    }

    #[test]
    fn relay_messages_survive() {
        let header = RelayMessage::Plan {
            round: 1,
            policy: 2,
            model: "vit_nano_patch4_32".into(),
            april_block: true,
            classes: 10,
            defence: "random-binary:0.5".into(),
            batch: 1,
        };
        let frames = frames(&header, &[f32::MIN, -0.0, 1e-40]).unwrap();
        assert_eq!(assemble(&frames, 1000).unwrap().unwrap(), (header, vec![f32::MIN, -0.0, 1e-40]));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
            let mut frame = frame;
            if magic && frame.len() >= 4 {
                frame[..4].copy_from_slice(&[b'u', b'm', VERSION, 1]);
            }
            let _ = Assembler::new(10_000).push::<ClientMessage>(&frame);
        }

        #[test]
        fn altered_frames_never_panic_and_never_grow(position in 0usize..460, byte in any::<u8>(), cut in 0usize..460) {
            let mut frame = frames(&update(0), &[1.0; 100]).unwrap().remove(0);
            let position = position.min(frame.len() - 1);
            frame[position] = byte;
            frame.truncate(cut.max(1));
            if let Ok(Some((_, values))) = Assembler::new(1000).push::<ClientMessage>(&frame) {
                prop_assert_eq!(values.len(), 100);
            }
        }

        #[test]
        fn values_are_bit_exact(values in proptest::collection::vec(any::<u32>(), 0..300)) {
            let values: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
            let frames = frames(&update(1), &values).unwrap();
            let (_, back): (ClientMessage, _) = assemble(&frames, 100_000).unwrap().unwrap();
            prop_assert!(values.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
