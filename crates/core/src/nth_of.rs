use std::{fmt, str::FromStr};

/// The i-th of n shares, written `i/n`: `2/10` is the second of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NthOf {
    number: usize,
    of: usize,
}

/// A string that is not a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a share; write i/n with i from 1 to n, such as 2/5")]
pub struct ParseNthOfError(String);

impl NthOf {
    /// `None` unless `number` is from 1 to `of`.
    pub fn new(number: usize, of: usize) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// The share for `index`, counted from 0, when shares are assigned in turn.
    pub fn cyclic(index: usize, of: usize) -> Self {
        let of = of.max(1);
        Self { number: index % of + 1, of }
    }

    /// Counted from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Number of shares.
    pub fn of(self) -> usize {
        self.of
    }
}

impl fmt::Display for NthOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for NthOf {
    type Err = ParseNthOfError;

    fn from_str(text: &str) -> Result<Self, ParseNthOfError> {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let read = || {
            let (part, of) = text.split_once('/')?;
            Self::new(number(part)?, number(of)?)
        };
        read().ok_or_else(|| ParseNthOfError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_from_1() {
        for text in ["1/1", "2/5", "5/5"] {
            assert_eq!(text.parse::<NthOf>().unwrap().to_string(), text);
        }
        assert_eq!(" 2 / 5 ".parse(), Ok(NthOf { number: 2, of: 5 }));
        assert_eq!([0, 4, 5].map(|index| NthOf::cyclic(index, 5).number()), [1, 5, 1]);
        for text in ["", "2", "0/5", "6/5", "1/0", "-1/2", "a/b", "1/2/3"] {
            let error = text.parse::<NthOf>().unwrap_err().to_string();
            assert!(error.contains("such as 2/5"), "{error}");
        }
    }
}
