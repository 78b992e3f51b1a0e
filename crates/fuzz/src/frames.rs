//! Fuzzes the frames of one socket.

use arbitrary::{Arbitrary, Unstructured};
use serde::{Serialize, Serializer, ser::SerializeTuple};
use unmask_core::{AttackMethod, GroupRates, KeyCheck, MaskSeed, UpdateForm};
use unmask_wire::{Assembler, ClientMessage, frames};

/// Longest message in bytes, as for a small model.
const LIMIT: usize = 64 * 1024;

/// The next frames on the socket.
#[derive(Debug, Arbitrary)]
pub(crate) enum Piece<'a> {
    /// A frame of arbitrary bytes.
    Frame(&'a [u8]),
    /// A message with an arbitrary header, in valid frames.
    Message { header: &'a [u8], values: Vec<u8> },
}

impl Piece<'_> {
    pub(crate) fn frames(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Frame(frame) => vec![frame.to_vec()],
            Self::Message { header, values } => {
                let values: Vec<f32> = values.iter().map(|&value| f32::from(value) - 128.0).collect();
                // A message that is too long is already refused here.
                frames(&Header(header), &values).unwrap_or_default()
            }
        }
    }
}

/// Bytes that are written as a message's header without encoding.
struct Header<'a>(&'a [u8]);

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = serializer.serialize_tuple(self.0.len())?;
        for byte in self.0 {
            bytes.serialize_element(byte)?;
        }
        bytes.end()
    }
}

/// A received message.
type Message = (ClientMessage, Vec<f32>);

/// Every input is parsed in exactly one way or refused, and never takes more memory than the limit.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let mut assembler = Assembler::new(LIMIT);
    while !bytes.is_empty() {
        let Ok(piece) = Piece::arbitrary(&mut bytes) else { return };
        for frame in piece.frames() {
            match assembler.push::<ClientMessage>(&frame) {
                Ok(None) => {}
                Ok(Some(message)) => check(&message),
                // The socket is closed.
                Err(_) => return,
            }
        }
    }
}

fn check((message, values): &Message) {
    assert!(4 * values.capacity() <= LIMIT, "{} values held for {}", values.capacity(), values.len());
    let sent = frames(message, values).expect("a parsed message can be sent");
    let (again, same) = receive(&sent).expect("a sent message can be parsed");
    // Bit for bit, because NaN values are not equal to themselves.
    assert_eq!(frames(&again, &same).expect("it was sent before"), sent);
}

fn receive(sent: &[Vec<u8>]) -> Option<Message> {
    let mut assembler = Assembler::new(2 * LIMIT);
    let mut message = None;
    for frame in sent {
        assert!(message.is_none(), "a frame after the last one");
        message = assembler.push(frame).expect("a frame of our own");
    }
    message
}

/// One of each message.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let rates: GroupRates = "0.5".parse().expect("a rate");
    let update = |form| ClientMessage::Update { round: 1, policy: 1, loss: 2.0, samples: 1, form, draw: None };
    let name = || "Ada".to_owned();
    let check = KeyCheck([7; 16]);
    [
        ClientMessage::Hello {
            nickname: name(),
            resume: Some([1; 16]),
            device: name(),
            may_show: true,
            may_lend: true,
            is_robot: false,
            commitment: [4; 32],
            page: [5; 32],
        },
        ClientMessage::Device { device: name() },
        ClientMessage::Consent { may_show: false, may_lend: false },
        ClientMessage::Visibility { is_hidden: true },
        ClientMessage::Return,
        ClientMessage::Ping,
        ClientMessage::Sealed { policy: 1, check },
        update(UpdateForm::Dense),
        update(UpdateForm::Masked { seed: MaskSeed([3; 32]), rates }),
        update(UpdateForm::Encrypted { check }),
        ClientMessage::Unable { round: 1, policy: 1, reason: name(), is_locked: true },
        ClientMessage::Vote { poll: 1, answer: 3 },
        ClientMessage::KnowGaps { poll: 1 },
        ClientMessage::Original { side: 32 },
        ClientMessage::HideOriginal,
        ClientMessage::Forget,
        ClientMessage::Score { round: 1, attack: AttackMethod::April, psnr: 20.0, ssim: 0.5 },
    ]
    .iter()
    .flat_map(|message| frames(message, &[1.0, f32::NAN, 1e38]).expect("a short message"))
    .map(|frame| {
        // The layout that `Unstructured` expects of a piece: the variant in the first four bytes, then one slice, with
        // its length at the end.
        let mut seed = vec![0; 4];
        seed.extend_from_slice(&frame);
        seed.push(u8::try_from(frame.len()).expect("a short frame"));
        seed
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the seeds were read as something else, the fuzzer would start with nothing useful.
    #[test]
    fn seeds_are_messages() {
        for seed in seeds() {
            let piece = Piece::arbitrary(&mut Unstructured::new(&seed)).expect("a piece");
            assert!(receive(&piece.frames()).is_some(), "{piece:?}");
        }
    }
}
