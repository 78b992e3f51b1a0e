//! Division of the cases of a matrix, a sweep or an experiment among machines.
//!
//! The cases form a list, and a [`Part`] selects cases only by their position. Each part has a folder ([`PartFolder`])
//! with its cases in the same form as in a whole run, and a `part.json` that describes the run.
//! [`merge`](crate::merge()) combines the cases of all parts and writes the run's report.

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
    /// Whether this part computes the case at `position`, counted from 0. Every case belongs to exactly one part.
    pub fn takes(self, position: usize) -> bool {
        self == Self::of_case(position, self.of())
    }

    /// The part out of `of` that computes the case at `position`.
    ///
    /// Each group of `of` consecutive cases goes to different parts, and each following group starts one part later.
    /// Otherwise, in a list where every n-th case is long, one part would get all the long ones.
    pub(crate) fn of_case(position: usize, of: usize) -> Self {
        Self(NthOf::cyclic(position + position / of.max(1), of))
    }

    pub(crate) fn of(self) -> usize {
        self.0.of()
    }

    /// The folder of this part in the folder of all parts.
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

    /// Two attacks, of which the first is a search: the searches are spread over both parts.
    #[test]
    fn what_comes_round_in_step_with_the_parts_is_shared() {
        let part: Part = "1/2".parse().unwrap();
        assert_eq!((0..8).filter(|&position| part.takes(position)).collect::<Vec<_>>(), [0, 3, 4, 7]);
    }
}
