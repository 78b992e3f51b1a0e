//! Deletes what the room keeps of one client.

use std::sync::Arc;

use unmask_core::ClientId;
use unmask_recording::Forgotten;

use super::{
    Classroom, checks::Checks, contest::Contest, journaling::Journaling, log::Log, roster::Roster, stage::Stage,
};
use crate::{
    attacks::{Attacks, Pictures},
    recording::Recorder,
};

/// A part of the room that may keep something of a client.
pub(super) trait Forget {
    /// Deletes what it keeps of a client that has left. Numbers that identify nobody may stay.
    fn forget(&mut self, client: ClientId);
}

impl Classroom {
    /// Everything in the relay that may keep something of a client, in no particular order. Each part answers on its
    /// own. A new part does not compile until it is here, or among those that keep nothing.
    pub(super) fn keepers(&mut self) -> [&mut dyn Forget; 9] {
        let Self {
            roster,
            attacks,
            pictures,
            stage,
            contest,
            log,
            recorder,
            journaling,
            checks,
            config: _,
            room: _,
            door: _,
            sharing: _,
            measuring: _,
            history: _,
            summing: _,
            shadow: _,
            outer: _,
            initialiser: _,
            timers: _,
            farewells: _,
            task: _,
            host: _,
            randomness: _,
            now: _,
            published: _,
        } = self;
        [roster, attacks, pictures, stage, contest, log, recorder, journaling, checks]
    }
}

impl Forget for Roster {
    fn forget(&mut self, client: ClientId) {
        Self::forget(self, client);
    }
}

impl Forget for Attacks {
    fn forget(&mut self, client: ClientId) {
        self.left(client, None);
    }
}

impl Forget for Arc<Pictures> {
    fn forget(&mut self, client: ClientId) {
        Pictures::forget(self, |other| other == client);
        self.forget_original(client);
    }
}

impl Forget for Checks {
    fn forget(&mut self, client: ClientId) {
        Self::forget(self, client);
    }
}

impl Forget for Stage {
    fn forget(&mut self, client: ClientId) {
        Self::forget(self, client);
    }
}

impl Forget for Option<Contest> {
    fn forget(&mut self, client: ClientId) {
        if let Some(contest) = self {
            contest.forget(client);
        }
    }
}

impl Forget for Log {
    fn forget(&mut self, client: ClientId) {
        Self::forget(self, client);
    }
}

impl Forget for Recorder {
    fn forget(&mut self, client: ClientId) {
        Self::forget(self, Forgotten::known(client));
    }
}

/// The journal is written from the other parts, so only its old contents have to go.
impl Forget for Journaling {
    fn forget(&mut self, _client: ClientId) {
        self.forgotten();
    }
}
