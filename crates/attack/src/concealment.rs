//! Which attacks say something about an update, by what hides its pictures.

use crate::{Attack, Method};

/// What a defence hides of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concealment {
    /// All entries arrived.
    Nothing,
    /// All entries arrived, those of the position embedding as zeros.
    Positions,
    /// A mask dropped entries.
    Entries,
    /// The embeddings are cipher text.
    Embeddings,
}

impl Concealment {
    /// The methods that say something about an update that hides this, searches last.
    pub fn methods(self) -> Vec<Method> {
        let mut methods: Vec<Method> = Attack::ALL.map(Method::from).into();
        match self {
            Self::Entries => methods.push(Method::Rounds),
            Self::Embeddings => methods.extend([Method::KnownStart, Method::Colluder]),
            Self::Nothing | Self::Positions => {}
        }
        methods.extend(self.searches());
        methods
    }

    /// The searches among them.
    pub fn searches(self) -> &'static [Method] {
        match self {
            Self::Entries => &[Method::MatchingAware, Method::Matching],
            Self::Positions => &[Method::Jigsaw],
            Self::Nothing | Self::Embeddings => &[Method::MatchingAware],
        }
    }
}
