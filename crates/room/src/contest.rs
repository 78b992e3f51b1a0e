//! The game in which students attack each other's masked updates: who lends, who gets whose update, and the points.
//!
//! The updates are here only while the question is open, and nowhere else: not in the journal, the log or the recording.

use std::{collections::BTreeSet, sync::Arc};

use rand::{SeedableRng, seq::IndexedRandom, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use unmask_core::ClientId;
use unmask_lesson::MAX_LENT_PARAMETERS;
use unmask_wire::{
    LoanHeader,
    view::{PodiumView, WinnerView},
};

/// Points for finding the owner before and after asking for the gaps.
const BEFORE: u8 = 2;
const AFTER: u8 = 1;
/// People named on the podium.
const STEPS: usize = 3;
/// Upper limit of clients that play in one game. It counts those that have left.
pub(super) const MOST_PLAYERS: usize = 1000;

/// An update that its owner lends.
#[derive(Debug)]
pub(super) struct Lent {
    owner: ClientId,
    pub(super) header: LoanHeader,
    pub(super) values: Vec<f32>,
}

/// What a client gets: an update, or word that there is none for it.
#[derive(Debug)]
pub(super) struct Dealt {
    pub(super) to: ClientId,
    pub(super) loan: Option<Arc<Lent>>,
}

/// A result for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) client: ClientId,
    /// Position among the suspects.
    pub(super) owner: u16,
    pub(super) points: u8,
}

