//! What a room holds of everything that strangers can add to, and how much at most.

use super::{Classroom, contest, door, history, log, moderation::MOST_FAREWELLS, roster, stage};
use crate::attacks::MOST_PICTURES;

/// One kind of thing that a room holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub what: &'static str,
    pub count: usize,
    /// The bound on `count`.
    pub most: usize,
}

impl Classroom {
    /// Everything in the room's memory and its journal whose number depends on what clients do.
    pub(crate) fn sizes(&self) -> [Size; 10] {
        let seats = self.config.limits.clients;
        let size = |what, count, most| Size { what, count, most };
        [
            size("clients present", self.roster.present().count(), seats),
            // As many again may come back.
            size("clients", self.roster.iter().count(), 2 * seats),
            size("former clients", self.roster.former(), roster::MOST_FORMER),
            size("bans", self.door.bans(), door::BANS),
            size("log lines", self.log.len(), log::KEPT),
            size("rounds", self.history.len(), history::MAX_ROUNDS),
            size("votes", self.stage.votes(), stage::MAX_VOTERS),
            size("players", self.contest.as_ref().map_or(0, |contest| contest.players()), contest::MOST_PLAYERS),
            size("farewells", self.farewells.len(), MOST_FAREWELLS),
            size("pictures", self.pictures.count(), MOST_PICTURES + 2 * seats),
        ]
    }
}
