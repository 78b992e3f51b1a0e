//! Whole sums, with clients that leave, lie and are lied to.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use unmask_core::{ClientId, Threshold};

use crate::{
    keys::{Purpose, Secret, Sign, apply_mask},
    *,
};

const VALUES: u32 = 40;

fn terms(people: u32) -> Terms {
    Terms {
        nonce: [5; 16],
        round: 3,
        policy: 1,
        weights: hash_of_weights(&[0.5, -1.0]),
        values: VALUES,
        threshold: Threshold::default(),
        people,
    }
}

fn group() -> GroupKey {
    GroupKey::new([9; 32])
}

/// Client numbers are not places in a list.
fn client(number: usize) -> ClientId {
    ClientId(10 + 3 * number as u32)
}

fn values(number: usize, values: u32) -> Vec<u32> {
    let mut random = ChaCha20Rng::seed_from_u64(number as u64);
    (0..values).map(|_| random.random()).collect()
}

fn sum_of(numbers: &[usize]) -> Vec<u32> {
    let mut sum = vec![0_u32; VALUES as usize];
    for &number in numbers {
        sum.iter_mut().zip(values(number, VALUES)).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    sum
}

/// A client's first message. It got the weights of the terms.
fn begin(
    number: usize,
    is_robot: bool,
    group: &GroupKey,
    terms: Terms,
    random: &mut ChaCha20Rng,
) -> (KeysSent, PublicKeys) {
    KeysSent::begin((client(number), is_robot), group, terms, &terms.weights, random).unwrap()
}

enum State {
    Keys(KeysSent),
    Shares(SharesSent),
    Values(ValuesSent),
    Confirmed(SurvivorsConfirmed),
    Gone,
}

/// The clients of one sum, and the relay.
struct Class {
    relay: SecureSum,
    clients: Vec<State>,
    random: ChaCha20Rng,
    /// Whether the relay hears of clients that leave.
    is_heard: bool,
}

/// What a client does instead of the right thing: receives its message and may change it.
type Lie<'a> = &'a dyn Fn(usize, &mut Message);

fn honest(_: usize, _: &mut Message) {}

impl Class {
    fn new(terms: Terms, clients: usize) -> Self {
        Self {
            relay: SecureSum::new(terms),
            clients: (0..clients).map(|_| State::Gone).collect(),
            random: ChaCha20Rng::seed_from_u64(77),
            is_heard: false,
        }
    }

    fn send(&mut self, number: usize, mut message: Message, lie: Lie<'_>) {
        lie(number, &mut message);
        // A liar is refused; the others go on.
        let _ = self.relay.take(client(number), message);
    }

    /// Plays the sum. `leaves[i]` is the phase, from 0, in which client i stops answering.
    fn play(&mut self, leaves: &[usize], lie: Lie<'_>) -> Result<Sum, Void> {
        let (group, terms) = (group(), *self.relay.terms());
        let stays = |number: usize, phase: usize| leaves[number] > phase;
        for number in (0..leaves.len()).filter(|number| stays(*number, 0)) {
            let (sent, keys) = begin(number, false, &group, terms, &mut self.random);
            self.clients[number] = State::Keys(sent);
            self.send(number, Message::Keys(keys), lie);
        }
        for phase in 1.. {
            let next = self.relay.close_phase()?;
            if let Next::Sum(sum) = next {
                return Ok(sum);
            }
            for number in (0..leaves.len()).filter(|number| self.is_heard && leaves[*number] == phase) {
                self.relay.leave(client(number));
            }
            for number in (0..leaves.len()).filter(|number| stays(*number, phase)) {
                let state = std::mem::replace(&mut self.clients[number], State::Gone);
                let (state, message) = match self.answer(number, state, &next) {
                    Ok(Some(answered)) => answered,
                    Ok(None) => continue,
                    Err(Refusal::Share(about) | Refusal::Keys(about) | Refusal::SameKeys(about)) => {
                        (State::Gone, Message::Complaint(about))
                    }
                    Err(_) => continue,
                };
                self.clients[number] = state;
                self.send(number, message, lie);
            }
        }
        unreachable!("a sum ends")
    }

    fn answer(&mut self, number: usize, state: State, next: &Next) -> Result<Option<(State, Message)>, Refusal> {
        let own = client(number);
        Ok(match (state, next) {
            (State::Keys(sent), Next::Roster(roster)) => {
                let (sent, dealing) = sent.share(roster, &mut self.random)?;
                Some((State::Shares(sent), Message::Dealing(dealing)))
            }
            (State::Shares(sent), Next::Deliveries(all)) => {
                let Some((_, deliveries)) = all.iter().find(|(client, _)| *client == own) else { return Ok(None) };
                let (sent, values) = sent.mask(deliveries, values(number, VALUES))?;
                Some((State::Values(sent), Message::Values(values)))
            }
            (State::Values(sent), Next::Survivors(survivors)) => {
                let (sent, confirmations) = sent.confirm(survivors)?;
                Some((State::Confirmed(sent), Message::Confirmations(confirmations)))
            }
            (State::Confirmed(sent), Next::Confirmations(all)) => {
                let Some((_, confirmations)) = all.iter().find(|(client, _)| *client == own) else { return Ok(None) };
                Some((State::Gone, Message::Revealed(sent.reveal(confirmations)?)))
            }
            _ => None,
        })
    }
}

fn numbers(clients: &[ClientId]) -> Vec<usize> {
    clients.iter().map(|client| (client.0 as usize - 10) / 3).collect()
}

const STAYS: usize = 9;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For every pattern of clients that leave: the exact sum of those who sent values if enough stay in each phase, and
    /// no sum otherwise.
    #[test]
    fn the_sum_is_exact_or_there_is_none(
        leaves in prop::collection::vec(prop_oneof![Just(STAYS), 0..6_usize], 3..9), is_heard in any::<bool>(),
    ) {
        let mut class = Class { is_heard, ..Class::new(terms(3), leaves.len()) };
        let stay = |phase: usize| leaves.iter().filter(|leaves| **leaves > phase).count();
        let least = terms(3).least(stay(0), 0);
        let enough = (0..5).all(|phase| stay(phase) >= least);
        match class.play(&leaves, &honest) {
            Ok(sum) => {
                prop_assert!(enough, "{:?}", leaves);
                let expected: Vec<usize> = (0..leaves.len()).filter(|number| leaves[*number] > 2).collect();
                prop_assert_eq!(numbers(&sum.clients), expected.clone());
                prop_assert_eq!(sum.values, sum_of(&expected));
                prop_assert!(sum.liars.is_empty() && sum.complaints.is_empty());
            }
            Err(void) => prop_assert!(!enough, "{:?}: {}", leaves, void),
        }
    }
}

