//! A client's share of the room's data set.

use serde::{Deserialize, Serialize};
use unmask_core::Partition;

use crate::bytes::{from_words, to_words};

/// Longest body of a shard in bytes: a phone easily holds it beside the model.
pub const MAX_SHARD: usize = 16 * 1024 * 1024;
/// Most classes in a shard, so that their names fit into a message's header.
pub const MAX_CLASSES: usize = 100;
/// Longest class name in bytes.
pub const MAX_CLASS_NAME: usize = 32;

/// Describes a shard. Its labels and pixels follow the header, see [`ShardHeader::words`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardHeader {
    /// Number of the division; changes whenever the data set is divided again.
    pub number: u32,
    /// Name of the data set, for people.
    pub data: String,
    pub partition: Partition,
    /// Index of this shard, from 0.
    pub index: u16,
    /// Number of shards.
    pub shards: u16,
    /// Class names by label.
    pub classes: Vec<String>,
    /// Side of each picture in pixels.
    pub side: u16,
    pub pictures: u32,
}

/// A shard that cannot be sent or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    #[error("a shard of {pictures} pictures of {side} x {side} pixels holds nothing to train on")]
    Empty { pictures: u32, side: u16 },
    #[error(
        "a shard of {pictures} pictures of {side} x {side} pixels takes {bytes} bytes, over the limit of {MAX_SHARD}; \
         give each client fewer pictures"
    )]
    TooLong { pictures: u32, side: u16, bytes: usize },
    #[error("a shard of {pictures} pictures of {side} x {side} pixels came with {found} bytes instead of {expected}")]
    Length { pictures: u32, side: u16, found: usize, expected: usize },
    #[error("a data set of {classes} classes cannot be shared out; 1 to {MAX_CLASSES} classes can")]
    Classes { classes: usize },
    #[error("picture {index} of the shard has label {label}, but there are {classes} classes")]
    Label { index: usize, label: u8, classes: usize },
}

impl ShardHeader {
    /// Packs labels `[pictures]`, then pixels `[pictures, side, side, 3]`, into the body of a message: four bytes to a
    /// word in order, padded with zeros.
    ///
    /// # Errors
    /// As in [`ShardHeader::read`].
    pub fn words(&self, labels: &[u8], pixels: &[u8]) -> Result<Vec<f32>, ShardError> {
        let expected = self.check()?;
        let found = labels.len() + pixels.len();
        if labels.len() != self.pictures as usize || found != expected {
            return Err(self.other_length(found, expected));
        }
        self.check_labels(labels)?;
        Ok(to_words(labels.iter().chain(pixels).copied()).collect())
    }

    /// Reads labels `[pictures]` and pixels `[pictures, side, side, 3]` from the body of a message.
    ///
    /// # Errors
    /// [`ShardError`]: the shard is empty, too long or not as long as announced, or a label has no class.
    pub fn read(&self, words: &[f32]) -> Result<(Vec<u8>, Vec<u8>), ShardError> {
        let expected = self.check()?;
        if words.len() != expected.div_ceil(4) {
            return Err(self.other_length(4 * words.len(), expected));
        }
        let mut bytes = from_words(words);
        let labels: Vec<u8> = bytes.by_ref().take(self.pictures as usize).collect();
        self.check_labels(&labels)?;
        let pixels = bytes.take(expected - labels.len()).collect();
        Ok((labels, pixels))
    }

    /// Checks the header; returns the length of labels and pixels in bytes.
    fn check(&self) -> Result<usize, ShardError> {
        let Self { pictures, side, .. } = *self;
        if !(1..=MAX_CLASSES).contains(&self.classes.len()) {
            return Err(ShardError::Classes { classes: self.classes.len() });
        }
        let bytes = (1 + 3 * usize::from(side) * usize::from(side)).saturating_mul(pictures as usize);
        match bytes {
            _ if pictures == 0 || side == 0 => Err(ShardError::Empty { pictures, side }),
            bytes if bytes > MAX_SHARD => Err(ShardError::TooLong { pictures, side, bytes }),
            bytes => Ok(bytes),
        }
    }

    fn check_labels(&self, labels: &[u8]) -> Result<(), ShardError> {
        let classes = self.classes.len();
        match labels.iter().enumerate().find(|(_, label)| usize::from(**label) >= classes) {
            Some((index, &label)) => Err(ShardError::Label { index, label, classes }),
            None => Ok(()),
        }
    }

