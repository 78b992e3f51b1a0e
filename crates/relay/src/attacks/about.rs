//! Which update a result is of.

use unmask_core::{ClientId, Defence, Rule};

/// Which update a result is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct About {
    /// Tells the models of one room apart; results for an earlier one are not shown.
    pub(crate) epoch: u64,
    /// Counts the updates under attack: a result of a newer one is never replaced by that of an older.
    pub(crate) serial: u64,
    /// Counts how often the teacher had rounds gathered anew.
    pub(crate) gathering: u64,
    /// Who sent it.
    pub(crate) client: ClientId,
    /// The round.
    pub(crate) round: u32,
    /// The defence it was made under.
    pub(crate) defence: Defence,
    /// The rule it was made under.
    pub(crate) rule: Rule,
    /// Pictures in it, by what the client said.
    pub(crate) samples: u32,
}
