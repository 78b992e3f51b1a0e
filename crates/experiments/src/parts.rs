//! The cases of a matrix, a sweep or an experiment, divided among machines, and put together again.
//!
//! Cases are a list, and what a [`Part`] computes follows from a case's place in it alone. Each part has a folder
//! ([`PartFolder`]) in which its cases are kept as a whole run keeps them, beside `part.json`, which says what they are cases
//! of. [`merge`](crate::merge()) brings the cases of all parts together and has the run's own report made of them.

mod folder;
mod merged;
mod record;

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use unmask_core::{NthOf, ParseNthOfError};

pub use self::folder::PartFolder;
pub(crate) use self::{
    merged::MergedRun,
    record::{Build, Machine, PART, PartRecord, RunKind},
};

/// The i-th of n shares of a list of cases, written `i/n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Part(NthOf);

impl Part {
    /// Whether the case at `position`, counted from 0, is for this part. Every case is for one part.
    pub fn takes(self, position: usize) -> bool {
        self == Self::of_case(position, self.of())
    }

    /// The part of `of` that computes the case at `position`.
    ///
    /// Every `of` consecutive cases go to different parts, and each next row of them begins one part later. Otherwise lists in
    /// which each n-th case is a long one would give all of these to one part.
    pub(crate) fn of_case(position: usize, of: usize) -> Self {
        Self(NthOf::cyclic(position + position / of.max(1), of))
    }

    /// Into how many parts the list is divided.
    pub(crate) fn of(self) -> usize {
        self.0.of()
    }

    /// The folder of this part below that of all parts.
    pub fn folder(self, out: &Path) -> PathBuf {
        out.join(format!("part-{}-of-{}", self.0.number(), self.of()))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Part {
    type Err = ParseNthOfError;

    fn from_str(text: &str) -> Result<Self, ParseNthOfError> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for Part {
    type Error = ParseNthOfError;

    fn try_from(text: String) -> Result<Self, ParseNthOfError> {
        text.parse()
    }
}

impl From<Part> for String {
    fn from(part: Part) -> Self {
        part.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_case_is_for_one_part_and_parts_are_even(cases in 0usize..200, of in 1usize..40) {
            let parts: Vec<Part> = (1..=of).map(|number| Part(NthOf::new(number, of).unwrap())).collect();
            let mut shares = vec![0; of];
            for position in 0..cases {
                let takers: Vec<usize> = (0..of).filter(|&at| parts[at].takes(position)).collect();
                prop_assert_eq!(takers.len(), 1);
                shares[takers[0]] += 1;
            }
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", shares);
        }

        #[test]
        fn a_part_is_read_as_it_is_written(number in 1usize..1000, more in 0usize..1000) {
            let part = Part(NthOf::new(number, number + more).unwrap());
            prop_assert_eq!(part.to_string().parse::<Part>(), Ok(part));
        }
    }

    /// Two attacks, the first of which is a search: neither part has all searches.
    #[test]
    fn what_comes_round_in_step_with_the_parts_is_shared() {
        let part: Part = "1/2".parse().unwrap();
        assert_eq!((0..8).filter(|&position| part.takes(position)).collect::<Vec<_>>(), [0, 3, 4, 7]);
    }
}
