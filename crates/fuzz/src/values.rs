//! Numbers as hostile clients send them.

use arbitrary::{Arbitrary, Unstructured};

/// Any float: arbitrary bits, or a value that tends to break sums.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub(crate) enum Float {
    Bits(u32),
    Plain(i8),
    Huge,
    Negative,
    Tiny,
    Zero,
    Infinite,
    NotANumber,
}

impl Float {
    pub(crate) fn value(self) -> f32 {
        match self {
            Self::Bits(bits) => f32::from_bits(bits),
            Self::Plain(hundredths) => f32::from(hundredths) / 100.0,
            Self::Huge => f32::MAX,
            Self::Negative => -1e25,
            Self::Tiny => f32::MIN_POSITIVE,
            Self::Zero => 0.0,
            Self::Infinite => f32::INFINITY,
            Self::NotANumber => f32::NAN,
        }
    }
}

/// As many values as a model has, or nearly as many.
#[derive(Debug, Clone, Arbitrary)]
pub(crate) struct Values {
    pattern: [Float; 3],
    length: Length,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Length {
    Whole,
    Fitting,
    Half,
    OneLess,
    OneMore,
    None,
}

impl Values {
    pub(crate) fn fill(&self, len: usize) -> Vec<f32> {
        let len = match self.length {
            Length::Whole | Length::Fitting => len,
            Length::Half => len / 2,
            Length::OneLess => len.saturating_sub(1),
            Length::OneMore => len + 1,
            Length::None => 0,
        };
        let pattern = self.pattern.map(Float::value);
        pattern.into_iter().cycle().take(len).collect()
    }
}

pub(crate) fn steps<'a, T: Arbitrary<'a>>(data: &'a [u8], most: usize) -> impl Iterator<Item = T> {
    let mut bytes = Unstructured::new(data);
    std::iter::from_fn(move || if bytes.is_empty() { None } else { T::arbitrary(&mut bytes).ok() }).take(most)
}

/// Meaningless bytes, always the same.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        // Xorshift, which is uniform enough here.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}