/// A person who attacks another's update.
#[derive(Debug)]
struct Player {
    client: ClientId,
    /// Whose update it has.
    owner: Option<ClientId>,
    knows_gaps: bool,
    /// The last guess without knowledge of the gaps.
    before: Option<u16>,
    guess: Option<Guess>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess {
    answer: u16,
    knew_gaps: bool,
    /// Counts the guesses of the class.
    number: u32,
}

/// The game, for one question.
#[derive(Debug)]
pub(super) struct Contest {
    poll: u32,
    suspects: Vec<ClientId>,
    /// The last round that began before the question.
    earlier: u32,
    /// Of one round, in the order of arrival.
    lent: Vec<Arc<Lent>>,
    /// Clients that have withdrawn theirs. Borrowers that are away learn it when they come back.
    withdrawn: BTreeSet<ClientId>,
    players: Vec<Player>,
    /// Whether the updates of a round were handed out; later rounds change nothing.
    is_dealt: bool,
    /// Whether a round brought nothing to hand out.
    was_empty: bool,
    is_open: bool,
    is_told: bool,
    guesses: u32,
    random: ChaCha8Rng,
}

impl Contest {
    /// A game about the updates of rounds after `earlier`. `seed` must be unpredictable.
    pub(super) fn new(poll: u32, suspects: Vec<ClientId>, earlier: u32, seed: u64) -> Self {
        Self {
            poll,
            suspects,
            earlier,
            lent: Vec::new(),
            withdrawn: BTreeSet::new(),
            players: Vec::new(),
            is_dealt: false,
            was_empty: false,
            is_open: true,
            is_told: false,
            guesses: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    pub(super) fn poll(&self) -> u32 {
        self.poll
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the game waits for this client's update of this round.
    pub(super) fn wants(&self, client: ClientId, round: u32, values: usize) -> bool {
        let is_due = self.is_open && !self.is_dealt && round > self.earlier;
        is_due && values <= MAX_LENT_PARAMETERS && self.suspects.contains(&client)
    }

    /// Takes an update that the room has accepted.
    pub(super) fn take(&mut self, owner: ClientId, header: LoanHeader, values: Vec<f32>) {
        self.lent.retain(|lent| lent.header.round == header.round && lent.owner != owner);
        self.withdrawn.remove(&owner);
        self.lent.push(Arc::new(Lent { owner, header, values }));
    }

    /// Another model begins, whose rounds count from 1.
    pub(super) fn forget_model(&mut self) {
        if !self.is_dealt {
            self.earlier = 0;
            self.lent.clear();
        }
    }

    /// A round has closed: hands its updates to these people, or tells them that there is none. `None` if this round
    /// changes nothing.
    pub(super) fn closed(&mut self, round: u32, people: &[ClientId]) -> Option<Vec<Dealt>> {
        if !self.is_open || self.is_dealt || round <= self.earlier {
            return None;
        }
        self.lent.retain(|lent| lent.header.round == round);
        self.is_dealt = !self.lent.is_empty();
        self.was_empty = !self.is_dealt;
        if self.was_empty {
            return Some(people.iter().map(|&to| Dealt { to, loan: None }).collect());
        }
        self.players.clear();
        let mut people = people.to_vec();
        people.shuffle(&mut self.random);
        // Lenders cannot get every update, so they choose first and the others fill up evenly.
        people.sort_by_key(|client| !self.lent.iter().any(|lent| lent.owner == *client));
        Some(people.into_iter().map(|client| self.deal(client)).collect())
    }

    /// A person has joined or come back: the update for it, if updates were handed out, or word that there is none or
    /// that the one it had was withdrawn.
    pub(super) fn joined(&mut self, client: ClientId) -> Option<Dealt> {
        if self.is_open && self.is_dealt {
            return Some(self.deal(client));
        }
        let mut players = self.players.iter();
        let had = players.find(|player| player.client == client).and_then(|player| player.owner);
        let keeps_it = had.is_some_and(|owner| !self.withdrawn.contains(&owner));
        let is_over = if self.is_open { self.was_empty } else { !keeps_it };
        is_over.then_some(Dealt { to: client, loan: None })
    }

    /// Drops the update of a client that lends no more. Those who had it get another one, if the question is open.
    pub(super) fn withdraw(&mut self, owner: ClientId) -> Vec<Dealt> {
        self.lent.retain(|lent| lent.owner != owner);
        if self.suspects.contains(&owner) {
            self.withdrawn.insert(owner);
        }
        let had_it = self.players.iter().filter(|player| player.owner == Some(owner));
        let borrowers: Vec<ClientId> = had_it.map(|player| player.client).collect();
        let again = |client: ClientId| {
            if self.is_open {
                self.players.retain(|player| player.client != client);
                self.deal(client)
            } else {
                Dealt { to: client, loan: None }
            }
        };
        borrowers.into_iter().map(again).collect()
    }

    /// Gives a client the update that it has already, or else one that fewest have, never its own.
    fn deal(&mut self, client: ClientId) -> Dealt {
        let player = self.players.iter().find(|player| player.client == client);
        if player.is_none() && self.players.len() >= MOST_PLAYERS {
            return Dealt { to: client, loan: None };
        }
        let had = player.and_then(|player| player.owner);
        let count = |owner| self.players.iter().filter(|player| player.owner == Some(owner)).count();
        let others = || self.lent.iter().filter(|lent| lent.owner != client);
        let fewest = others().map(|lent| count(lent.owner)).min();
        let kept = others().find(|lent| Some(lent.owner) == had);
        let loan = kept.cloned().or_else(|| {
            let rare: Vec<&Arc<Lent>> = others().filter(|lent| Some(count(lent.owner)) == fewest).collect();
            rare.choose(&mut self.random).map(|lent| Arc::clone(lent))
        });
        let owner = loan.as_ref().map(|lent| lent.owner);
        if had.is_none() || had != owner {
            self.players.retain(|player| player.client != client);
            self.players.push(Player { client, owner, knows_gaps: false, before: None, guess: None });
        }
        Dealt { to: client, loan }
    }

    /// Number of clients that play.
    pub(super) fn players(&self) -> usize {
        self.players.len()
    }

    /// A student asks what one sees who knows the gaps.
    pub(super) fn know_gaps(&mut self, client: ClientId, poll: u32) {
        let is_it = self.is_open && self.poll == poll;
        if let Some(player) = self.players.iter_mut().find(|player| is_it && player.client == client) {
            player.knows_gaps = true;
        }
    }

    /// Notes a vote that counts. The same guess again stays as old as it was.
    pub(super) fn guess(&mut self, client: ClientId, poll: u32, answer: u16) {
        let is_it = self.is_open && self.poll == poll;
        let Some(player) = self.players.iter_mut().find(|player| is_it && player.client == client) else { return };
        if player.guess.is_some_and(|guess| guess.answer == answer) {
            return;
        }
        self.guesses = self.guesses.saturating_add(1);
        player.guess = Some(Guess { answer, knew_gaps: player.knows_gaps, number: self.guesses });
        if !player.knows_gaps {
            player.before = Some(answer);
        }
    }

    /// The question is closed: drops the updates.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        self.lent.clear();
    }

    /// The lesson tells the answer: everybody's result, the first time.
    pub(super) fn tell(&mut self) -> Vec<Score> {
        if std::mem::replace(&mut self.is_told, true) {
            return Vec::new();
        }
        self.players.iter().filter_map(|player| self.score(player)).collect()
    }

    /// The result of a client that comes back after the others were told.
    pub(super) fn told(&self, client: ClientId) -> Option<Score> {
        let player = self.players.iter().find(|player| player.client == client)?;
        self.is_told.then(|| self.score(player)).flatten()
    }

    /// Who found the most, and how many found the owner. `nickname` knows the clients that the room still has.
    pub(super) fn podium(&self, nickname: impl Fn(ClientId) -> Option<String>) -> Option<PodiumView> {
        if !self.is_told {
            return None;
        }
        let attackers: Vec<(&Player, Guess, Score)> =
            self.players.iter().filter_map(|it| Some((it, it.guess?, self.score(it)?))).collect();
        let count = |is_one: &dyn Fn(&Player, Score) -> bool| {
            number(attackers.iter().filter(|(player, _, score)| is_one(player, *score)).count())
        };
        let mut best: Vec<(Guess, Score, String)> = attackers
            .iter()
            .filter(|(_, _, score)| score.points > 0)
            .filter_map(|(_, guess, score)| Some((*guess, *score, nickname(score.client)?)))
            .collect();
        best.sort_by_key(|(guess, score, _)| (std::cmp::Reverse(score.points), guess.number));
        let place = |points| 1 + number(best.iter().filter(|(_, score, _)| score.points > points).count());
        let winner = |(_, score, nickname): &(Guess, Score, String)| WinnerView {
            client: score.client,
            nickname: nickname.clone(),
            place: place(score.points),
            points: score.points,
        };
        let winners: Vec<WinnerView> = best.iter().take(STEPS).map(winner).collect();
        let least = winners.last().map(|winner| winner.points);
        let others = best.iter().skip(STEPS).filter(|(_, score, _)| Some(score.points) == least).count();
        Some(PodiumView {
            winners,
            others: number(others),
            attackers: number(attackers.len()),
            found_before: count(&|player, score| player.before == Some(score.owner)),
            found: count(&|_, score| score.points > 0),
            suspects: number(self.suspects.len()),
        })
    }

    /// Deletes what it has of a client. The others' results stay.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.lent.retain(|lent| lent.owner != client);
        self.players.retain(|player| player.client != client);
    }

    fn score(&self, player: &Player) -> Option<Score> {
        let owner = self.suspects.iter().position(|suspect| Some(*suspect) == player.owner)?;
        let owner = u16::try_from(owner).ok()?;
        let points = match player.guess.filter(|guess| guess.answer == owner) {
            Some(Guess { knew_gaps: false, .. }) => BEFORE,
            Some(_) => AFTER,
            None => 0,
        };
        Some(Score { client: player.client, owner, points })
    }
}

impl Lent {
    pub(super) fn owner(&self) -> ClientId {
        self.owner
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, Defence, MaskSeed, Rule, UpdateForm, VitPreset};