/// Nothing that the relay receives before the last phase tells a client's values: whatever they are, masked values look
/// uniformly random, and not like another client's.
#[test]
fn masked_values_look_random() {
    let values = 20_000_u32;
    let terms = Terms { values, ..terms(3) };
    let mut random = ChaCha20Rng::seed_from_u64(4);
    let (states, roster): (Vec<_>, Vec<_>) = (0..4)
        .map(|number| {
            let (sent, keys) = begin(number, false, &group(), terms, &mut random);
            (sent, Member { client: client(number), keys })
        })
        .unzip();
    let (states, dealings): (Vec<_>, Vec<_>) =
        states.into_iter().map(|state| state.share(&roster, &mut random).unwrap()).unzip();
    let seeds: Vec<_> = states.iter().map(|state| state.seed.clone()).collect();
    let masked: Vec<Vec<u32>> = states
        .into_iter()
        .enumerate()
        .map(|(to, state)| {
            let others = dealings.iter().enumerate().filter(|(from, _)| *from != to);
            let deliveries: Vec<_> =
                others.map(|(from, dealt)| Delivery { from: client(from), share: dealt.shares[to].clone() }).collect();
            // The worst case: everybody sends zeros.
            state.mask(&deliveries, vec![0; values as usize]).unwrap().1
        })
        .collect();
    let uniform = |counts: &[u32; 256]| {
        let expected = f64::from(counts.iter().sum::<u32>()) / 256.0;
        let distance: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        let tail = 1.0 - ChiSquared::new(255.0).unwrap().cdf(distance);
        assert!(tail > 1e-6 && tail < 1.0 - 1e-6, "{distance} for 255 degrees of freedom");
    };
    let count = |bytes: &mut dyn Iterator<Item = u8>| {
        let mut counts = [0; 256];
        bytes.for_each(|byte| counts[usize::from(byte)] += 1);
        uniform(&counts);
    };
    // Each of both kinds of masks is enough.
    let by_pairs = masked.iter().zip(&seeds).map(|(one, seed)| {
        let mut one = one.clone();
        apply_mask(&mut one, seed, Sign::Subtract);
        one
    });
    for one in by_pairs {
        count(&mut one.iter().map(|value| value.to_le_bytes()[1]));
    }
    for (own, one) in masked.iter().enumerate() {
        for place in 0..4 {
            count(&mut one.iter().map(|value| value.to_le_bytes()[place]));
        }
        // Neighbours, and each pair of clients.
        count(&mut one.windows(2).map(|pair| pair[0].wrapping_sub(pair[1]).to_le_bytes()[3]));
        for other in &masked[..own] {
            count(&mut one.iter().zip(other).map(|(one, other)| one.wrapping_add(*other).to_le_bytes()[3]));
            count(&mut one.iter().zip(other).map(|(one, other)| one.wrapping_sub(*other).to_le_bytes()[3]));
        }
        let ones: u32 = one.iter().map(|value| value.count_ones()).sum();
        let (bits, half) = (f64::from(values) * 32.0, f64::from(values) * 16.0);
        assert!((f64::from(ones) - half).abs() < 5.0 * (bits / 4.0).sqrt(), "{ones} of {bits} bits");
    }
    // The sum of all but the clients' own masks is no secret; with those it is random too.
    let all = (0..values as usize).map(|at| masked.iter().fold(0_u32, |sum, one| sum.wrapping_add(one[at])));
    count(&mut all.map(|value| value.to_le_bytes()[0]));
}

