//! The clock of a recorded lesson: position, speed and keys.

/// Seconds of the lesson for each second of playback.
const SPEEDS: [f64; 7] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Index of normal speed.
const REAL: usize = 1;
/// Distance of one arrow key press, in milliseconds.
const STEP: f64 = 5_000.0;

/// A playback clock, in milliseconds since the recording began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    at: f64,
    length: f64,
    speed: usize,
    is_playing: bool,
}

/// The focused element, which handles some keys itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focused {
    Nothing,
    /// Pressed by Space and Enter.
    Button,
    /// Moved by arrows, Home and End.
    Slider,
    /// A list, which uses all keys.
    Choice,
}

impl Clock {
    /// A clock at the start of a recording of this length, playing at normal speed.
    pub fn new(length: u64) -> Self {
        Self { at: 0.0, length: length as f64, speed: REAL, is_playing: true }
    }

    pub fn at(self) -> u64 {
        self.at as u64
    }

    pub fn length(self) -> u64 {
        self.length as u64
    }

    pub fn is_playing(self) -> bool {
        self.is_playing
    }

    /// Seconds of the lesson for each second of playback.
    pub fn speed(self) -> f64 {
        SPEEDS.get(self.speed).copied().unwrap_or(1.0)
    }

    /// Advances the clock by this much real time. It stops at the end.
    pub fn pass(&mut self, milliseconds: f64) {
        if self.is_playing {
            self.go_to(self.at + milliseconds.max(0.0) * self.speed());
            self.is_playing = self.at < self.length;
        }
    }

    /// Plays or pauses; at the end, restarts from the beginning.
    pub fn toggle(&mut self) {
        if !self.is_playing && self.at >= self.length {
            self.at = 0.0;
        }
        self.is_playing = !self.is_playing;
    }

    /// Moves to a time without starting or stopping.
    pub fn go_to(&mut self, at: f64) {
        if at.is_finite() {
            self.at = at.clamp(0.0, self.length);
        }
    }

    pub fn go_faster(&mut self) {
        self.speed = (self.speed + 1).min(SPEEDS.len() - 1);
    }

    pub fn go_slower(&mut self) {
        self.speed = self.speed.saturating_sub(1);
    }

    /// Handles a key, which has the name that browsers give it. Returns whether the key was for the clock.
    pub fn press(&mut self, key: &str, focused: Focused) -> bool {
        match (key, focused) {
            (" ", Focused::Nothing | Focused::Slider) => self.toggle(),
            ("ArrowLeft", Focused::Nothing | Focused::Button) => self.go_to(self.at - STEP),
            ("ArrowRight", Focused::Nothing | Focused::Button) => self.go_to(self.at + STEP),
            ("Home", Focused::Nothing | Focused::Button) => self.go_to(0.0),
            ("End", Focused::Nothing | Focused::Button) => self.go_to(self.length),
            (_, Focused::Choice) => return false,
            ("+" | "=" | ">", _) => self.go_faster(),
            ("-" | "<", _) => self.go_slower(),
            _ => return false,
        }
        true
    }
}

/// Formats a time as `1:05` for a minute and five seconds.
pub fn minutes(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_at_its_speed_and_stops_at_its_end() {
        let mut clock = Clock::new(10_000);
        clock.pass(1000.0);
        clock.go_faster();
        clock.pass(1000.0);
        assert_eq!((clock.at(), clock.speed(), clock.is_playing()), (3000, 2.0, true));
        clock.pass(60_000.0);
        assert_eq!((clock.at(), clock.is_playing()), (10_000, false));
        clock.pass(1000.0);
        assert_eq!(clock.at(), 10_000);
        clock.toggle();
        assert_eq!((clock.at(), clock.is_playing()), (0, true));
        clock.toggle();
        clock.pass(1000.0);
        assert_eq!((clock.at(), clock.is_playing()), (0, false));
    }

    #[test]
    fn keys_move_it_unless_they_are_for_something_else() {
        let mut clock = Clock::new(60_000);
        for (key, focused, at, is_playing) in [
            ("ArrowRight", Focused::Nothing, 5_000, true),
            ("ArrowRight", Focused::Slider, 5_000, true),
            (" ", Focused::Button, 5_000, true),
            (" ", Focused::Slider, 5_000, false),
            ("End", Focused::Button, 60_000, false),
            ("ArrowLeft", Focused::Nothing, 55_000, false),
            ("Home", Focused::Nothing, 0, false),
            ("ArrowLeft", Focused::Nothing, 0, false),
        ] {
            let is_for_it = clock.press(key, focused);
            assert_eq!((clock.at(), clock.is_playing()), (at, is_playing), "{key} {focused:?} {is_for_it}");
        }
        assert!(!clock.press("ArrowLeft", Focused::Choice) && !clock.press("+", Focused::Choice));
        assert!(!clock.press("a", Focused::Nothing) && !clock.press("ArrowLeft", Focused::Slider));
        for _ in 0..20 {
            clock.press("+", Focused::Slider);
        }
        assert_eq!(clock.speed(), 32.0);
        for _ in 0..20 {
            clock.press("-", Focused::Button);
        }
        assert_eq!(clock.speed(), 0.5);
        clock.go_to(f64::NAN);
        assert_eq!(clock.at(), 0);
    }

    #[test]
    fn an_empty_recording_has_an_end() {
        let mut clock = Clock::new(0);
        clock.pass(100.0);
        assert!(!clock.is_playing());
        assert_eq!((minutes(0), minutes(65_999)), ("0:00".to_owned(), "1:05".to_owned()));
    }
}