    use super::*;

    const LENDERS: [u32; 4] = [1, 2, 3, 4];

    fn ids(clients: impl IntoIterator<Item = u32>) -> Vec<ClientId> {
        clients.into_iter().map(ClientId).collect()
    }

    fn header(round: u32) -> LoanHeader {
        let rates = "0.5".parse().unwrap();
        LoanHeader {
            poll: 7,
            round,
            model: Architecture::from(VitPreset::Pico).into(),
            defence: Defence::RandomBinary { rates },
            rule: Rule::FedSgd,
            batch: 1,
            samples: 1,
            form: UpdateForm::Masked { seed: MaskSeed([0; 32]), rates },
        }
    }

    /// A game in which these lenders' updates of round 6 have arrived.
    fn lent(lenders: &[u32], seed: u64) -> Contest {
        let mut contest = Contest::new(7, ids(lenders.iter().copied()), 5, seed);
        for &lender in lenders {
            assert!(contest.wants(ClientId(lender), 6, 10));
            contest.take(ClientId(lender), header(6), vec![lender as f32]);
        }
        contest
    }

    /// Whose update each of these people gets.
    fn dealt(contest: &mut Contest, people: impl IntoIterator<Item = u32>) -> Vec<(u32, Option<u32>)> {
        let dealt = contest.closed(6, &ids(people)).unwrap();
        dealt.iter().map(|dealt| (dealt.to.0, dealt.loan.as_ref().map(|lent| lent.owner.0))).collect()
    }

