//! What a secure sum of 30 clients costs beyond a plain one, for the values of `vit_nano_patch4_32`.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use unmask_core::{Architecture, ClientId, Threshold};
use unmask_secagg::{
    Delivery, GroupKey, KeysSent, Member, Message, Next, SecureSum, SharesSent, Terms, ValuesSent, hash_of_weights,
};

const CLIENTS: u32 = 30;
/// They leave before they send values, which costs the relay most.
const LEAVE: u32 = 3;

struct Begun {
    relay: SecureSum,
    states: Vec<SharesSent>,
    deliveries: Vec<Vec<Delivery>>,
}

fn begin(values: u32) -> Begun {
    let mut random = ChaCha20Rng::seed_from_u64(1);
    let group = GroupKey::new([7; 32]);
    let weights = hash_of_weights(&[0.0]);
    let threshold = Threshold::default();
    let terms = Terms { nonce: [1; 16], round: 1, policy: 1, weights, values, threshold, people: 3 };
    let mut relay = SecureSum::new(terms);
    let begun: Vec<_> = (0..CLIENTS)
        .map(|client| KeysSent::begin((ClientId(client), false), &group, terms, &weights, &mut random).unwrap())
        .collect();
    for (client, (_, keys)) in (0..).zip(&begun) {
        relay.take(ClientId(client), Message::Keys(*keys)).unwrap();
    }
    let Next::Roster(roster) = relay.close_phase().unwrap() else { panic!() };
    let mut states = Vec::new();
    for (client, (sent, _)) in (0..).zip(begun) {
        let (state, dealing) = sent.share(&roster, &mut random).unwrap();
        relay.take(ClientId(client), Message::Dealing(dealing)).unwrap();
        states.push(state);
    }
    let Next::Deliveries(deliveries) = relay.close_phase().unwrap() else { panic!() };
    Begun { relay, states, deliveries: deliveries.into_iter().map(|(_, deliveries)| deliveries).collect() }
}

/// Ready for the relay to undo the masks.
fn revealed(values: u32) -> SecureSum {
    let Begun { mut relay, states, deliveries } = begin(values);
    let masked = states.into_iter().zip(deliveries).take((CLIENTS - LEAVE) as usize);
    let mut sent: Vec<ValuesSent> = Vec::new();
    for (client, (state, deliveries)) in (0..).zip(masked) {
        let (state, values) = state.mask(&deliveries, vec![0; values as usize]).unwrap();
        relay.take(ClientId(client), Message::Values(values)).unwrap();
        sent.push(state);
    }
    let Next::Survivors(survivors) = relay.close_phase().unwrap() else { panic!() };
    let mut confirmed = Vec::new();
    for (client, state) in (0..).zip(sent) {
        let (state, confirmations) = state.confirm(&survivors).unwrap();
        relay.take(ClientId(client), Message::Confirmations(confirmations)).unwrap();
        confirmed.push(state);
    }
    let Next::Confirmations(confirmations) = relay.close_phase().unwrap() else { panic!() };
    for (state, (client, confirmations)) in confirmed.into_iter().zip(confirmations) {
        relay.take(client, Message::Revealed(state.reveal(&confirmations).unwrap())).unwrap();
    }
    relay
}

fn secure_sum(criterion: &mut Criterion) {
    let architecture: Architecture = "vit_nano_patch4_32".parse().unwrap();
    let values = architecture.layout().len() as u32;
    let mut group = criterion.benchmark_group("secure sum, 30 clients, nano");
    group.sample_size(10);
    group.bench_function("client: keys and shares", |bencher| {
        let mut random = ChaCha20Rng::seed_from_u64(2);
        let key = GroupKey::new([7; 32]);
        let terms = *begin(8).relay.terms();
        let mut start =
            |client| KeysSent::begin((ClientId(client), false), &key, terms, &terms.weights, &mut random).unwrap();
        let others: Vec<Member> =
            (1..CLIENTS).map(|client| Member { client: ClientId(client), keys: start(client).1 }).collect();
        let mut random = ChaCha20Rng::seed_from_u64(3);
        bencher.iter(|| {
            let (sent, keys) = KeysSent::begin((ClientId(0), false), &key, terms, &terms.weights, &mut random).unwrap();
            let mut roster = others.clone();
            roster.insert(0, Member { client: ClientId(0), keys });
            black_box(sent.share(&roster, &mut random).unwrap())
        });
    });
    group.bench_function("client: masks", |bencher| {
        let one = || {
            let Begun { mut states, mut deliveries, .. } = begin(values);
            (states.remove(0), deliveries.remove(0), vec![1; values as usize])
        };
        bencher.iter_batched(
            one,
            |(state, deliveries, values)| state.mask(&deliveries, values).unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("relay: masks undone, 3 of 30 left", |bencher| {
        bencher.iter_batched(|| revealed(values), |mut relay| relay.close_phase().unwrap(), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, secure_sum);
criterion_main!(benches);
