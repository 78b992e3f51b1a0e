//! The relay of a secure sum.

use std::{collections::BTreeMap, mem};

use unmask_core::ClientId;

use crate::{
    Confirmation, Dealing, Delivery, Member, Message, Refusal, Revealed, SealedShare, Terms, Void,
    client::same_keys,
    keys::{Purpose, Secret, Sign, apply_mask},
    shares::{Kind, SEALED, combine, commitment, is_share},
    terms::{MOST_CLIENTS, hidden},
};

/// A secure sum at the relay: takes the clients' messages phase by phase, and undoes the masks at the end.
#[derive(Debug, Clone)]
pub struct SecureSum {
    terms: Terms,
    context: [u8; 32],
    phase: Phase,
    /// All clients whose keys were given out, in order.
    roster: Vec<Member>,
    /// What each client dealt, in order.
    dealings: BTreeMap<ClientId, Dealing>,
    /// The sum of masked values.
    sum: Vec<u32>,
    /// Clients in the sum, in order.
    survivors: Vec<ClientId>,
    /// Clients that are gone.
    left: Vec<ClientId>,
    /// Who complained about whose shares.
    complaints: Vec<(ClientId, ClientId)>,
    /// Clients whose revealed shares are not those they hold.
    liars: Vec<ClientId>,
}

#[derive(Debug, Clone)]
enum Phase {
    Keys(BTreeMap<ClientId, Member>),
    Shares,
    Values,
    Confirmations(BTreeMap<ClientId, Vec<Confirmation>>),
    Revealed(BTreeMap<ClientId, Revealed>),
    Ended,
}

/// What the relay sends when a phase ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// To everybody in it: ask for shares.
    Roster(Vec<Member>),
    /// To each client its shares: ask for values.
    Deliveries(Vec<(ClientId, Vec<Delivery>)>),
    /// To everybody in it: ask for confirmations.
    Survivors(Vec<ClientId>),
    /// To each client the others' confirmations: ask for shares that undo masks.
    Confirmations(Vec<(ClientId, Vec<Confirmation>)>),
    /// The sum is known.
    Sum(Sum),
}

/// The sum of the clients' values.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// Mod 2^32, `[values of the terms]`.
    pub values: Vec<u32>,
    /// Whose values are in it.
    pub clients: Vec<ClientId>,
    /// Clients that revealed other shares than they hold.
    pub liars: Vec<ClientId>,
    /// Who complained about whose shares, and left for it. One of the two lies.
    pub complaints: Vec<(ClientId, ClientId)>,
}

impl SecureSum {
    pub fn new(terms: Terms) -> Self {
        Self {
            context: terms.context(),
            terms,
            phase: Phase::Keys(BTreeMap::new()),
            roster: Vec::new(),
            dealings: BTreeMap::new(),
            sum: vec![0; terms.values as usize],
            survivors: Vec::new(),
            left: Vec::new(),
            complaints: Vec::new(),
            liars: Vec::new(),
        }
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Who complained about whose keys or shares, and left for it, so far. One of the two lies, or has another passphrase.
    pub fn complaints(&self) -> &[(ClientId, ClientId)] {
        &self.complaints
    }

    /// Takes a message. What is refused changes nothing, except that a client whose revealed shares are wrong is counted
    /// as a liar and has answered.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn take(&mut self, client: ClientId, message: Message) -> Result<(), Refusal> {
        if self.left.contains(&client) {
            return Err(Refusal::Stranger(client));
        }
        if let Message::Complaint(about) = message {
            self.expects(client)?;
            self.place(about)?;
            if about == client {
                return Err(Refusal::WrongShares);
            }
            self.complaints.push((client, about));
            self.left.push(client);
            return Ok(());
        }
        if !matches!(message, Message::Keys(_)) {
            self.expects(client)?;
        }
        match (&mut self.phase, message) {
            (Phase::Keys(members), Message::Keys(keys)) => {
                if members.contains_key(&client) {
                    return Err(Refusal::Again(client));
                }
                if members.len() >= MOST_CLIENTS {
                    return Err(Refusal::Full);
                }
                let mut all: Vec<Member> = members.values().copied().collect();
                let member = Member { client, keys };
                all.push(member);
                if let Some(same) = same_keys(&all) {
                    return Err(Refusal::SameKeys(same));
                }
                members.insert(client, member);
                Ok(())
            }
            (Phase::Shares, Message::Dealing(dealing)) => {
                let fits = |(member, share): (&Member, &SealedShare)| {
                    share.sealed.len() == if member.client == client { 0 } else { SEALED }
                };
                let is_whole = dealing.shares.len() == self.roster.len();
                if !is_whole || !self.roster.iter().zip(&dealing.shares).all(fits) {
                    return Err(Refusal::WrongShares);
                }
                self.dealings.insert(client, dealing);
                Ok(())
            }
            (Phase::Values, Message::Values(values)) => {
                if values.len() != self.sum.len() {
                    return Err(Refusal::Length { got: values.len(), expected: self.terms.values });
                }
                self.sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
                self.survivors.push(client);
                self.survivors.sort_unstable();
                Ok(())
            }
            (Phase::Confirmations(all), Message::Confirmations(confirmations)) => {
                if confirmations.len() > self.survivors.len() {
                    return Err(Refusal::WrongShares);
                }
                all.insert(client, confirmations);
                Ok(())
            }
            (Phase::Revealed(_), Message::Revealed(revealed)) => {
                let checked = self.check_revealed(client, &revealed);
                if checked.is_err() {
                    self.liars.push(client);
                    self.left.push(client);
                }
                checked?;
                if let Phase::Revealed(all) = &mut self.phase {
                    all.insert(client, revealed);
                }
                Ok(())
            }
            _ => Err(Refusal::Phase),
        }
    }