#[test]
fn a_client_that_lies_in_a_share_is_named_and_the_sum_stands() {
    for lie in [
        (|number: usize, message: &mut Message| {
            if let (2, Message::Revealed(revealed)) = (number, message) {
                revealed.seeds[0].1[7] ^= 1;
            }
        }) as fn(usize, &mut Message),
        |number, message| {
            if let (2, Message::Revealed(revealed)) = (number, message) {
                revealed.seeds.pop();
            }
        },
        |number, message| {
            if let (2, Message::Revealed(revealed)) = (number, message) {
                revealed.keys[0].1 = vec![1; 33];
            }
        },
    ] {
        let mut class = Class::new(terms(3), 6);
        let sum = class.play(&[STAYS, 2, STAYS, STAYS, STAYS, STAYS], &lie);
        // Five of six stay, and one of them lies: four are at least two thirds, but one is missing for a sum of 5.
        assert_eq!(sum, Err(Void::TooFew { got: 4, least: 5 }));
        let mut class = Class::new(terms(3), 7);
        let sum = class.play(&[STAYS, 2, STAYS, STAYS, STAYS, STAYS, STAYS], &lie).unwrap();
        assert_eq!(sum.liars, [client(2)]);
        assert_eq!(sum.values, sum_of(&[0, 2, 3, 4, 5, 6]));
    }
}

#[test]
fn a_dealer_that_lies_is_named() {
    let foreign = |number: usize, message: &mut Message| {
        if let (1, Message::Dealing(dealing)) = (number, message) {
            dealing.shares[3].key = [0; 32];
        }
    };
    let mut class = Class::new(terms(3), 7);
    let sum = class.play(&[STAYS; 7], &foreign).unwrap();
    assert_eq!(sum.complaints, [(client(3), client(1))]);
    assert_eq!(sum.values, sum_of(&[0, 1, 2, 4, 5, 6]), "who complains is not in the sum");

    // Consistent shares of another secret: the mask cannot be removed, and nobody else is blamed.
    let other = |number: usize, message: &mut Message| {
        if let (1, Message::Dealing(dealing)) = (number, message) {
            dealing.seed = [0; 32];
        }
    };
    assert_eq!(Class::new(terms(3), 5).play(&[STAYS; 5], &other), Err(Void::Dealer(client(1))));
}

