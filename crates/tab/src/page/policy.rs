//! The defences that the teacher can choose, and their string forms.

/// One of the three segments of the defence control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The update leaves as it is.
    None,
    /// The position embedding's update is zeroed.
    FixedPosition,
    /// Each value is zeroed with probability R, anew for each client and round.
    RandomBinary,
}

impl Choice {
    /// All of them, in the order shown.
    pub const ALL: [Self; 3] = [Self::None, Self::FixedPosition, Self::RandomBinary];

    /// Its name in attributes.
    pub fn key(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FixedPosition => "fixed-position",
            Self::RandomBinary => "random-binary",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::FixedPosition => "Fixed position",
            Self::RandomBinary => "Random binary weights",
        }
    }

    /// The string form that the relay takes; `twentieths` of values zeroed count only for random binary weights.
    pub fn form(self, twentieths: u8) -> String {
        match self {
            Self::RandomBinary => format!("random-binary:{}", rate(twentieths)),
            other => other.key().to_owned(),
        }
    }

    /// The choice that a string form belongs to, and its R in twentieths where it has one.
    pub fn read(form: &str) -> Option<(Self, Option<u8>)> {
        let (key, rest) = form.split_once(':').unwrap_or((form, ""));
        let choice = Self::ALL.into_iter().find(|choice| choice.key() == key)?;
        Some((choice, read_rate(rest)))
    }
}

/// R written in decimal, in twentieths between 0.05 and 0.95.
pub fn read_rate(text: &str) -> Option<u8> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite())?;
    Some((rate * 20.0).round().clamp(1.0, 19.0) as u8)
}

/// R in decimal; the slider counts in twentieths so that no rounding error is ever shown.
pub fn rate(twentieths: u8) -> String {
    let hundredths = u32::from(twentieths) * 5;
    if hundredths.is_multiple_of(10) {
        format!("{}.{}", hundredths / 100, hundredths % 100 / 10)
    } else {
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// The defence in what the room says of its next round, such as `April block, new weights; random-binary:0.5`.
pub fn next_defence(next: &str) -> Option<&str> {
    next.split("; ").find(|part| Choice::read(part).is_some())
}

/// Whether the next round's model has the April block, where the room says that the model will change.
pub fn next_block(next: &str) -> Option<bool> {
    next.split("; ").find_map(|part| match part.split_once(',')?.0 {
        "April block" => Some(true),
        "standard block" => Some(false),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_those_of_the_relay() {
        assert_eq!(Choice::None.form(10), "none");
        assert_eq!(Choice::FixedPosition.form(10), "fixed-position");
        assert_eq!(Choice::RandomBinary.form(10), "random-binary:0.5");
        assert_eq!(Choice::RandomBinary.form(1), "random-binary:0.05");
        assert_eq!(Choice::RandomBinary.form(19), "random-binary:0.95");
    }

    #[test]
    fn what_comes_next_is_taken_apart() {
        assert_eq!(next_defence("random-binary:0.5"), Some("random-binary:0.5"));
        assert_eq!(next_defence("April block, new weights; none"), Some("none"));
        assert_eq!(next_defence("April block, new weights"), None);
        assert_eq!(next_block("April block, new weights; none"), Some(true));
        assert_eq!(next_block("standard block, new weights"), Some(false));
        assert_eq!(next_block("none"), None);
    }

    #[test]
    fn forms_come_back() {
        for choice in Choice::ALL {
            for twentieths in 1..=19 {
                let (read, read_rate) = Choice::read(&choice.form(twentieths)).expect("its own form");
                assert_eq!(read, choice);
                assert_eq!(read_rate, (choice == Choice::RandomBinary).then_some(twentieths));
            }
        }
        assert_eq!(Choice::read("gaussian:1"), None);
    }
}
