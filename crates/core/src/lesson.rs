//! The scenes of a lesson, in order.

use crate::text::words;

/// A part of the lesson: one message on the projector. Scenes are numbered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scene {
    /// The class joins.
    #[default]
    Lobby,
    /// The picture stays on the device, numbers leave.
    Promise,
    /// Whose picture is this reconstruction of?
    Guess,
    /// APRIL reads the picture off the update.
    April,
    /// A random part of the update stays at home.
    Mask,
    /// How much more an attacker sees who knows the mask.
    Attackers,
    /// A search through the model.
    Patience,
    /// What a defence costs in accuracy.
    TradeOff,
    /// Was this picture in the update?
    Membership,
    /// What the class takes home.
    Debrief,
}

words!(Scene {
    Lobby = "lobby",
    Promise = "promise",
    Guess = "guess",
    April = "april",
    Mask = "mask",
    Attackers = "attackers",
    Patience = "patience",
    TradeOff = "trade-off",
    Membership = "membership",
    Debrief = "debrief",
}, UnknownScene, "the lesson has no scene {name:?}; write {words}", ", ");

impl Scene {
    /// Counted from 0, as in URLs (`#scene=4`).
    pub fn number(self) -> u8 {
        self as u8
    }

    /// `None` if the lesson has fewer scenes.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_are_told_by_number_and_by_name() {
        for (place, scene) in Scene::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(scene.number()), place);
            assert_eq!(Scene::from_number(scene.number()), Some(scene));
            assert_eq!(scene.to_string().parse(), Ok(scene));
        }
        assert_eq!(Scene::from_number(10), None);
        let error = "intermission".parse::<Scene>().unwrap_err().to_string();
        assert!(error.starts_with("the lesson has no scene \"intermission\"; write lobby, promise"), "{error}");
    }
}