#[test]
fn clients_notice_what_the_relay_changes() {
    let mut random = ChaCha20Rng::seed_from_u64(1);
    let begun = |number: usize, is_robot: bool, group: &GroupKey, terms: Terms, random: &mut ChaCha20Rng| {
        let (sent, keys) = begin(number, is_robot, group, terms, random);
        (sent, Member { client: client(number), keys })
    };
    let roster = |random: &mut ChaCha20Rng| -> Vec<Member> {
        (1..4).map(|number| begun(number, false, &group(), terms(3), random).1).collect()
    };
    let check = |change: &dyn Fn(&mut Vec<Member>, &mut ChaCha20Rng), expected: Refusal, random: &mut ChaCha20Rng| {
        let (sent, own) = begun(0, false, &group(), terms(3), random);
        let mut all = roster(random);
        all.insert(0, own);
        change(&mut all, random);
        assert_eq!(sent.share(&all, random).map(|_| ()).unwrap_err(), expected);
    };
    let in_between = |all: &mut Vec<Member>, random: &mut ChaCha20Rng| {
        // A relay without the class's key puts its own keys in a client's place.
        all[2] = begun(2, false, &GroupKey::new([1; 32]), terms(3), random).1;
    };
    check(&in_between, Refusal::Keys(client(2)), &mut random);
    let other_weights = |all: &mut Vec<Member>, random: &mut ChaCha20Rng| {
        let doctored = Terms { weights: hash_of_weights(&[0.5, 0.0]), ..terms(3) };
        all[1] = begun(1, false, &group(), doctored, random).1;
    };
    check(&other_weights, Refusal::Keys(client(1)), &mut random);
    let replayed = |all: &mut Vec<Member>, random: &mut ChaCha20Rng| {
        let earlier = Terms { nonce: [4; 16], ..terms(3) };
        all[1] = begun(1, false, &group(), earlier, random).1;
    };
    check(&replayed, Refusal::Keys(client(1)), &mut random);
    check(&|all, _| all[3].client = client(9), Refusal::Keys(client(9)), &mut random);
    check(&|all, _| all.swap(1, 2), Refusal::Order, &mut random);
    check(&|all, _| all[0].keys.mask[0] ^= 1, Refusal::OwnKeys, &mut random);
    check(&|all, _| all.truncate(2), Refusal::TooFewPeople { got: 2, least: 3 }, &mut random);
    let robots = |all: &mut Vec<Member>, random: &mut ChaCha20Rng| {
        all[1] = begun(1, true, &group(), terms(3), random).1;
        all[2] = begun(2, true, &group(), terms(3), random).1;
    };
    check(&robots, Refusal::TooFewPeople { got: 2, least: 3 }, &mut random);
    let disguised = |all: &mut Vec<Member>, random: &mut ChaCha20Rng| {
        all[1] = begun(1, true, &group(), terms(3), random).1;
        all[1].keys.is_robot = false;
    };
    check(&disguised, Refusal::Keys(client(1)), &mut random);
}

/// A relay that shows different lists could get the sum of fewer clients than the threshold.
#[test]
fn different_lists_for_different_clients_are_noticed() {
    let mut class = Class::new(terms(3), 6);
    let (group, terms) = (group(), *class.relay.terms());
    for number in 0..6 {
        let (sent, keys) = begin(number, false, &group, terms, &mut class.random);
        class.clients[number] = State::Keys(sent);
        class.send(number, Message::Keys(keys), &honest);
    }
    for _ in 0..2 {
        let next = class.relay.close_phase().unwrap();
        for number in 0..6 {
            let state = std::mem::replace(&mut class.clients[number], State::Gone);
            let (state, message) = class.answer(number, state, &next).unwrap().unwrap();
            class.clients[number] = state;
            class.send(number, message, &honest);
        }
    }
    let all: Vec<ClientId> = (0..6).map(client).collect();
    let without = all[..5].to_vec();
    let mut confirmed = Vec::new();
    for number in 0..5 {
        let State::Values(sent) = std::mem::replace(&mut class.clients[number], State::Gone) else { panic!() };
        let (state, made) = sent.confirm(if number < 3 { &all } else { &without }).unwrap();
        confirmed.push((client(number), state, made));
    }
    let made: Vec<(ClientId, Vec<Confirmation>)> =
        confirmed.iter().map(|(client, _, made)| (*client, made.clone())).collect();
    for (reader, state, _) in confirmed {
        let to_reader: Vec<Confirmation> = made
            .iter()
            .filter_map(|(by, made)| {
                let tag = made.iter().find(|made| made.client == reader)?.tag;
                Some(Confirmation { client: *by, tag })
            })
            .collect();
        let refusal = state.reveal(&to_reader).unwrap_err();
        assert!(matches!(refusal, Refusal::Unconfirmed { got: 2 | 3, least: 5 }), "{refusal}");
    }
}

#[test]
fn terms_of_other_weights_are_refused_and_no_relay_asks_for_fewer_than_three_people() {
    let mut random = ChaCha20Rng::seed_from_u64(5);
    let other = hash_of_weights(&[0.5, 0.0]);
    let refused = KeysSent::begin((client(0), false), &group(), terms(3), &other, &mut random);
    assert_eq!(refused.map(|_| ()), Err(Refusal::Weights));
    let mut class = Class::new(terms(0), 2);
    assert_eq!(class.play(&[STAYS; 2], &honest), Err(Void::TooFew { got: 2, least: 3 }));
    // Robots of the relay could pool their shares, so that they count on top of the people's threshold.
    assert_eq!(terms(3).least(3, 27), 30);
    assert_eq!(terms(3).least(10, 5), 12);
}