    #[test]
    fn everybody_gets_another_ones_update_and_each_update_goes_to_as_many() {
        for seed in 0..50 {
            let dealt = dealt(&mut lent(&LENDERS, seed), 1..=20);
            assert_eq!(dealt.len(), 20);
            assert!(dealt.iter().all(|(to, owner)| owner.is_some_and(|owner| owner != *to)), "{dealt:?}");
            let counts = LENDERS.map(|lender| dealt.iter().filter(|(_, owner)| *owner == Some(lender)).count());
            assert_eq!(counts, [5; 4], "seed {seed}");
        }
        let first = |seed| dealt(&mut lent(&LENDERS, seed), 5..=12).into_iter().find(|(to, _)| *to == 5);
        assert!((1..20).any(|seed| first(seed) != first(0)), "the same update for the first, whatever the seed");
    }

    #[test]
    fn only_the_round_after_the_question_is_lent() {
        let mut contest = Contest::new(7, ids(LENDERS), 5, 0);
        assert!(!contest.wants(ClientId(1), 5, 10), "it began before");
        assert!(!contest.wants(ClientId(9), 6, 10), "it is no suspect");
        assert!(!contest.wants(ClientId(1), 6, MAX_LENT_PARAMETERS + 1), "no phone can attack it");
        assert!(contest.closed(5, &ids([8])).is_none());
        let nothing = contest.closed(6, &ids([8])).unwrap();
        assert!(nothing.iter().all(|dealt| dealt.loan.is_none()) && nothing.len() == 1, "nobody has sent anything");
        assert!(contest.joined(ClientId(9)).is_some_and(|dealt| dealt.loan.is_none()), "a newcomer learns it too");
        contest.take(ClientId(1), header(7), vec![1.0]);
        contest.take(ClientId(2), header(8), vec![2.0]);
        let dealt = contest.closed(8, &ids([8])).unwrap();
        assert_eq!(dealt[0].loan.as_ref().map(|lent| lent.owner), Some(ClientId(2)), "round 7 never closed");
        assert!(!contest.wants(ClientId(1), 9, 10) && contest.closed(9, &ids([8])).is_none());
    }

    #[test]
    fn who_comes_later_gets_one_and_who_comes_back_the_same() {
        let mut contest = lent(&[1, 2], 3);
        assert!(contest.joined(ClientId(8)).is_none(), "before the round has closed");
        let own = dealt(&mut contest, [1, 5]);
        assert_eq!(own.iter().find(|(to, _)| *to == 1), Some(&(1, Some(2))));
        let again = contest.joined(ClientId(5)).unwrap().loan.map(|lent| lent.owner.0);
        assert_eq!(again, own.iter().find(|(to, _)| *to == 5).unwrap().1);
        assert!(contest.joined(ClientId(6)).unwrap().loan.is_some());
        contest.close();
        assert!(contest.joined(ClientId(5)).is_none(), "it keeps its picture");
        assert!(contest.joined(ClientId(9)).is_some_and(|dealt| dealt.loan.is_none()), "a new one has none");
        assert!(contest.lent.is_empty());
    }

