//! The byte format of a checkpoint: a magic line, the header as JSON, the arrays in little-endian, and the SHA-256 of
//! all of it.

use std::array;

use sha2::{Digest, Sha256};

use super::{Checkpoint, Header};
use crate::Metrics;

const MAGIC: &[u8] = b"unmask checkpoint 1\n";
const HASH: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("it is not a checkpoint of this version of unmask")]
    Magic,
    #[error("its checksum is wrong, so it was cut off or altered")]
    Hash,
    #[error("it cannot be understood ({0})")]
    Content(String),
}

impl Checkpoint {
    pub(super) fn encode(&self) -> Vec<u8> {
        // This cannot fail: the header has only numbers and strings.
        let header = serde_json::to_vec(&self.header).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        section(&mut bytes, header.len(), header);
        for values in [&self.weights, &self.statistics, &self.moments.0, &self.moments.1] {
            section(&mut bytes, values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
        }
        section(&mut bytes, self.counts.len(), self.counts.iter().flat_map(|count| count.to_le_bytes()));
        let numbers = self.metrics.iter().flat_map(Metrics::numbers).flat_map(f64::to_le_bytes);
        section(&mut bytes, self.metrics.len(), numbers);
        let hash = Sha256::digest(&bytes);
        bytes.extend_from_slice(&hash);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if !bytes.starts_with(MAGIC) {
            return Err(FormatError::Magic);
        }
        let (content, hash) = bytes.split_last_chunk::<HASH>().ok_or(FormatError::Hash)?;
        if Sha256::digest(content).as_slice() != hash {
            return Err(FormatError::Hash);
        }
        let mut rest = Reader(content.get(MAGIC.len()..).unwrap_or_default());
        let header = rest.section(1)?;
        let header: Header = serde_json::from_slice(header).map_err(|error| FormatError::Content(error.to_string()))?;
        let mut floats = || Ok::<_, FormatError>(each(rest.section(4)?, f32::from_le_bytes));
        let (weights, statistics, moments) = (floats()?, floats()?, (floats()?, floats()?));
        let counts = each(rest.section(2)?, u16::from_le_bytes);
        let numbers = each(rest.section(8 * Metrics::NUMBERS)?, f64::from_le_bytes);
        let (records, _) = numbers.as_chunks();
        let metrics = records.iter().copied().map(Metrics::from_numbers).collect();
        Ok(Self { header, weights, statistics, moments, counts, metrics })
    }
}

fn section(bytes: &mut Vec<u8>, items: usize, content: impl IntoIterator<Item = u8>) {
    bytes.extend_from_slice(&(items as u64).to_le_bytes());
    bytes.extend(content);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the bytes of a section with items of `size` bytes.
    fn section(&mut self, size: usize) -> Result<&'a [u8], FormatError> {
        let short = || FormatError::Content("a section is cut off".to_owned());
        let (length, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        let items = usize::try_from(u64::from_le_bytes(*length)).ok();
        let bytes = items.and_then(|items| items.checked_mul(size)).ok_or_else(short)?;
        let (section, rest) = rest.split_at_checked(bytes).ok_or_else(short)?;
        self.0 = rest;
        Ok(section)
    }
}

fn each<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|chunk| value(array::from_fn(|i| chunk[i]))).collect()
}
