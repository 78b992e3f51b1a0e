//! A client of a secure sum. Each state has what it needs to answer the relay's next message, and takes itself away.

use std::fmt;

use hmac::Mac;
use rand::{CryptoRng, RngExt};
use unmask_core::ClientId;
use zeroize::Zeroizing;

use crate::{
    Confirmation, Dealing, Delivery, GroupKey, Member, PublicKeys, Refusal, Revealed, SealedShare, Terms,
    keys::{Purpose, Secret, Sign, apply_mask, confirmation},
    shares::{Held, Kind, commitment, divide, is_share, open, seal},
    terms::{MOST_CLIENTS, hidden},
};

struct Own {
    client: ClientId,
    terms: Terms,
    context: [u8; 32],
    channel: Secret,
    mask: Secret,
}

/// The client has sent its keys and waits for everybody's.
pub struct KeysSent {
    own: Own,
    group: GroupKey,
    keys: PublicKeys,
}

/// The client has sent sealed shares and waits for the others'.
pub struct SharesSent {
    own: Own,
    roster: Vec<Member>,
    least: usize,
    pub(crate) seed: Zeroizing<[u8; 32]>,
    held: Held,
}

/// The client has sent its masked values and waits for the list of clients in the sum.
pub struct ValuesSent {
    own: Own,
    roster: Vec<Member>,
    least: usize,
    /// The clients whose masks are in the values, in order, with the shares from each.
    dealers: Vec<(ClientId, Held)>,
}

/// The client has confirmed the list and waits for the others' confirmations.
pub struct SurvivorsConfirmed {
    sent: ValuesSent,
    survivors: Vec<ClientId>,
}

impl KeysSent {
    /// Draws keys for one sum, which no other sum uses. `weights` is [`hash_of_weights`](crate::hash_of_weights) of the
    /// weights that this client got.
    ///
    /// # Errors
    /// [`Refusal::Weights`]: the terms are of other weights.
    pub fn begin(
        (client, is_robot): (ClientId, bool),
        group: &GroupKey,
        terms: Terms,
        weights: &[u8; 32],
        random: &mut impl CryptoRng,
    ) -> Result<(Self, PublicKeys), Refusal> {
        if terms.weights != *weights {
            return Err(Refusal::Weights);
        }
        let context = terms.context();
        let (channel, mask) = (Secret::draw(random), Secret::draw(random));
        let mut keys = PublicKeys { channel: channel.public(), mask: mask.public(), is_robot, tag: [0; 32] };
        keys.tag = group.tag(&context, client, &keys);
        let own = Own { client, terms, context, channel, mask };
        Ok((Self { own, group: group.clone(), keys }, keys))
    }

    /// Checks everybody's keys, and divides this client's secrets among all.
    ///
    /// # Errors
    /// [`Refusal`]: the list is not in order; keys are changed, not authenticated or twice there; too few clients or people.
    pub fn share(self, roster: &[Member], random: &mut impl CryptoRng) -> Result<(SharesSent, Dealing), Refusal> {
        let Self { mut own, group, keys } = self;
        let (client, terms) = (own.client, own.terms);
        if !roster.is_sorted_by(|a, b| a.client < b.client) {
            return Err(Refusal::Order);
        }
        if roster.len() > MOST_CLIENTS {
            return Err(Refusal::Full);
        }
        if roster.iter().find(|member| member.client == client).map(|member| member.keys) != Some(keys) {
            return Err(Refusal::OwnKeys);
        }
        if let Some(wrong) = roster.iter().find(|member| !group.verifies(&own.context, member.client, &member.keys)) {
            return Err(Refusal::Keys(wrong.client));
        }
        if let Some(client) = same_keys(roster) {
            return Err(Refusal::SameKeys(client));
        }
        let least = terms.least_of(roster);
        enough_people(roster, roster.iter().map(|member| member.client), &terms)?;
        enough(roster.len(), least)?;
        own.context = terms.context_of(roster);
        let context = &own.context;
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(random.random());
        let of_key = divide(own.mask.as_bytes(), least, roster.len(), random);
        let of_seed = divide(&seed, least, roster.len(), random);
        let mut shares = Vec::with_capacity(roster.len());
        let mut own_shares = None;
        for (member, (key, seed)) in roster.iter().zip(of_key.into_iter().zip(of_seed)) {
            let held = Held { key, seed };
            let fixed = |kind, share: &[u8]| commitment(context, client, kind, share);
            let (key, seed) = (fixed(Kind::KeyShare, &held.key), fixed(Kind::SeedShare, &held.seed));
            let sealed = if member.client == client {
                own_shares = Some(held);
                Vec::new()
            } else {
                let channel = own.channel.agree(&member.keys.channel, context, Purpose::Sealing);
                let sealed = channel.and_then(|channel| seal(&channel, context, (client, member.client), &held));
                sealed.ok_or(Refusal::Keys(member.client))?
            };
            shares.push(SealedShare { key, seed, sealed });
        }
        let held = own_shares.ok_or(Refusal::OwnKeys)?;
        let dealing = Dealing { seed: commitment(context, client, Kind::Seed, &*seed), shares };
        Ok((SharesSent { own, roster: roster.to_vec(), least, seed, held }, dealing))
    }
}

