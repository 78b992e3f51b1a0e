//! Limits for the numbers of a network: a name from the network must not make the program reserve terabytes.

/// Most parameters of a network defined by its name: 1 GiB of `f32`.
pub(crate) const MOST_PARAMETERS: u64 = 1 << 28;

/// Numbers that no network can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("{what} is {given}; give {least} to {most}")]
    Range { what: &'static str, given: usize, least: usize, most: usize },
    #[error(
        "images of {image} x {image} pixels do not divide into patches of {patch} x {patch}; choose a patch that \
         divides {image}"
    )]
    Patches { image: usize, patch: usize },
    #[error("{heads} heads cannot share {dim} dimensions; choose a number of heads that divides {dim}")]
    Heads { dim: usize, heads: usize },
    #[error("it has {parameters} parameters; the most is {MOST_PARAMETERS}")]
    Parameters { parameters: u64 },
}

impl SizeError {
    pub(crate) fn range(what: &'static str, given: usize, least: usize, most: usize) -> Result<(), Self> {
        if (least..=most).contains(&given) { Ok(()) } else { Err(Self::Range { what, given, least, most }) }
    }

    pub(crate) fn parameters(parameters: u64) -> Result<(), Self> {
        if parameters <= MOST_PARAMETERS { Ok(()) } else { Err(Self::Parameters { parameters }) }
    }
}

/// Parses a number inside a name: only digits, at most nine.
pub(crate) fn number(text: &str) -> Option<usize> {
    let is_plain = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}
