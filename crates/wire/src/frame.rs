//! Splits messages into frames, and reassembles them within a limit.

use serde::{Serialize, de::DeserializeOwned};

/// Version of the format; both sides must use the same one.
pub const VERSION: u8 = 12;
/// Longest frame in bytes with its header: short enough that pings get through on a slow phone.
pub const MAX_FRAME: usize = 256 * 1024;

const MAGIC: [u8; 2] = *b"um";
/// `[magic: 2][version: 1][last: 1][message length: u32 LE]`
const FRAME_HEADER: usize = 8;
/// Longest part of a message in one frame.
const MAX_CHUNK: usize = MAX_FRAME - FRAME_HEADER;
/// Longest header of a message in bytes: the shares for a secure sum of 50 clients fit, and senders shorten strings.
const MAX_HEADER: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("a frame of {bytes} bytes is not an unmask frame; is the other side unmask?")]
    Foreign { bytes: usize },
    #[error(
        "the other side speaks version {theirs} of the protocol, this side version {VERSION}; reload the page or update the client"
    )]
    Version { theirs: u8 },
    #[error("a message of {bytes} bytes is over the limit of {limit} bytes")]
    TooLong { bytes: usize, limit: usize },
    #[error("a message announced as {announced} bytes arrived with {received} bytes")]
    Length { announced: usize, received: usize },
    #[error("a message of {bytes} bytes ends before its header does")]
    Truncated { bytes: usize },
    #[error("a message header of {bytes} bytes is over the limit of {limit} bytes")]
    LongHeader { bytes: usize, limit: usize },
    #[error("unknown or malformed message header: {0}; reload the page or update the client")]
    Header(String),
    #[error("{bytes} bytes follow the end of the message")]
    Surplus { bytes: usize },
}

/// A message as frames, to send in order as binary WebSocket messages.
///
/// Frames are built on demand, so many sockets can share one copy of a long message. Format: `[header length: u32
/// LE][header: postcard, zeros up to a multiple of 4][values: f32 LE ...]`.
#[derive(Debug)]
pub struct Framer<V> {
    /// Header length and header.
    head: Vec<u8>,
    values: V,
    tail: Vec<f32>,
    total: u32,
    /// Bytes of the message already in frames.
    done: usize,
}

impl<V: AsRef<[f32]>> Framer<V> {
    /// The frames of `header` followed by `values`.
    ///
    /// # Errors
    /// The header is longer than 16 KiB (it holds an overlong string), or the message is longer than 4 GiB.
    pub fn new(header: &impl Serialize, values: V) -> Result<Self, WireError> {
        Self::with_tail(header, values, Vec::new())
    }

    /// The frames of `header` followed by `values` and `tail`, as if both were one vector; errors as in
    /// [`Framer::new`].
    pub fn with_tail(header: &impl Serialize, values: V, tail: Vec<f32>) -> Result<Self, WireError> {
        let header = postcard::to_stdvec(header).map_err(|error| WireError::Header(error.to_string()))?;
        if header.len() > MAX_HEADER {
            return Err(WireError::LongHeader { bytes: header.len(), limit: MAX_HEADER });
        }
        let mut head = Vec::with_capacity(8 + header.len());
        head.extend_from_slice(&(header.len() as u32).to_le_bytes());
        head.extend_from_slice(&header);
        head.resize(head.len().next_multiple_of(4), 0);
        let bytes = head.len() + 4 * (values.as_ref().len() + tail.len());
        let total = u32::try_from(bytes).map_err(|_| WireError::TooLong { bytes, limit: u32::MAX as usize })?;
        Ok(Self { head, values, tail, total, done: 0 })
    }

    pub fn bytes(&self) -> usize {
        let total = self.total as usize;
        total + FRAME_HEADER * total.div_ceil(MAX_CHUNK)
    }
}

