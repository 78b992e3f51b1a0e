//! Formulas that decide a claim: `accuracy(r0.5) = accuracy(none) within 2`, `seen(april/r0.2) < 50`.

use std::{fmt, str::FromStr};

use serde::Deserialize;

use crate::metric::Metric;

/// A metric of a case: `ssim(april/r0.2)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) metric: Metric,
    /// The case's key. For attacks, the panel's key, with `-aware` for the attacker who knows the mask, comes before a
    /// slash.
    pub(crate) case: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Right {
    Term(Term),
    Number(f64),
}

/// Where the difference of the two sides should be, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Direction {
    /// At most the margin away from 0.
    Equal,
    /// Below 0 by more than the margin.
    Lower,
    /// Above 0 by more than the margin.
    Higher,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Condition {
    pub(crate) left: Term,
    pub(crate) direction: Direction,
    pub(crate) right: Right,
    pub(crate) margin: f64,
}

impl Condition {
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        let right = match &self.right {
            Right::Term(term) => Some(term),
            Right::Number(_) => None,
        };
        std::iter::once(&self.left).chain(right)
    }

    /// The case on the right side, or the only case if the right side is a number.
    pub(crate) fn reference(&self) -> &Term {
        match &self.right {
            Right::Term(term) => term,
            Right::Number(_) => &self.left,
        }
    }
}

/// Why a text is not a formula.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConditionError {
    #[error(
        "\"{text}\" compares nothing; write it as accuracy(r0.2) = accuracy(none) within 2, or with < or > and \"by\""
    )]
    Comparison { text: String },
    #[error("\"{text}\" is not a metric of a case; write it as accuracy(r0.2)")]
    Term { text: String },
    #[error("\"{text}\" is not a margin; give a number of 0 or more")]
    Margin { text: String },
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let no_comparison = || ConditionError::Comparison { text: text.to_owned() };
        let (place, direction, word) = text
            .char_indices()
            .find_map(|(place, sign)| match sign {
                '=' => Some((place, Direction::Equal, " within ")),
                '<' => Some((place, Direction::Lower, " by ")),
                '>' => Some((place, Direction::Higher, " by ")),
                _ => None,
            })
            .ok_or_else(no_comparison)?;
        let (left, rest) = (&text[..place], &text[place + 1..]);
        let (right, margin) = match rest.split_once(word) {
            Some((right, margin)) => (right, margin.trim()),
            None => (rest, "0"),
        };
        let no_margin = || ConditionError::Margin { text: margin.to_owned() };
        let margin: f64 = margin.parse().map_err(|_| no_margin())?;
        if !margin.is_finite() || margin < 0.0 {
            return Err(no_margin());
        }
        let right = match right.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Right::Number(number),
            _ => Right::Term(right.parse()?),
        };
        Ok(Self { left: left.parse()?, direction, right, margin })
    }
}

impl TryFrom<String> for Condition {
    type Error = ConditionError;

    fn try_from(text: String) -> Result<Self, ConditionError> {
        text.parse()
    }
}

impl FromStr for Term {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let no_term = || ConditionError::Term { text: text.trim().to_owned() };
        let (name, case) = text.trim().strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(no_term)?;
        let is_name = |text: &str, more: &[char]| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || more.contains(&c))
        };
        if !is_name(name, &[]) || !is_name(case, &['.', '/']) {
            return Err(no_term());
        }
        let measured = Metric::MEASURED.into_iter().find(|metric| metric.name() == name);
        let metric = measured.unwrap_or_else(|| Metric::Unmeasured(name.to_owned()));
        Ok(Self { metric, case: case.to_owned() })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.metric.name(), self.case)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Term(term) => term.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { left, direction, right, margin } = self;
        let (sign, word) = match direction {
            Direction::Equal => ('=', "within"),
            Direction::Lower => ('<', "by"),
            Direction::Higher => ('>', "by"),
        };
        write!(f, "{left} {sign} {right}")?;
        if *margin > 0.0 { write!(f, " {word} {margin}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_are_read_and_written() {
        for text in [
            "accuracy(r0.2) = accuracy(none) within 2",
            "accuracy(eps1) < accuracy(none) by 10",
            "accuracy(r0.5) > accuracy(f0.5)",
            "seen(april/r0.2) = 0",
            "never-position(fixed) = 100",
            "told(membership/none) > 50",
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        let condition: Condition = "accuracy(eps4)<accuracy(none)  by 2.5".parse().unwrap();
        let term = |case: &str| Term { metric: Metric::Accuracy, case: case.to_owned() };
        let expected = Condition {
            left: term("eps4"),
            direction: Direction::Lower,
            right: Right::Term(term("none")),
            margin: 2.5,
        };
        assert_eq!((&condition, condition.reference()), (&expected, &term("none")));
        let alone: Condition = "seen(april/none) > 50".parse().unwrap();
        assert_eq!((alone.reference().case.as_str(), alone.terms().count()), ("april/none", 1));
        assert_eq!(alone.right, Right::Number(50.0));
    }

    #[test]
    fn what_is_no_formula_is_named() {
        for (text, part) in [
            ("accuracy(none)", "compares nothing; write it as accuracy(r0.2) = accuracy(none) within 2"),
            ("accuracy = accuracy(none)", "\"accuracy\" is not a metric of a case"),
            ("accuracy() = 2", "\"accuracy()\" is not a metric"),
            ("accuracy(none) = nine", "\"nine\" is not a metric"),
            ("accuracy(none) = NaN", "\"NaN\" is not a metric"),
            ("accuracy(a) = accuracy(b) within -1", "\"-1\" is not a margin"),
            ("accuracy(a) < accuracy(b) by much", "\"much\" is not a margin"),
            ("accuracy(a) < accuracy(b) by inf", "\"inf\" is not a margin"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in ".{0,60}") {
            let _ = text.parse::<Condition>();
        }

        #[test]
        fn what_is_written_reads_the_same(
            (metric, case, other) in ("[a-z][a-z-]{0,8}", "[a-z0-9./-]{1,9}", "[a-z0-9./-]{1,9}"),
            number in proptest::option::of(-1e3_f64..1e3),
            direction in prop_oneof![Just(Direction::Equal), Just(Direction::Lower), Just(Direction::Higher)],
            margin in 0.0_f64..1e3,
        ) {
            let right = number.map_or(format!("{metric}({other})"), |number| number.to_string());
            let right = if number.is_some() { Right::Number(right.parse().unwrap()) } else { Right::Term(right.parse().unwrap()) };
            let condition = Condition { left: format!("{metric}({case})").parse().unwrap(), direction, right, margin };
            prop_assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition));
        }
    }
}