    /// A client's connection is gone: the sum does not wait for it.
    pub fn leave(&mut self, client: ClientId) {
        match &mut self.phase {
            Phase::Keys(members) => {
                members.remove(&client);
            }
            _ if !self.left.contains(&client) => self.left.push(client),
            _ => {}
        }
    }

    /// The clients whose answers this phase waits for. None while keys come in: the caller knows who should send them.
    pub fn waits_for(&self) -> Vec<ClientId> {
        let all: Vec<ClientId> = match &self.phase {
            Phase::Keys(_) | Phase::Ended => Vec::new(),
            Phase::Shares => self.roster.iter().map(|member| member.client).collect(),
            Phase::Values => self.dealings.keys().copied().collect(),
            Phase::Confirmations(_) | Phase::Revealed(_) => self.survivors.clone(),
        };
        all.into_iter().filter(|client| !self.left.contains(client) && !self.has_answered(*client)).collect()
    }

    /// Whether nobody has masked anything yet, too few clients stay for a result, and only accused ones have not answered.
    pub fn is_lost(&self) -> bool {
        let stays = |member: &&Member| !self.left.contains(&member.client);
        let is_accused = |client: &ClientId| self.complaints.iter().any(|(_, about)| about == client);
        matches!(self.phase, Phase::Shares)
            && self.roster.iter().filter(stays).count() < self.least()
            && self.waits_for().iter().all(is_accused)
    }

    fn has_answered(&self, client: ClientId) -> bool {
        match &self.phase {
            Phase::Keys(members) => members.contains_key(&client),
            Phase::Shares => self.dealings.contains_key(&client),
            Phase::Values => self.survivors.contains(&client),
            Phase::Confirmations(all) => all.contains_key(&client),
            Phase::Revealed(all) => all.contains_key(&client),
            Phase::Ended => true,
        }
    }

    /// Whether this phase wants something of the client.
    fn expects(&self, client: ClientId) -> Result<(), Refusal> {
        let may_answer = match &self.phase {
            Phase::Keys(_) | Phase::Ended => return Err(Refusal::Phase),
            Phase::Shares => self.place(client).is_ok(),
            Phase::Values => self.dealings.contains_key(&client),
            Phase::Confirmations(_) | Phase::Revealed(_) => self.survivors.contains(&client),
        };
        match may_answer {
            false => Err(Refusal::Stranger(client)),
            true if self.has_answered(client) => Err(Refusal::Again(client)),
            true => Ok(()),
        }
    }

    fn place(&self, client: ClientId) -> Result<usize, Refusal> {
        self.roster.iter().position(|member| member.client == client).ok_or(Refusal::Stranger(client))
    }

    fn least(&self) -> usize {
        self.terms.least_of(&self.roster)
    }

    fn enough(&self, clients: &[ClientId]) -> Result<(), Void> {
        let least = self.least();
        if clients.len() < least {
            return Err(Void::TooFew { got: clients.len(), least });
        }
        let (got, least) = (hidden(&self.roster, clients.iter().copied()), self.terms.people());
        if got < least { Err(Void::TooFewPeople { got, least }) } else { Ok(()) }
    }

