//! What relay and clients say to each other.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::WireError;

/// How an update's values are laid out in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateKind {
    /// All P values in layout order.
    Dense,
    /// Only the values that the mask keeps, in layout order. The mask is drawn again from the seed.
    Masked {
        /// Seed of the ChaCha stream; fresh for each round and client, and no secret.
        seed: [u8; 32],
        /// Share of zeros R in 65536ths.
        zero_rate: u32,
    },
}

/// From a client to the relay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// First message on a socket.
    Hello {
        /// The name shown to the room.
        nickname: String,
        /// The ticket of an earlier [`RelayMessage::Welcome`], to come back as the same client.
        resume: Option<[u8; 16]>,
        /// The device in use, in words.
        device: String,
    },
    /// The device changed, or became known, after the hello.
    Device {
        /// The device in use, in words.
        device: String,
    },
    /// The protected update of one round; its values travel behind the header.
    Update {
        /// The round whose plan it answers.
        round: u32,
        /// The policy number of that plan.
        policy: u32,
        /// Mean loss over the client's samples at the plan's weights.
        loss: f32,
        /// Number of samples used.
        samples: u32,
        /// Dense or masked.
        kind: UpdateKind,
    },
    /// The client cannot take part in this round.
    Unable {
        /// The round.
        round: u32,
        /// The policy number of that round's plan.
        policy: u32,
        /// Why, in words for people.
        reason: String,
    },
    /// How close a reconstruction came to the client's own image, computed where that image is.
    Score {
        /// The round attacked.
        round: u32,
        /// The attack's name.
        attack: String,
        /// Peak signal-to-noise ratio in dB.
        psnr: f32,
        /// Structural similarity.
        ssim: f32,
    },
}

/// From the relay to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// Answer to a hello.
    Welcome {
        /// The client's number in this room.
        client: u32,
        /// Ticket with which it can come back after a dropped socket.
        resume: [u8; 16],
        /// The nickname as the room shows it; differs from the one asked for if that was taken.
        nickname: String,
    },
    /// What to do this round; the global weights travel behind the header.
    Plan {
        /// The round.
        round: u32,
        /// Number of the policy (defence, rule, model) the update must be made under.
        policy: u32,
        /// Model preset by name.
        model: String,
        /// Whether block 0 is the norm-free, residual-free one.
        april_block: bool,
        /// Classes of the head.
        classes: u16,
        /// The defence in its string form.
        defence: String,
        /// Samples per update.
        batch: u16,
    },
    /// The update of this round was taken.
    Accepted {
        /// The round.
        round: u32,
    },
    /// A round is over.
    Closed {
        /// The round.
        round: u32,
        /// Mean loss over the updates that came, absent if none did.
        loss: Option<f32>,
        /// Number of updates averaged.
        updates: u32,
    },
    /// What an attack made of this client's update; the picture's values `[side, side, 3]` in `[0, 1]` travel behind
    /// the header.
    Reconstruction {
        /// The round attacked.
        round: u32,
        /// The attack's name.
        attack: String,
        /// Side of the square picture in pixels.
        side: u16,
    },
    /// Something the client sent was refused; the connection stays open.
    Refused {
        /// Why, and what to do, in words for people.
        reason: String,
    },
    /// The connection is about to be closed by the relay.
    Goodbye {
        /// Why, in words for people.
        reason: String,
    },
}

/// Longest header of a message in bytes; strings are cut to fit by their senders.
const MAX_HEADER: usize = 4096;

/// `[header length: u32 LE][header: postcard][values: f32 LE ...]`
pub(crate) fn encode(header: &impl Serialize, values: &[f32]) -> Result<Vec<u8>, WireError> {
    let header = postcard::to_stdvec(header).map_err(|error| WireError::Header(error.to_string()))?;
    if header.len() > MAX_HEADER {
        return Err(WireError::LongHeader { bytes: header.len(), limit: MAX_HEADER });
    }
    let mut message = Vec::with_capacity(4 + header.len() + 4 * values.len());
    message.extend_from_slice(&(header.len() as u32).to_le_bytes());
    message.extend_from_slice(&header);
    message.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    Ok(message)
}

pub(crate) fn decode<M: DeserializeOwned>(message: &[u8]) -> Result<(M, Vec<f32>), WireError> {
    let truncated = || WireError::Truncated { bytes: message.len() };
    let (length, rest) = message.split_first_chunk::<4>().ok_or_else(truncated)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_HEADER {
        return Err(WireError::LongHeader { bytes: length, limit: MAX_HEADER });
    }
    let (header, values) = rest.split_at_checked(length).ok_or_else(truncated)?;
    let (header, surplus) = postcard::take_from_bytes(header).map_err(|error| WireError::Header(error.to_string()))?;
    let (values, odd) = values.as_chunks::<4>();
    if !surplus.is_empty() || !odd.is_empty() {
        return Err(WireError::Surplus { bytes: surplus.len() + odd.len() });
    }
    Ok((header, values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
}