impl<V: AsRef<[f32]>> Iterator for Framer<V> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let total = self.total as usize;
        let len = (total - self.done).min(MAX_CHUNK);
        if len == 0 {
            return None;
        }
        let mut frame = Vec::with_capacity(FRAME_HEADER + len);
        frame.extend_from_slice(&MAGIC);
        frame.push(VERSION);
        frame.push(u8::from(self.done + len == total));
        frame.extend_from_slice(&self.total.to_le_bytes());
        // Head and chunks are multiples of 4 bytes long, so no value is split.
        let head = self.head.get(self.done..).unwrap_or_default();
        let head = &head[..head.len().min(len)];
        frame.extend_from_slice(head);
        let first = (self.done + head.len() - self.head.len()) / 4;
        let start = frame.len();
        frame.resize(FRAME_HEADER + len, 0);
        let (places, _) = frame[start..].as_chunks_mut::<4>();
        let all = self.values.as_ref();
        let values = all.get(first..).unwrap_or_default();
        let tail = &self.tail[first.saturating_sub(all.len())..];
        // The compiler vectorises these two plain loops, but not one loop over both parts.
        let (places, behind) = places.split_at_mut(values.len().min(places.len()));
        for (places, values) in [(places, values), (behind, tail)] {
            for (place, value) in places.iter_mut().zip(values) {
                *place = value.to_le_bytes();
            }
        }
        self.done += len;
        Some(frame)
    }
}

/// All frames of a message; errors as in [`Framer::new`].
pub fn frames(header: &impl Serialize, values: &[f32]) -> Result<Vec<Vec<u8>>, WireError> {
    Framer::new(header, values).map(Iterator::collect)
}

/// Reassembles the messages of one socket.
///
/// Values are decoded as they arrive, so a message is held only once. Memory never exceeds the limit, and grows only
/// with bytes actually received.
#[derive(Debug)]
pub struct Assembler {
    limit: usize,
    announced: usize,
    /// Received bytes of the current message.
    received: usize,
    /// Header length and header, as far as received.
    head: Vec<u8>,
    values: Vec<f32>,
}

impl Assembler {
    /// An assembler that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, announced: 0, received: 0, head: Vec::new(), values: Vec::new() }
    }

    /// Changes the limit for later messages.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Offers memory for the values of the next message, such as that of a finished one: for a long message, allocating
    /// fresh memory takes longer than decoding. Ignored while a message is in progress.
    pub fn reuse(&mut self, spare: Vec<f32>) {
        if self.received == 0 && spare.capacity() > self.values.capacity() {
            self.values = spare;
            self.values.clear();
        }
    }

    /// Announced length in bytes of the current message; `None` between messages.
    pub fn announced(&self) -> Option<usize> {
        (self.received > 0).then_some(self.announced)
    }

    /// The limit for messages with at most `values` `f32` values.
    pub fn limit_for(values: usize) -> usize {
        MAX_HEADER + 4096 + 4 * values
    }

    /// Takes the next frame; returns the message if this was its last frame.
    ///
    /// # Errors
    /// See [`WireError`]. An error discards the current message. Its later frames are refused too, so the receiver
    /// should close the socket.
    pub fn push<M: DeserializeOwned>(&mut self, frame: &[u8]) -> Result<Option<(M, Vec<f32>)>, WireError> {
        let outcome = self.assemble(frame);
        if matches!(outcome, Ok(false)) {
            return Ok(None);
        }
        let (head, values) = (std::mem::take(&mut self.head), std::mem::take(&mut self.values));
        let bytes = std::mem::take(&mut self.received);
        outcome?;
        let header = head.get(4..).filter(|_| head.len() == head_len(&head)).ok_or(WireError::Truncated { bytes })?;
        let (header, padding) =
            postcard::take_from_bytes(header).map_err(|error| WireError::Header(error.to_string()))?;
        if padding.len() >= 4 || padding.iter().any(|byte| *byte != 0) {
            return Err(WireError::Surplus { bytes: padding.len() });
        }
        Ok(Some((header, values)))
    }

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
        if self.received == 0 {
            self.announced = announced;
        }
        let received = self.received + chunk.len();
        let complete = last != 0;
        if announced != self.announced
            || received > announced
            || chunk.is_empty()
            || complete != (received == announced)
        {
            return Err(WireError::Length { announced: self.announced, received });
        }
        if !chunk.len().is_multiple_of(4) {
            return Err(WireError::Surplus { bytes: chunk.len() % 4 });
        }
        self.received = received;
        self.take(chunk)?;
        Ok(complete)
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), WireError> {
        let mut rest = chunk;
        while !rest.is_empty() && self.head.len() < head_len(&self.head) {
            let wanted = (head_len(&self.head) - self.head.len()).min(rest.len());
            let (part, behind) = rest.split_at(wanted);
            self.head.extend_from_slice(part);
            rest = behind;
            let header = head_len(&self.head) - 4;
            if header > MAX_HEADER {
                return Err(WireError::LongHeader { bytes: header, limit: MAX_HEADER });
            }
        }
        let (values, _) = rest.as_chunks::<4>();
        if self.values.capacity() - self.values.len() < values.len() {
            let coming = (self.announced - self.received) / 4 + values.len();
            self.values.reserve_exact(coming.min(values.len().max(self.values.len())));
        }
        self.values.extend(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        Ok(())
    }
}