impl SharesSent {
    /// Opens the others' shares and masks `values` `[values of the terms]`. What comes out is uniformly random to everybody
    /// who lacks the keys.
    ///
    /// # Errors
    /// [`Refusal`]. [`Refusal::Share`] names a client whose shares do not fit; report it with
    /// [`Message::Complaint`](crate::Message::Complaint).
    pub fn mask(self, deliveries: &[Delivery], mut values: Vec<u32>) -> Result<(ValuesSent, Vec<u32>), Refusal> {
        let Self { own, roster, least, seed, held } = self;
        let Own { client, context, terms, .. } = &own;
        if values.len() != terms.values as usize {
            return Err(Refusal::Length { got: values.len(), expected: terms.values });
        }
        if !deliveries.is_sorted_by(|a, b| a.from < b.from) {
            return Err(Refusal::Order);
        }
        let mut dealers = vec![(*client, held)];
        let place = place_of(&roster, *client)?;
        for Delivery { from, share } in deliveries {
            let dealer = roster.iter().find(|member| member.client == *from && from != client);
            let dealer = dealer.ok_or(Refusal::Stranger(*from))?;
            let channel = own.channel.agree(&dealer.keys.channel, context, Purpose::Sealing);
            let held = channel.and_then(|channel| open(&channel, context, (*from, *client), &share.sealed));
            let held = held.filter(|held| {
                is_share(&held.key, place)
                    && is_share(&held.seed, place)
                    && commitment(context, *from, Kind::KeyShare, &held.key) == share.key
                    && commitment(context, *from, Kind::SeedShare, &held.seed) == share.seed
            });
            dealers.push((*from, held.ok_or(Refusal::Share(*from))?));
            let pair = own.mask.agree(&dealer.keys.mask, context, Purpose::Mask).ok_or(Refusal::Keys(*from))?;
            apply_mask(&mut values, &pair, Sign::between(*client, *from));
        }
        dealers.sort_by_key(|(dealer, _)| *dealer);
        enough(dealers.len(), least)?;
        enough_people(&roster, dealers.iter().map(|(dealer, _)| *dealer), terms)?;
        apply_mask(&mut values, &seed, Sign::Add);
        Ok((ValuesSent { own, roster, least, dealers }, values))
    }
}