    fn other_length(&self, found: usize, expected: usize) -> ShardError {
        ShardError::Length { pictures: self.pictures, side: self.side, found, expected }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Assembler, RelayMessage, WireError, frames};

    fn header(pictures: u32, side: u16, classes: usize) -> ShardHeader {
        ShardHeader {
            number: 3,
            data: "CIFAR-10".into(),
            partition: Partition::Iid,
            index: 1,
            shards: 10,
            classes: (0..classes).map(|class| format!("class {class}")).collect(),
            side,
            pictures,
        }
    }

    #[test]
    fn longest_names_fit_a_header() {
        let mut longest = header(1, 1, MAX_CLASSES);
        longest.classes.iter_mut().for_each(|class| *class = "x".repeat(MAX_CLASS_NAME));
        let words = longest.words(&[99], &[1, 2, 3]).unwrap();
        frames(&RelayMessage::Shard(longest), &words).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (header, labels, pixels, part) in [
            (header(0, 2, 2), 0, 0, "0 pictures of 2 x 2 pixels holds nothing"),
            (header(2, 0, 2), 2, 0, "2 pictures of 0 x 0 pixels holds nothing"),
            (header(6000, 32, 2), 0, 0, "over the limit of 16777216; give each client fewer"),
            (header(u32::MAX, u16::MAX, 2), 0, 0, "over the limit"),
            (header(2, 2, 0), 2, 24, "0 classes"),
            (header(2, 2, 101), 2, 24, "101 classes"),
            (header(2, 2, 2), 2, 23, "came with 25 bytes instead of 26"),
            (header(2, 2, 2), 1, 25, "came with 26 bytes instead of 26"),
        ] {
            let error = header.words(&vec![0; labels], &vec![0; pixels]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = header(2, 1, 2).words(&[1, 2], &[0; 6]).unwrap_err();
        assert_eq!(error.to_string(), "picture 1 of the shard has label 2, but there are 2 classes");
        let words = header(2, 1, 3).words(&[1, 2], &[0; 6]).unwrap();
        assert_eq!(header(2, 1, 2).read(&words).unwrap_err(), ShardError::Label { index: 1, label: 2, classes: 2 });
        let error = header(2, 2, 3).read(&words).unwrap_err();
        assert_eq!(error.to_string(), "a shard of 2 pictures of 2 x 2 pixels came with 8 bytes instead of 26");
    }

    proptest! {
        /// Any four bytes must survive as a word, including NaN patterns.
        #[test]
        fn bytes_come_as_they_went(
            labels in proptest::collection::vec(0u8..10, 1..40),
            side in 1u16..9,
            texture in any::<u8>(),
        ) {
            let header = header(labels.len() as u32, side, 10);
            let length = 3 * labels.len() * usize::from(side) * usize::from(side);
            let pixels: Vec<u8> = (0..length).map(|i| (i * i) as u8 ^ texture).collect();
            let words = header.words(&labels, &pixels).unwrap();
            let mut assembler = Assembler::new(Assembler::limit_for(words.len()));
            let mut came = None;
            for frame in frames(&RelayMessage::Shard(header.clone()), &words).unwrap() {
                came = assembler.push(&frame).unwrap();
            }
            let Some((RelayMessage::Shard(back), words)) = came else { panic!("no shard") };
            prop_assert_eq!(&back, &header);
            prop_assert_eq!(back.read(&words).unwrap(), (labels, pixels));
        }

        /// A truncated or altered shard is refused, or it reads as its header says and holds no more data than arrived.
        #[test]
        fn altered_shards_never_panic(position in 0usize..200, byte in any::<u8>(), cut in 1usize..200) {
            let header = header(8, 2, 3);
            let words = header.words(&[1; 8], &[9; 96]).unwrap();
            let mut frame = frames(&RelayMessage::Shard(header), &words).unwrap().remove(0);
            let position = position.min(frame.len() - 1);
            frame[position] = byte;
            frame.truncate(cut.max(frame.len() / 2));
            let came: Result<Option<(RelayMessage, Vec<f32>)>, WireError> = Assembler::new(10_000).push(&frame);
            if let Ok(Some((RelayMessage::Shard(header), words))) = came
                && let Ok((labels, pixels)) = header.read(&words)
            {
                prop_assert!(labels.len() + pixels.len() <= 4 * words.len());
                prop_assert!(labels.iter().all(|label| usize::from(*label) < header.classes.len()));
            }
        }
    }
}
