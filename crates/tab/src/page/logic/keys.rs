//! The presenter's keys.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Next,
    NextScene,
    PreviousScene,
    RateDown,
    RateUp,
    Mask,
    NextVolunteer,
    /// Pause or resume the rounds.
    Pause,
    Blank,
    Notes,
    Expert,
    /// Switch the page to the next language.
    Language,
    /// Agree to lose rounds.
    Confirm,
    Cancel,
}

/// What has the keyboard focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Focus {
    /// A field, in which keys type letters or move a slider.
    pub is_typing: bool,
    /// A button or link, which Space and Enter press.
    pub is_pressable: bool,
    /// The question whether rounds may be lost is open.
    pub is_asked: bool,
    /// Control, Alt or Meta is held, as in the browser's own shortcuts.
    pub has_modifier: bool,
}

/// The action of `key`, which has the name that browsers give it.
pub fn action(key: &str, focus: Focus) -> Option<Action> {
    if focus.has_modifier || focus.is_typing {
        return None;
    }
    if focus.is_asked {
        return match key {
            "Enter" if !focus.is_pressable => Some(Action::Confirm),
            "Escape" => Some(Action::Cancel),
            _ => None,
        };
    }
    Some(match key {
        " " if !focus.is_pressable => Action::Next,
        // Presenter remotes send these keys.
        "PageDown" => Action::Next,
        "PageUp" | "ArrowLeft" => Action::PreviousScene,
        "ArrowRight" => Action::NextScene,
        "[" => Action::RateDown,
        "]" => Action::RateUp,
        "m" | "M" => Action::Mask,
        "t" | "T" => Action::NextVolunteer,
        "p" | "P" => Action::Pause,
        "b" | "B" => Action::Blank,
        "n" | "N" => Action::Notes,
        "e" | "E" => Action::Expert,
        "l" | "L" => Action::Language,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_meaning_for_what_has_the_focus() {
        let free = Focus::default();
        assert_eq!(action(" ", free), Some(Action::Next));
        assert_eq!((action("m", free), action("M", free)), (Some(Action::Mask), Some(Action::Mask)));
        assert_eq!(action("l", free), Some(Action::Language));
        assert_eq!(action("x", free), None);
        assert_eq!(action("Enter", free), None);
        let typing = Focus { is_typing: true, ..free };
        let pressable = Focus { is_pressable: true, ..free };
        for key in [" ", "m", "[", "ArrowLeft"] {
            assert_eq!(action(key, typing), None, "{key}");
            assert_eq!(action(key, Focus { has_modifier: true, ..free }), None, "{key}");
        }
        assert_eq!((action(" ", pressable), action("ArrowRight", pressable)), (None, Some(Action::NextScene)));
        let asked = Focus { is_asked: true, ..free };
        assert_eq!(action("Enter", asked), Some(Action::Confirm));
        assert_eq!(action("Enter", Focus { is_pressable: true, ..asked }), None);
        assert_eq!((action("Escape", asked), action(" ", asked)), (Some(Action::Cancel), None));
    }
}