impl ValuesSent {
    /// Confirms to each of the others that this client saw this list of clients in the sum.
    ///
    /// # Errors
    /// [`Refusal`]: the list is not in order, has strangers, too few clients or people, or lacks this client.
    pub fn confirm(self, survivors: &[ClientId]) -> Result<(SurvivorsConfirmed, Vec<Confirmation>), Refusal> {
        let Own { client, context, terms, .. } = &self.own;
        if !survivors.is_sorted_by(|a, b| a < b) {
            return Err(Refusal::Order);
        }
        if let Some(stranger) = survivors.iter().find(|one| self.dealers.iter().all(|(dealer, _)| dealer != *one)) {
            return Err(Refusal::Stranger(*stranger));
        }
        if !survivors.contains(client) {
            return Err(Refusal::LeftOut);
        }
        enough(survivors.len(), self.least)?;
        enough_people(&self.roster, survivors.iter().copied(), terms)?;
        let others = members(&self.roster, survivors.iter().copied()).filter(|member| member.client != *client);
        let confirmations = others
            .map(|member| {
                let key = self.own.channel.agree(&member.keys.channel, context, Purpose::Confirmation);
                let key = key.ok_or(Refusal::Keys(member.client))?;
                let tag = confirmation(&key, *client, survivors).finalize().into_bytes().into();
                Ok(Confirmation { client: member.client, tag })
            })
            .collect::<Result<_, _>>()?;
        Ok((SurvivorsConfirmed { survivors: survivors.to_vec(), sent: self }, confirmations))
    }
}

impl SurvivorsConfirmed {
    /// Reveals one share for each client: of the seed of those in the sum, of the key of those that left.
    ///
    /// # Errors
    /// [`Refusal::Unconfirmed`] if too few others saw the same list: a relay that shows different lists could get the sum
    /// of fewer clients.
    pub fn reveal(self, confirmations: &[Confirmation]) -> Result<Revealed, Refusal> {
        let Self { sent: ValuesSent { own, roster, least, dealers }, survivors } = self;
        let mut confirmed: Vec<ClientId> = vec![own.client];
        for Confirmation { client, tag } in confirmations {
            let member = members(&roster, survivors.iter().copied()).find(|member| member.client == *client);
            let Some(member) = member.filter(|_| !confirmed.contains(client)) else { continue };
            let key = own.channel.agree(&member.keys.channel, &own.context, Purpose::Confirmation);
            if key.is_some_and(|key| confirmation(&key, *client, &survivors).verify_slice(tag).is_ok()) {
                confirmed.push(*client);
            }
        }
        if confirmed.len() < least {
            return Err(Refusal::Unconfirmed { got: confirmed.len(), least });
        }
        let mut revealed = Revealed { keys: Vec::new(), seeds: Vec::new() };
        for (dealer, held) in &dealers {
            if survivors.contains(dealer) {
                revealed.seeds.push((*dealer, held.seed.to_vec()));
            } else {
                revealed.keys.push((*dealer, held.key.to_vec()));
            }
        }
        Ok(revealed)
    }
}

/// A client whose keys are an earlier one's, or the same twice.
pub(crate) fn same_keys(roster: &[Member]) -> Option<ClientId> {
    let of = |member: &Member| [member.keys.channel, member.keys.mask];
    roster.iter().enumerate().find_map(|(at, member)| {
        let [channel, mask] = of(member);
        let earlier = || roster[..at].iter().flat_map(of);
        let is_twice = channel == mask || earlier().any(|key| key == channel || key == mask);
        is_twice.then_some(member.client)
    })
}

/// The members with these numbers, in the roster's order.
fn members(roster: &[Member], clients: impl Iterator<Item = ClientId> + Clone) -> impl Iterator<Item = &Member> {
    roster.iter().filter(move |member| clients.clone().any(|client| client == member.client))
}

fn place_of(roster: &[Member], client: ClientId) -> Result<usize, Refusal> {
    roster.iter().position(|member| member.client == client).ok_or(Refusal::Stranger(client))
}

fn enough(got: usize, least: usize) -> Result<(), Refusal> {
    if got < least { Err(Refusal::TooFew { got, least }) } else { Ok(()) }
}

fn enough_people(roster: &[Member], clients: impl Iterator<Item = ClientId>, terms: &Terms) -> Result<(), Refusal> {
    let (got, least) = (hidden(roster, clients), terms.people());
    if got < least { Err(Refusal::TooFewPeople { got, least }) } else { Ok(()) }
}

macro_rules! without_secrets {
    ($($state:ident),+) => {
        $(
            /// Shows no secret.
            impl fmt::Debug for $state {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($state)).finish_non_exhaustive()
                }
            }
        )+
    };
}
without_secrets!(KeysSent, SharesSent, ValuesSent, SurvivorsConfirmed);
