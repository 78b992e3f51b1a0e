/// Packs bytes into words of four in order; zeros fill the last word.
pub(crate) fn to_words(bytes: impl IntoIterator<Item = u8>) -> impl Iterator<Item = f32> {
    let mut bytes = bytes.into_iter();
    std::iter::from_fn(move || {
        let first = bytes.next()?;
        let mut word = [first, 0, 0, 0];
        word[1..].fill_with(|| bytes.next().unwrap_or(0));
        Some(f32::from_le_bytes(word))
    })
}

/// Unpacks words into bytes, padding included.
pub(crate) fn from_words(words: &[f32]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}