/// Length of the header length and the padded header; 4 until the header length is known.
fn head_len(head: &[u8]) -> usize {
    head.first_chunk().map_or(4, |length| 4 + (u32::from_le_bytes(*length) as usize).next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use unmask_core::{
        Architecture, AttackMethod, ClientId, GroupRates, KeyCheck, MaskSeed, OptimiserKind, Rule, TrainingPictures,
        UpdateForm,
    };
    use unmask_lesson::{MAX_SUSPECTS, Poll, Question, Scene, Suspect};

    use crate::{
        ClientMessage, EncryptionPlan, LessonState, PlanHeader, PollState, RelayMessage, SeedDraw, ServerPlan,
    };

    /// A tail belongs to the values, no matter where it begins.
    #[test]
    fn a_tail_travels_behind_the_values() {
        let values: Vec<f32> = (0..MAX_CHUNK / 4 + 3).map(|i| i as f32).collect();
        let whole = frames(&update(1), &values).unwrap();
        for cut in [0, 1, values.len() - 3, values.len()] {
            let tailed = Framer::with_tail(&update(1), &values[..cut], values[cut..].to_vec()).unwrap();
            assert_eq!(tailed.collect::<Vec<_>>(), whole, "cut at {cut}");
        }
    }

    fn update(zero_rate: u16) -> ClientMessage {
        ClientMessage::Update {
            round: 3,
            policy: 1,
            loss: 2.5,
            samples: 1,
            form: UpdateForm::Masked { seed: MaskSeed([9; 32]), rates: GroupRates::from_bits([zero_rate; 7]) },
            draw: Some(SeedDraw { nonce: [1; 32], next: [2; 32] }),
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
    fn memory_of_an_earlier_message_is_used_again() {
        let values = vec![1.5; 1000];
        let frames = frames(&update(7), &values).unwrap();
        let mut assembler = Assembler::new(10_000);
        let (_, first): (ClientMessage, Vec<f32>) = assembler.push(&frames[0]).unwrap().unwrap();
        let place = first.as_ptr();
        assembler.reuse(first);
        let (_, second): (ClientMessage, Vec<f32>) = assembler.push(&frames[0]).unwrap().unwrap();
        assert_eq!((second.as_ptr(), second), (place, values));
    }

    #[test]
    fn length_is_known_before_a_frame_is_made() {
        for values in [0, 1, 65_000, 65_534, 200_000] {
            let framer = Framer::new(&update(7), vec![0.5; values]).unwrap();
            let bytes = framer.bytes();
            assert_eq!(bytes, framer.map(|frame| frame.len()).sum::<usize>(), "{values} values");
        }
    }

    /// An unknown name must be refused, not read as another one.
    #[test]
    fn unknown_words_are_refused() {
        let header = ClientMessage::Score { round: 1, attack: AttackMethod::Jigsaw, psnr: 20.0, ssim: 0.5 };
        let mut frame = frames(&header, &[]).unwrap().remove(0);
        let place = frame.windows(6).position(|bytes| bytes == b"jigsaw").unwrap();
        assert_eq!(assemble::<ClientMessage>(&[frame.clone()], 1000).unwrap().unwrap().0, header);
        frame[place] = b'z';
        assert!(matches!(assemble::<ClientMessage>(&[frame], 1000), Err(WireError::Header(_))));
    }

    /// A header may arrive in pieces, and memory must stay below the announced length.
    #[test]
    fn message_in_small_pieces_is_put_together() {
        let values: Vec<f32> = (0..5000).map(|i| i as f32).collect();
        let whole = frames(&update(3), &values).unwrap().remove(0);
        let (start, message) = whole.split_at(FRAME_HEADER);
        let mut assembler = Assembler::new(100_000);
        let pieces: Vec<&[u8]> = message.chunks(12).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let mut frame = start.to_vec();
            frame[3] = u8::from(i + 1 == pieces.len());
            frame.extend_from_slice(piece);
            let came: Option<(ClientMessage, _)> = assembler.push(&frame).unwrap();
            assert!(4 * assembler.values.capacity() <= 2 * assembler.received.max(12).min(message.len()));
            if let Some(came) = came {
                assert_eq!((i + 1, came), (pieces.len(), (update(3), values.clone())));
            }
        }
    }

    #[test]
    fn refusals_name_the_reason() {
        let frames = frames(&update(0), &[1.0; 100]).unwrap();
        let refuse = |frame: &[u8]| Assembler::new(1000).push::<ClientMessage>(frame).unwrap_err();
        assert_eq!(assemble::<ClientMessage>(&frames, 100).unwrap_err(), WireError::TooLong { bytes: 520, limit: 100 });
        assert_eq!(refuse(b"GET / HTTP/1.1"), WireError::Foreign { bytes: 14 });
        let mut other = frames[0].clone();
        other[2] = VERSION + 1;
        assert_eq!(refuse(&other), WireError::Version { theirs: VERSION + 1 });
        let cut = &frames[0][..frames[0].len() - 1];
        assert_eq!(refuse(cut), WireError::Length { announced: 520, received: 519 });
        let mut unknown = frames[0].clone();
        unknown[FRAME_HEADER + 4] = 99;
        assert!(matches!(refuse(&unknown), WireError::Header(_)));
    }

    #[test]
    fn relay_messages_survive() {
        let header = RelayMessage::Plan(PlanHeader {
            round: 1,
            policy: 2,
            model: Architecture::default().with_april_block(true).into(),
            defence: "random-binary:0.5".parse().unwrap(),
            rule: Rule::FedAvg { epochs: 2, rate: 0.1 },
            batch: 1,
            pictures: TrainingPictures::Shared { shard: 7 },
            encryption: Some(EncryptionPlan { salt: [1; 16], check: KeyCheck([2; 16]) }),
            sum: None,
            nonce: [3; 16],
            least: 3,
            server: ServerPlan { optimiser: OptimiserKind::Sgd { rate: 0.5 }, start: u64::MAX },
        });
        let frames = frames(&header, &[f32::MIN, -0.0, 1e-40]).unwrap();
        assert_eq!(assemble(&frames, 1000).unwrap().unwrap(), (header, vec![f32::MIN, -0.0, 1e-40]));
    }

    /// A question with the most suspects, whose names are longer than the relay allows, must fit into a header.
    #[test]
    fn the_longest_poll_survives() {
        let suspect = |id| Suspect { client: ClientId(u32::MAX - id), nickname: "\u{1f512}".repeat(100) };
        let suspects = (0..MAX_SUSPECTS as u32).map(suspect).collect();
        let poll = Poll { question: Question::WhoseMasked, suspects, correct: Some(3) };
        poll.check().unwrap();
        let counts = vec![u32::MAX; MAX_SUSPECTS];
        let poll = PollState { number: u32::MAX, poll, is_open: false, counts };
        let header = RelayMessage::Lesson(LessonState {
            scene: Scene::Debrief,
            beat: u8::MAX,
            poll: Some(poll),
            is_careful: true,
            is_doctored: false,
        });
        let frames = frames(&header, &[]).unwrap();
        assert_eq!(assemble(&frames, Assembler::limit_for(0)).unwrap().unwrap(), (header, Vec::new()));
    }

    #[test]
    fn what_a_student_says_in_the_lesson_survives() {
        for message in [
            ClientMessage::Vote { poll: u32::MAX, answer: u16::MAX },
            ClientMessage::Original { side: 32 },
            ClientMessage::HideOriginal,
            ClientMessage::Forget,
        ] {
            let frames = frames(&message, &[]).unwrap();
            assert_eq!(assemble(&frames, Assembler::limit_for(0)).unwrap().unwrap(), (message, Vec::new()));
        }
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
