//! A whole sum in one process.

use std::collections::BTreeMap;

use rand::CryptoRng;
use unmask_core::ClientId;

use crate::{GroupKey, KeysSent, Message, Next, Refusal, SecureSum, Sum, Terms, Void};

/// Why a sum in one process has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SumError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Void(#[from] Void),
}

/// Plays client and relay for every client's `values`, `[values of the terms]` each, with the messages that devices would
/// send. Clients are numbered in order, and none leaves.
///
/// # Errors
/// [`SumError`], if there are too few or too many clients, or they differ in length.
pub fn sum_in_one_process(
    terms: Terms,
    group: &GroupKey,
    values: Vec<Vec<u32>>,
    random: &mut impl CryptoRng,
) -> Result<Sum, SumError> {
    let mut relay = SecureSum::new(terms);
    let mut waiting = Vec::with_capacity(values.len());
    for (number, values) in (0..).zip(values) {
        let client = ClientId(number);
        let (sent, keys) = KeysSent::begin((client, false), group, terms, &terms.weights, random)?;
        relay.take(client, Message::Keys(keys))?;
        waiting.push((client, sent, values));
    }
    let Next::Roster(roster) = relay.close_phase()? else { return Err(Refusal::Phase.into()) };
    let mut dealt = Vec::with_capacity(waiting.len());
    for (client, sent, values) in waiting {
        let (sent, dealing) = sent.share(&roster, random)?;
        relay.take(client, Message::Dealing(dealing))?;
        dealt.push((client, sent, values));
    }
    let Next::Deliveries(deliveries) = relay.close_phase()? else { return Err(Refusal::Phase.into()) };
    let mut deliveries: BTreeMap<_, _> = deliveries.into_iter().collect();
    let mut masked = Vec::with_capacity(dealt.len());
    for (client, sent, values) in dealt {
        let (sent, values) = sent.mask(&deliveries.remove(&client).unwrap_or_default(), values)?;
        relay.take(client, Message::Values(values))?;
        masked.push((client, sent));
    }
    let Next::Survivors(survivors) = relay.close_phase()? else { return Err(Refusal::Phase.into()) };
    let mut confirmed = BTreeMap::new();
    for (client, sent) in masked {
        let (sent, confirmations) = sent.confirm(&survivors)?;
        relay.take(client, Message::Confirmations(confirmations))?;
        confirmed.insert(client, sent);
    }
    let Next::Confirmations(confirmations) = relay.close_phase()? else { return Err(Refusal::Phase.into()) };
    for (client, confirmations) in confirmations {
        let sent = confirmed.remove(&client).ok_or(Refusal::Stranger(client))?;
        relay.take(client, Message::Revealed(sent.reveal(&confirmations)?))?;
    }
    match relay.close_phase()? {
        Next::Sum(sum) => Ok(sum),
        _ => Err(Refusal::Phase.into()),
    }
}
