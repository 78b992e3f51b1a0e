//! A round in which the server learns only the sum of the updates.

use unmask_core::{Defence, ParamLayout, SecureSumSettings};
use unmask_defence::ProtectedUpdate;
use unmask_federation::Quorum;
use unmask_secagg::{
    FixedPointError, GroupKey, MeanOfSum, SumEncoding, SumError, Terms, hash_of_weights, sum_in_one_process,
};

use crate::seeds::Seeds;

/// Why the updates of a round could not be added up.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SecureRoundError {
    #[error(transparent)]
    FixedPoint(#[from] FixedPointError),
    #[error(transparent)]
    Sum(#[from] SumError),
}

/// How clients prepare their updates for the sum. None of them leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecureRound {
    settings: SecureSumSettings,
    encoding: SumEncoding,
}

impl SecureRound {
    pub(crate) fn new(settings: SecureSumSettings, defence: Defence, clients: usize) -> Result<Self, SecureRoundError> {
        Ok(Self { settings, encoding: SumEncoding::new(settings, defence, clients, clients)? })
    }

    /// The defence of each client: its share of the noise.
    pub(crate) fn defence(&self) -> Defence {
        self.encoding.defence()
    }

    /// The mean of the clients' `updates` of `layout`: gradients, or weights whose change from `reference` `[P]` is added
    /// up. Every client counts alike. `weights` `[P]` are those that the clients got.
    ///
    /// # Errors
    /// A value is not finite, or the sum is beyond what its bound allows.
    pub(crate) fn mean(
        &self,
        updates: Vec<ProtectedUpdate>,
        layout: &ParamLayout,
        reference: Option<&[f32]>,
        weights: &[f32],
        (seeds, round): (Seeds, u32),
    ) -> Result<MeanOfSum, SecureRoundError> {
        let encoded = updates.into_iter().map(|update| self.encoding.encode(update, layout, reference));
        let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&seeds.bytes("secure sum", round.into(), 0)[..16]);
        let terms = Terms {
            nonce,
            round,
            policy: 1,
            weights: hash_of_weights(weights),
            values: u32::try_from(weights.len()).unwrap_or(u32::MAX),
            threshold: self.settings.threshold,
            people: Quorum::HIDES,
        };
        let group = GroupKey::new(seeds.bytes("class key", 0, 0));
        let sum = sum_in_one_process(terms, &group, encoded, &mut seeds.rng("secure sum", round.into(), 1))?;
        Ok(self.encoding.mean(&sum.values, sum.clients.len(), reference)?)
    }
}