    /// Ends a phase with the answers that came. The sum is over after [`Next::Sum`] and after an error.
    ///
    /// # Errors
    /// [`Void`]: too few clients stayed, or one divided another secret than it announced.
    pub fn close_phase(&mut self) -> Result<Next, Void> {
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Keys(members) => {
                self.roster = members.into_values().collect();
                self.context = self.terms.context_of(&self.roster);
                let all: Vec<ClientId> = self.roster.iter().map(|member| member.client).collect();
                self.enough(&all)?;
                self.phase = Phase::Shares;
                Ok(Next::Roster(self.roster.clone()))
            }
            Phase::Shares => {
                // Nobody has masked anything for a client that left so early.
                self.dealings.retain(|client, _| !self.left.contains(client));
                let dealers: Vec<ClientId> = self.dealings.keys().copied().collect();
                self.enough(&dealers)?;
                self.phase = Phase::Values;
                Ok(Next::Deliveries(dealers.into_iter().map(|client| (client, self.deliveries(client))).collect()))
            }
            Phase::Values => {
                self.enough(&self.survivors)?;
                self.phase = Phase::Confirmations(BTreeMap::new());
                Ok(Next::Survivors(self.survivors.clone()))
            }
            Phase::Confirmations(all) => {
                let confirmed: Vec<ClientId> = all.keys().copied().collect();
                let least = self.least();
                if confirmed.len() < least {
                    return Err(Void::TooFew { got: confirmed.len(), least });
                }
                let to = |reader: ClientId| {
                    let from = |(by, made): (&ClientId, &Vec<Confirmation>)| {
                        let made = made.iter().find(|made| made.client == reader)?;
                        Some(Confirmation { client: *by, tag: made.tag })
                    };
                    (reader, all.iter().filter_map(from).collect())
                };
                let confirmations = confirmed.iter().copied().map(to).collect();
                // Who did not confirm has no reason to reveal anything.
                self.left.extend(self.survivors.iter().filter(|client| !confirmed.contains(client)));
                self.phase = Phase::Revealed(BTreeMap::new());
                Ok(Next::Confirmations(confirmations))
            }
            Phase::Revealed(all) => self.unmask(&all).map(Next::Sum),
            Phase::Ended => Err(Void::TooFew { got: 0, least: self.least() }),
        }
    }

    fn deliveries(&self, to: ClientId) -> Vec<Delivery> {
        let Ok(place) = self.place(to) else { return Vec::new() };
        let others = self.dealings.iter().filter(|(from, _)| **from != to);
        others.map(|(from, dealing)| Delivery { from: *from, share: dealing.shares[place].clone() }).collect()
    }

    /// Each share is the one that its dealer fixed for this holder.
    fn check_revealed(&self, holder: ClientId, revealed: &Revealed) -> Result<(), Refusal> {
        let place = self.place(holder)?;
        let (seeds, keys): (Vec<ClientId>, Vec<ClientId>) =
            self.dealings.keys().partition(|dealer| self.survivors.contains(dealer));
        let listed = |shares: &[(ClientId, Vec<u8>)]| shares.iter().map(|(dealer, _)| *dealer).collect::<Vec<_>>();
        if listed(&revealed.seeds) != seeds || listed(&revealed.keys) != keys {
            return Err(Refusal::WrongShares);
        }
        let is_fixed = |kind, dealer: &ClientId, share: &[u8]| {
            let Some(dealt) = self.dealings.get(dealer).and_then(|dealing| dealing.shares.get(place)) else {
                return false;
            };
            let fixed = if kind == Kind::KeyShare { dealt.key } else { dealt.seed };
            is_share(share, place) && commitment(&self.context, *dealer, kind, share) == fixed
        };
        let fits = revealed.seeds.iter().all(|(dealer, share)| is_fixed(Kind::SeedShare, dealer, share))
            && revealed.keys.iter().all(|(dealer, share)| is_fixed(Kind::KeyShare, dealer, share));
        if fits { Ok(()) } else { Err(Refusal::WrongShares) }
    }

    fn unmask(&mut self, revealed: &BTreeMap<ClientId, Revealed>) -> Result<Sum, Void> {
        let least = self.least();
        if revealed.len() < least {
            return Err(Void::TooFew { got: revealed.len(), least });
        }
        let mut sum = mem::take(&mut self.sum);
        let context = &self.context;
        for (dealer, dealing) in &self.dealings {
            let is_in = self.survivors.contains(dealer);
            let of_dealer = |one: &Revealed| {
                let shares = if is_in { &one.seeds } else { &one.keys };
                shares.iter().find(|(client, _)| client == dealer).map(|(_, share)| share.clone())
            };
            let shares: Vec<Vec<u8>> = revealed.values().filter_map(of_dealer).collect();
            let secret = combine(&shares, least).ok_or(Void::Dealer(*dealer))?;
            if is_in {
                if commitment(context, *dealer, Kind::Seed, &*secret) != dealing.seed {
                    return Err(Void::Dealer(*dealer));
                }
                apply_mask(&mut sum, &secret, Sign::Subtract);
                continue;
            }
            let secret = Secret::from_bytes(*secret);
            let member = self.roster.iter().find(|member| member.client == *dealer);
            if member.map(|member| member.keys.mask) != Some(secret.public()) {
                return Err(Void::Dealer(*dealer));
            }
            for survivor in self.roster.iter().filter(|member| self.survivors.contains(&member.client)) {
                let pair = secret.agree(&survivor.keys.mask, context, Purpose::Mask).ok_or(Void::Dealer(*dealer))?;
                apply_mask(&mut sum, &pair, Sign::between(survivor.client, *dealer).opposite());
            }
        }
        Ok(Sum {
            values: sum,
            clients: mem::take(&mut self.survivors),
            liars: mem::take(&mut self.liars),
            complaints: self.complaints.clone(),
        })
    }
}
