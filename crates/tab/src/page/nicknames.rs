//! Friendly nicknames: an adjective and an animal, short enough for a phone and a projector's chip.

const ADJECTIVES: [&str; 24] = [
    "amber", "brave", "bright", "calm", "clever", "cosy", "curious", "daring", "eager", "gentle", "golden", "happy",
    "jolly", "keen", "lively", "lucky", "merry", "mighty", "nimble", "quiet", "silver", "snowy", "swift", "witty",
];

const ANIMALS: [&str; 24] = [
    "badger", "bear", "beaver", "bison", "crane", "dolphin", "falcon", "fox", "gecko", "heron", "koala", "lemur",
    "lynx", "marten", "otter", "owl", "panda", "puffin", "raven", "robin", "seal", "stork", "tiger", "wombat",
];

/// Longest nickname that the page lets anybody type, in characters.
pub const NICKNAME_LENGTH: usize = 24;

/// A nickname from two draws in [0, 1), such as `Math.random()` gives.
pub fn nickname(first: f64, second: f64) -> String {
    format!("{} {}", pick(&ADJECTIVES, first), pick(&ANIMALS, second))
}

fn pick<'a>(words: &[&'a str], draw: f64) -> &'a str {
    let place = (draw * words.len() as f64) as usize;
    words[place.min(words.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_gives_a_name_that_fits() {
        for first in 0..=100 {
            for second in 0..=100 {
                let name = nickname(f64::from(first) / 100.0, f64::from(second) / 100.0);
                assert!(name.len() <= NICKNAME_LENGTH, "{name}");
                assert_eq!(name.split(' ').count(), 2, "{name}");
            }
        }
    }

    #[test]
    fn ends_of_the_range_are_the_ends_of_the_lists() {
        assert_eq!(nickname(0.0, 0.0), "amber badger");
        assert_eq!(nickname(0.999, 0.999), "witty wombat");
    }
}
