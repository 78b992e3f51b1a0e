//! The python version of CIFAR-10: six pickles with the same records in the same order.
//!
//! No pickle is run. The labels and the pixels are found by their form, and the SHA-1 of the official binary file decides
//! whether they are right.

use super::{PLANE, RECORDS};

/// Bytes of all pixels of a file, record after record, as in the binary version without its labels.
const PIXELS: usize = RECORDS * 3 * PLANE;

/// The records of a batch as the binary version has them; `None` if the pickle does not hold 10000 of them.
pub(super) fn records(pickle: &[u8]) -> Option<Vec<u8>> {
    let (labels, pixels) = (labels(pickle)?, pixels(pickle)?);
    let each = labels.iter().zip(pixels.chunks_exact(3 * PLANE));
    Some(each.flat_map(|(label, pixels)| std::iter::once(label).chain(pixels)).copied().collect())
}

/// The only string of bytes with this length: after its instruction, T (a string of protocol 1) or B (bytes).
fn pixels(pickle: &[u8]) -> Option<&[u8]> {
    let length = u32::try_from(PIXELS).ok()?.to_le_bytes();
    let is_it = |window: &[u8]| matches!(window[0], b'T' | b'B') && window[1..] == length;
    let begin = pickle.windows(1 + length.len()).position(is_it)? + 1 + length.len();
    pickle.get(begin..begin + PIXELS)
}

/// The list after the word `labels`: marks, numbers of one byte (K) and ends, in parts of a thousand.
fn labels(pickle: &[u8]) -> Option<Vec<u8>> {
    const WORD: &[u8] = b"labels";
    let places = pickle.windows(WORD.len()).enumerate().filter(|(_, window)| *window == WORD);
    places.map(|(place, _)| place + WORD.len()).find_map(|begin| list(&pickle[begin..]))
}

fn list(code: &[u8]) -> Option<Vec<u8>> {
    let mut code = memo(code).strip_prefix(b"]").map(memo)?;
    let mut labels = Vec::with_capacity(RECORDS);
    loop {
        code = match *code {
            [b'(' | b'e', ref rest @ ..] => rest,
            [b'K', label, ref rest @ ..] => {
                labels.push(label);
                rest
            }
            _ => break,
        };
        if labels.len() == RECORDS {
            return Some(labels);
        }
    }
    None
}

/// Skips an instruction that remembers a value.
fn memo(code: &[u8]) -> &[u8] {
    match *code {
        [b'q', _, ref rest @ ..] | [b'r', _, _, _, _, ref rest @ ..] | [0x94, ref rest @ ..] => rest,
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_ten_thousand_records_is_none() {
        for pickle in
            [&b""[..], b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x06K\x09eu.", b"T\x00\xc0\xd4\x01labels", b"labels]("]
        {
            assert_eq!(records(pickle), None);
        }
    }
}