    #[test]
    fn a_withdrawn_update_is_replaced_and_the_guess_about_it_void() {
        let mut contest = lent(&[1, 2], 3);
        dealt(&mut contest, [1, 2, 5, 6]);
        for player in [5, 6] {
            contest.guess(ClientId(player), 7, 0);
        }
        let again = contest.withdraw(ClientId(2));
        assert!(again.iter().any(|dealt| dealt.to == ClientId(1) && dealt.loan.is_none()), "never its own: {again:?}");
        assert!(again.iter().filter(|dealt| dealt.to.0 > 2).all(|it| it.loan.as_ref().unwrap().owner.0 == 1));
        let guessed = contest.players.iter().filter(|player| player.guess.is_some()).count();
        assert_eq!(guessed, 1, "the guess about client 1's update stays");
        // After the end there is no other update, but the result stays.
        contest.close();
        let again = contest.withdraw(ClientId(1));
        assert!(!again.is_empty() && again.iter().all(|dealt| dealt.loan.is_none()));
        assert!(contest.tell().iter().all(|score| score.owner == 0));
        assert!(contest.joined(ClientId(5)).is_some_and(|dealt| dealt.loan.is_none()), "it was away");
    }

    #[test]
    fn an_early_find_earns_two_points_and_a_late_one_point() {
        let mut contest = lent(&[1, 2], 0);
        dealt(&mut contest, [1, 2]);
        for player in [5, 6, 7, 8, 9] {
            contest.joined(ClientId(player));
        }
        let owner = |contest: &Contest, player: u32| {
            contest.players.iter().find(|it| it.client.0 == player).and_then(|it| it.owner).unwrap().0 as u16 - 1
        };
        let mut play = |player: u32, guesses: [Option<bool>; 2]| {
            let owner = owner(&contest, player);
            let answer = |is_right: bool| if is_right { owner } else { 1 - owner };
            let client = ClientId(player);
            guesses[0].into_iter().for_each(|is_right| contest.guess(client, 7, answer(is_right)));
            contest.know_gaps(client, 7);
            guesses[1].into_iter().for_each(|is_right| contest.guess(client, 7, answer(is_right)));
        };
        play(5, [Some(true), None]);
        play(6, [Some(true), Some(true)]);
        play(7, [Some(false), Some(true)]);
        play(8, [Some(true), Some(false)]);
        contest.guess(ClientId(9), 6, 0);
        let names = |client: ClientId| (client.0 != 6).then(|| format!("client {client}"));
        assert_eq!(contest.podium(names), None, "before it is told");
        contest.close();
        contest.guess(ClientId(9), 7, 0);
        let scores = contest.tell();
        let points = |player| scores.iter().find(|score| score.client.0 == player).unwrap().points;
        assert_eq!([5, 6, 7, 8, 9].map(points), [2, 2, 1, 0, 0]);
        assert!(contest.tell().is_empty(), "once");
        assert_eq!(contest.told(ClientId(5)).unwrap().points, 2);
        let podium = contest.podium(names).unwrap();
        assert_eq!((podium.attackers, podium.found_before, podium.found, podium.suspects), (4, 3, 3, 2));
        let winners: Vec<_> = podium.winners.iter().map(|it| (it.nickname.as_str(), it.place, it.points)).collect();
        assert_eq!(winners, [("client 5", 1, 2), ("client 7", 2, 1)], "client 6 has left for good");
        contest.forget(ClientId(5));
        assert_eq!(contest.podium(names).unwrap().winners.len(), 1);
    }

    #[test]
    fn those_with_the_same_points_share_a_place() {
        let mut contest = lent(&[1, 2], 0);
        dealt(&mut contest, [11, 12, 13, 14, 15]);
        for player in [14, 12, 15, 11, 13] {
            let owner = contest.players.iter().find(|it| it.client.0 == player).and_then(|it| it.owner).unwrap();
            contest.guess(ClientId(player), 7, owner.0 as u16 - 1);
        }
        contest.close();
        contest.tell();
        let podium = contest.podium(|client| Some(client.to_string())).unwrap();
        let winners: Vec<_> = podium.winners.iter().map(|it| (it.nickname.as_str(), it.place)).collect();
        assert_eq!(
            (winners, podium.others),
            (vec![("14", 1), ("12", 1), ("15", 1)], 2),
            "the first to guess are named"
        );
    }

    #[test]
    fn another_model_begins_with_round_one() {
        let mut contest = lent(&[1, 2], 0);
        contest.forget_model();
        assert!(contest.wants(ClientId(1), 1, 10));
        assert!(contest.closed(1, &ids([8])).is_some_and(|dealt| dealt[0].loan.is_none()), "they are of another model");
    }
}