/// Several public keys stand for one point of the curve, and some agree on the same with everybody.
#[test]
fn keys_that_stand_for_another_or_for_nothing_give_no_common_mask() {
    let mut random = ChaCha20Rng::seed_from_u64(6);
    let context = terms(3).context();
    let [own, other] = [(); 2].map(|()| Secret::draw(&mut random));
    let mut turned = other.public();
    turned[31] |= 0x80;
    let agreed = |key: &[u8; 32]| own.agree(key, &context, Purpose::Mask);
    assert!(agreed(&other.public()).is_some());
    assert_ne!(agreed(&other.public()), agreed(&turned));
    assert_eq!(agreed(&other.public()), other.agree(&own.public(), &context, Purpose::Mask));
    assert_ne!(agreed(&other.public()), own.agree(&other.public(), &context, Purpose::Sealing));
    let mut one = [0; 32];
    one[0] = 1;
    assert!(agreed(&[0; 32]).is_none() && agreed(&one).is_none());
}

#[test]
fn a_client_of_another_class_is_complained_about() {
    let foreign = |number: usize, message: &mut Message| {
        if let (4, Message::Keys(keys)) = (number, message) {
            keys.tag[0] ^= 1;
        }
    };
    let mut class = Class::new(terms(3), 5);
    let void = class.play(&[STAYS; 5], &foreign).unwrap_err();
    assert!(matches!(void, Void::TooFew { .. }), "{void}");
    assert_eq!(class.relay.complaints(), (0..5).map(|by| (client(by), client(4))).take(4).collect::<Vec<_>>());
}

#[test]
fn the_relay_refuses_what_does_not_fit() {
    let mut random = ChaCha20Rng::seed_from_u64(2);
    let mut relay = SecureSum::new(terms(3));
    let mut first = |number: usize| begin(number, false, &group(), terms(3), &mut random);
    let all: Vec<_> = (0..4).map(&mut first).collect();
    for (number, (_, keys)) in all.iter().enumerate() {
        relay.take(client(number), Message::Keys(*keys)).unwrap();
    }
    let second = first(0).1;
    assert_eq!(relay.take(client(0), Message::Keys(second)), Err(Refusal::Again(client(0))));
    assert_eq!(relay.take(client(8), Message::Keys(all[1].1)), Err(Refusal::SameKeys(client(8))));
    assert_eq!(relay.take(client(0), Message::Values(vec![0; VALUES as usize])), Err(Refusal::Phase));
    let Next::Roster(roster) = relay.close_phase().unwrap() else { panic!() };
    let mut random = ChaCha20Rng::seed_from_u64(3);
    let dealings: Vec<_> = all.into_iter().map(|(sent, _)| sent.share(&roster, &mut random).unwrap().1).collect();
    let mut short = dealings[0].clone();
    short.shares.pop();
    assert_eq!(relay.take(client(0), Message::Dealing(short)), Err(Refusal::WrongShares));
    assert_eq!(relay.take(client(1), Message::Dealing(dealings[0].clone())), Err(Refusal::WrongShares));
    assert_eq!(relay.take(client(9), Message::Dealing(dealings[0].clone())), Err(Refusal::Stranger(client(9))));
    for (number, dealing) in dealings.into_iter().enumerate() {
        relay.take(client(number), Message::Dealing(dealing)).unwrap();
    }
    relay.close_phase().unwrap();
    let wrong = Refusal::Length { got: 3, expected: VALUES };
    assert_eq!(relay.take(client(0), Message::Values(vec![0; 3])), Err(wrong));
    relay.take(client(0), Message::Values(vec![0; VALUES as usize])).unwrap();
    let again = relay.take(client(0), Message::Values(vec![0; VALUES as usize]));
    assert_eq!(again, Err(Refusal::Again(client(0))));
    assert_eq!(relay.waits_for(), [client(1), client(2), client(3)]);
    assert_eq!(relay.close_phase(), Err(Void::TooFew { got: 1, least: 3 }));
}

#[test]
fn a_threshold_is_a_share_above_one_half() {
    assert_eq!("0.67".parse::<Threshold>().unwrap(), Threshold::default());
    assert_eq!(Threshold::default().to_string(), "0.67");
    assert_eq!((Threshold::default().of(3), Threshold::default().of(30)), (3, 21));
    for wrong in ["0.5", "0", "1.2", "two thirds", "NaN", ""] {
        let error = wrong.parse::<Threshold>().unwrap_err().to_string();
        assert!(error.contains(&format!("{wrong:?}")) && error.contains("such as 0.67"), "{error}");
    }
    assert_eq!("1".parse::<Threshold>().unwrap().of(7), 7);
    let round_trip: Threshold = postcard::from_bytes(&postcard::to_stdvec(&Threshold::default()).unwrap()).unwrap();
    assert_eq!(round_trip, Threshold::default());
    assert!(postcard::from_bytes::<Threshold>(&[50]).is_err());
}
