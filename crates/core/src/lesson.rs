//! The scenes of a lesson, in their order.

use crate::text::words;

/// A part of the lesson: one message on the projector. Its number is its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scene {
    /// The class joins.
    #[default]
    Lobby,
    /// The picture stays, numbers leave.
    Promise,
    /// Whose picture is this reconstruction of?
    Guess,
    /// APRIL reads the picture off the update.
    April,
    /// A random part of the update stays at home.
    Mask,
    /// What attackers see who know of the mask.
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
    /// From 0, as addresses have it (`#scene=4`).
    pub fn number(self) -> u8 {
        self as u8
    }

    /// `None` where the lesson has fewer scenes.
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
