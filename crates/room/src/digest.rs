//! Digests of weights.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of the values' little-endian bytes in hexadecimal, which is the same on every machine.
pub fn digest(values: &[f32]) -> String {
    let mut hash = Sha256::new();
    let mut bytes = Vec::with_capacity(4 * 4096);
    for values in values.chunks(4096) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        hash.update(&bytes);
    }
    hex(hash.finalize().as_ref())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: `printf '' | sha256sum` and `printf '\0\0\200\77\0\0\0\300' | sha256sum`.
    #[test]
    fn digests_are_those_of_the_bytes() {
        assert_eq!(digest(&[]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest(&[1.0, -2.0]), "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b");
        assert_ne!(digest(&vec![0.0; 5000]), digest(&vec![0.0; 5001]));
        assert_ne!(digest(&[0.0]), digest(&[-0.0]));
    }
}
