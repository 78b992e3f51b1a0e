//! A hostile client's numbers must do no lasting harm to a room.

use std::collections::HashSet;

use proptest::prelude::*;
use unmask_core::{
    Aggregation, Architecture, ClientId, ClientState, KeyCheck, MaskSeed, RoundSettings, TrainingPictures, UpdateForm,
    VitPreset,
};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{Effect, Event, GlobalModel, Quorum, ReceivedUpdate, Room, RoomPhase, RoundSummary, Void};

const HOSTILE: ClientId = ClientId(0);

fn room(defence: &str, rule: &str, optimiser: &str, aggregation: Aggregation, clients: u32) -> Room {
    let architecture = Architecture::from(VitPreset::Pico);
    let [defence, rule, optimiser] = [defence, rule, optimiser];
    let settings =
        RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), 4, optimiser.parse().unwrap()).unwrap();
    let model = GlobalModel { architecture, state: architecture.initial(1) };
    let mut room = Room::new(model, settings.with_aggregation(aggregation).unwrap());
    for client in 0..clients {
        room.handle(Event::Joined(ClientId(client)));
    }
    room.handle(Event::Start);
    room
}

/// `plain`, protected as the room asks.
fn protect(room: &Room, plain: Vec<f32>, seed: u32) -> ProtectedUpdate {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let reference = room.model().reference(room.settings().rule());
    let keys = KeyMaterial { seed: MaskSeed(bytes), cipher: None };
    let layout = room.model().architecture.layout();
    room.settings().defence().protect(&layout, PlainUpdate { values: plain, reference }, keys).unwrap()
}

fn send(room: &mut Room, client: ClientId, update: ProtectedUpdate, loss: f32, samples: u32) -> Vec<Effect> {
    let (round, policy) = (room.round(), room.policy());
    room.handle(Event::Update(ReceivedUpdate { client, round, policy, loss, samples, update, statistics: Vec::new() }))
}

fn closed(effects: &[Effect]) -> Option<&RoundSummary> {
    effects.iter().find_map(|effect| match effect {
        Effect::Closed(summary) => Some(summary),
        _ => None,
    })
}

/// An honest client's update: a small change that differs between clients.
fn honest(room: &Room, client: u32) -> Vec<f32> {
    let change = |i: usize| ((client as usize * 31 + i * 17) % 101) as f32 / 5000.0 - 0.01;
    let weights = &room.model().state.weights;
    if room.settings().rule().is_fedavg() {
        weights.iter().enumerate().map(|(i, weight)| weight + change(i)).collect()
    } else {
        (0..weights.len()).map(change).collect()
    }
}

/// All finite floats, with the largest and smallest ones more often.
fn finite() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), Just(f32::MAX), Just(f32::MIN), Just(1e25), Just(0.0)]
        .prop_filter("finite", |value| value.is_finite())
}

fn aggregation() -> impl Strategy<Value = Aggregation> {
    prop_oneof![
        Just(Aggregation::Mean),
        Just(Aggregation::Clipped),
        Just(Aggregation::Aligned),
        Just(Aggregation::TrimmedMean { share: 0.2 }),
        Just(Aggregation::Median)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any finite numbers, the weights stay finite, and a round without a step leaves them bit for bit the same.
    #[test]
    fn weights_stay_finite(
        values in proptest::collection::vec(finite(), 1..5),
        loss in finite(),
        samples in 1u32..,
        aggregation in aggregation(),
        defence in prop_oneof![
            Just("none"),
            Just("fixed-position"),
            Just("random-binary:0.5"),
            Just("random-binary:pos=0.9,0.2"),
            Just("frozen-binary:0.5"),
        ],
        (rule, optimiser) in
            prop_oneof![Just(("fedsgd", "sgd:0.1")), Just(("fedsgd", "adam:0.001")), Just(("fedavg", "sgd:0.1"))],
    ) {
        let mut room = room(defence, rule, optimiser, aggregation, 6);
        for round in 0..6 {
            let before = room.model().state.weights.clone();
            let mut summary = None;
            for client in 0..6 {
                let plain = if client == 0 {
                    (0..before.len()).map(|i| values[i % values.len()]).collect()
                } else {
                    honest(&room, client)
                };
                let update = protect(&room, plain, 6 * round + client);
                let (loss, samples) = if client == 0 { (loss, samples) } else { (2.0, 4) };
                let effects = send(&mut room, ClientId(client), update, loss, samples);
                summary = closed(&effects).cloned();
            }
            let summary = summary.unwrap();
            prop_assert_eq!(summary.samples <= 24, true, "{} samples", summary.samples);
            if let Some(loss) = summary.loss {
                prop_assert!((0.0..=700.0).contains(&loss), "loss {loss}");
            }
            let after = &room.model().state.weights;
            prop_assert!(after.iter().all(|weight| weight.is_finite()));
            if summary.void.is_some() {
                prop_assert_eq!(aggregation == Aggregation::Clipped, false, "clipped rounds are never void");
                prop_assert_eq!(after, &before);
            }
            room.handle(Event::Begin);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The relay cannot judge cipher text, and with a keyed start a client chooses the weights: they must stay finite
    /// all the same.
    #[test]
    fn encrypted_weights_stay_finite(
        sealed in proptest::collection::vec(finite(), 1..5),
        values in proptest::collection::vec(finite(), 1..5),
        aggregation in aggregation(),
        rule in prop_oneof![Just("fedsgd"), Just("fedavg")],
    ) {
        let check = KeyCheck([7; 16]);
        let mut room = room("encrypted:keyed", rule, "sgd:0.1", aggregation, 3);
        let len = room.model().state.weights.len();
        let fill = |values: &[f32]| (0..len).map(|i| values[i % values.len()]).collect::<Vec<f32>>();
        let asked = room.handle(Event::Salt([5; 16])).into_iter().find_map(|effect| match effect {
            Effect::Seal { client, policy, .. } => Some((client, policy)),
            _ => None,
        });
        let (client, policy) = asked.unwrap();
        room.handle(Event::Sealed { client, policy, check, weights: fill(&sealed) });
        prop_assert_eq!(room.phase(), RoomPhase::Training);
        for _ in 0..4 {
            for client in 0..3 {
                let values = if client == 0 { fill(&values) } else { honest(&room, client) };
                // An honest change added to weights this large may overflow.
                let values = values.into_iter().map(|value| value.clamp(f32::MIN, f32::MAX)).collect();
                let update = ProtectedUpdate { form: UpdateForm::Encrypted { check }, values };
                send(&mut room, ClientId(client), update, 2.0, 4);
            }
            prop_assert_eq!(room.phase(), RoomPhase::Between);
            let after = &room.model().state.weights;
            prop_assert!(after.iter().all(|weight| weight.is_finite()));
            room.handle(Event::Begin);
        }
    }
}

/// One update of 1e25 among four: without the gate, Adam's second moment would overflow and the model never move again.
#[test]
fn a_huge_update_neither_freezes_nor_moves_the_model() {
    let mut room = room("none", "fedsgd", "adam:0.001", Aggregation::Clipped, 4);
    for round in 0..4 {
        let before = room.model().state.weights.clone();
        let len = before.len();
        for client in 0..4 {
            let plain = if client == 0 && round == 1 { vec![1e25; len] } else { honest(&room, client) };
            let update = protect(&room, plain, 4 * round + client);
            let effects = send(&mut room, ClientId(client), update, 2.0, 1);
            if let Some(summary) = closed(&effects) {
                let clipped = u32::from(round == 1);
                assert_eq!((summary.updates, summary.clipped, summary.void), (4 - clipped, clipped, None));
            }
        }
        let moved = |(after, before): (&f32, &f32)| (after - before).abs();
        let largest = room.model().state.weights.iter().zip(&before).map(moved).fold(0.0, f32::max);
        assert!((1e-5..=0.0032).contains(&largest), "a step of {largest} in round {round}");
        room.handle(Event::Begin);
    }
}

/// The first round of `clients` clients; the hostile one sends 1e25 everywhere.
fn with_one_hostile(clients: u32, hostile: u32, loss: impl Fn(u32) -> f32) -> RoundSummary {
    let mut room = room("none", "fedsgd", "sgd:0.1", Aggregation::Clipped, clients)
        .with_quorum(Quorum { updates: Some(1), ..Quorum::default() });
    let mut summary = None;
    for client in 0..clients {
        let mut plain = honest(&room, client);
        if client == hostile {
            plain.fill(1e25);
        }
        let update = protect(&room, plain, client);
        summary = closed(&send(&mut room, ClientId(client), update, loss(client), 1)).cloned();
    }
    summary.expect("all have answered")
}

/// Before five norms are known, updates are judged when the round closes; those left out then must not count.
#[test]
fn what_is_left_out_at_the_end_is_not_counted() {
    let summary = with_one_hostile(3, 0, |client| if client == 0 { 4.0 } else { 2.0 });
    assert_eq!((summary.updates, summary.clipped, summary.void), (2, 1, None));
    assert_eq!((summary.samples, summary.loss), (2, Some(2.0)), "its samples and loss do not count either");
    assert_eq!(summary.losses, [(ClientId(1), 2.0), (ClientId(2), 2.0)]);
}

/// The fifth update triggers the judgement of the first five in the middle of the round.
#[test]
fn what_is_left_out_in_the_middle_takes_nobody_else_along() {
    let summary = with_one_hostile(6, 2, |client| 1.0 + client as f32 / 10.0);
    let told: Vec<u32> = summary.losses.iter().map(|(client, _)| client.0).collect();
    assert_eq!((summary.updates, summary.samples, told), (5, 5, vec![0, 1, 3, 4, 5]));
}

/// Updates that are left out, or lead to no step, must not define the usual norm.
#[test]
fn whoever_is_alone_does_not_set_the_bound() {
    for (least, aggregation) in [(1, Aggregation::Clipped), (2, Aggregation::Clipped), (2, Aggregation::Aligned)] {
        let mut room = room("none", "fedsgd", "sgd:0.1", aggregation, 1).with_quorum(Quorum {
            share: 0.5,
            updates: Some(least),
            kept: 1,
        });
        let before = room.model().state.weights.clone();
        for round in 0..7 {
            let value = if least == 1 { 1e15 } else { 1e-6 };
            let update = protect(&room, vec![value; before.len()], round);
            let effects = send(&mut room, ClientId(0), update, 2.0, 1);
            let summary = closed(&effects).expect("all have answered");
            assert_eq!(summary.updates, least - 1, "round {round}, at least {least}");
            room.handle(Event::Begin);
        }
        assert_eq!(room.model().state.weights, before);
        if least == 2 {
            // If the earlier norms counted, this update would be thousands of times as large as usual, and clipped.
            let update = protect(&room, honest(&room, 0), 100);
            let effects = send(&mut room, ClientId(0), update, 2.0, 1);
            assert!(!effects.iter().any(|effect| matches!(effect, Effect::Refused { .. })), "{effects:?}");
            assert_eq!(closed(&effects).map(|summary| summary.clipped), Some(0));
        }
    }
}

/// Updates left out at the end do not count towards the least number for a step.
#[test]
fn too_few_are_left_once_they_are_judged() {
    for least in [2, 3] {
        let mut room = room("none", "fedsgd", "sgd:0.1", Aggregation::Clipped, 3).with_quorum(Quorum {
            share: 0.5,
            updates: Some(least),
            kept: 1,
        });
        let before = room.model().state.weights.clone();
        let mut summary = None;
        for client in 0..3 {
            let plain = if client == 0 { vec![1e25; before.len()] } else { honest(&room, client) };
            let update = protect(&room, plain, client);
            let effects = send(&mut room, ClientId(client), update, 2.0, 1);
            // Two of three would be a quorum if both were accepted.
            assert!(
                !effects.iter().any(|effect| matches!(effect, Effect::Quorum { .. })),
                "client {client} of {least}"
            );
            summary = closed(&effects).cloned();
        }
        let summary = summary.unwrap();
        let void = (least == 3).then_some(Void::TooFew { updates: 2, least: 3 });
        assert_eq!((summary.updates, summary.void), (2, void));
        assert_eq!(room.model().state.weights == before, void.is_some());
    }
}

/// In the papers' plain mean such updates make the round void, and the room continues with the old weights.
#[test]
fn a_mean_that_overflows_is_not_stepped_on() {
    let mut room = room("none", "fedsgd", "adam:0.001", Aggregation::Mean, 2);
    let before = room.model().state.weights.clone();
    let huge = protect(&room, vec![3e38; before.len()], 0);
    send(&mut room, HOSTILE, huge.clone(), 2.0, 1);
    let effects = send(&mut room, ClientId(1), huge, 2.0, 1);
    assert!(closed(&effects).unwrap().void.is_some());
    assert_eq!(room.model().state.weights, before);
    room.handle(Event::Begin);
    for client in 0..2 {
        let update = protect(&room, honest(&room, client), client);
        send(&mut room, ClientId(client), update, 2.0, 1);
    }
    assert_ne!(room.model().state.weights, before);
}

#[test]
fn three_refusals_in_a_row_exclude_until_the_teacher_readmits() {
    let mut room = room("none", "fedsgd", "sgd:0.1", Aggregation::Clipped, 2);
    let broken = ProtectedUpdate::dense(vec![f32::NAN; room.model().state.weights.len()]);
    let mut excluded = Vec::new();
    for round in 0..3 {
        let effects = send(&mut room, HOSTILE, broken.clone(), 2.0, 1);
        excluded.extend(effects.iter().filter(|effect| matches!(effect, Effect::Excluded { .. })).cloned());
        assert_eq!(excluded.len(), usize::from(round == 2));
        let update = protect(&room, honest(&room, 1), round);
        assert!(closed(&send(&mut room, ClientId(1), update, 2.0, 1)).is_some());
        room.handle(Event::Begin);
    }
    let cohort = |effects: &[Effect]| -> HashSet<ClientId> {
        effects
            .iter()
            .find_map(|effect| match effect {
                Effect::Plan { cohort, .. } => Some(cohort.iter().copied().collect()),
                _ => None,
            })
            .unwrap_or_default()
    };
    assert_eq!(room.member(HOSTILE), ClientState::Excluded);
    // Leaving and coming back must not help.
    room.handle(Event::Left(HOSTILE));
    room.handle(Event::Joined(HOSTILE));
    assert_eq!(room.member(HOSTILE), ClientState::Excluded);
    let update = protect(&room, honest(&room, 1), 9);
    assert!(closed(&send(&mut room, ClientId(1), update, 2.0, 1)).is_some(), "nobody waits for the excluded one");
    room.handle(Event::Readmit(HOSTILE));
    assert_eq!(cohort(&room.handle(Event::Begin)), HashSet::from([HOSTILE, ClientId(1)]));
    assert_eq!(room.phase(), RoomPhase::Training);
}

/// Once norms are known, an update that cannot be a gradient is refused; a large but possible one is clipped.
#[test]
fn an_implausible_norm_is_refused() {
    let mut room = room("none", "fedsgd", "sgd:0.1", Aggregation::Clipped, 6);
    for client in 0..5 {
        let update = protect(&room, honest(&room, client), client);
        send(&mut room, ClientId(client), update, 2.0, 1);
    }
    room.handle(Event::Deadline { round: 1, policy: 1 });
    for (times, is_refused) in [(1e4, false), (1e8, true)] {
        room.handle(Event::Begin);
        let values = honest(&room, 0).iter().map(|value| times * value).collect();
        let effects = send(&mut room, HOSTILE, ProtectedUpdate::dense(values), 2.0, 1);
        let refusal = effects.iter().find_map(|effect| match effect {
            Effect::Refused { refusal, .. } => Some(refusal.to_string()),
            _ => None,
        });
        assert_eq!(refusal.is_some(), is_refused, "{refusal:?}");
        assert!(refusal.is_none_or(|refusal| refusal.contains("times as large as the others")));
        room.handle(Event::Deadline { round: room.round(), policy: 1 });
    }
}

/// A class that has learnt its pictures has almost no gradient. A newcomer's update is clipped and accepted every time;
/// an update that cannot be a gradient of these weights is refused.
#[test]
fn a_newcomer_among_tiny_gradients_is_taken() {
    for (rule, optimiser) in [("fedsgd", "sgd:0.1"), ("fedsgd", "adam:0.001"), ("fedavg", "sgd:0.1")] {
        let mut room = room("none", rule, optimiser, Aggregation::Clipped, 6);
        let newcomer = ClientId(5);
        for round in 0..4 {
            let before = room.model().state.weights.clone();
            let base = |i: usize| if rule == "fedavg" { before[i] } else { 0.0 };
            for client in 0..5 {
                let tiny = |(i, value): (usize, &f32)| base(i) + 1e-8 * (value - base(i));
                let plain = honest(&room, client).iter().enumerate().map(tiny).collect();
                let update = protect(&room, plain, 6 * round + client);
                send(&mut room, ClientId(client), update, 1e-6, 1);
            }
            let update = protect(&room, honest(&room, 5), 6 * round + 5);
            let effects = send(&mut room, newcomer, update, 5.0, 1);
            let summary = closed(&effects).expect("all have answered");
            assert_eq!((summary.updates, summary.clipped, summary.void), (6, 1, None), "{rule}, {optimiser}");
            room.handle(Event::Begin);
        }
        assert_eq!(room.member(newcomer), ClientState::Training);
        let huge = protect(&room, vec![1e25; room.model().state.weights.len()], 100);
        let effects = send(&mut room, newcomer, huge, 5.0, 1);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Refused { .. })), "{rule}, {optimiser}");
    }
}

/// An accepted update between two refusals resets their count.
#[test]
fn an_accepted_update_ends_the_row() {
    let mut room = room("none", "fedsgd", "sgd:0.1", Aggregation::Clipped, 1);
    let broken = ProtectedUpdate::dense(Vec::new());
    for round in 0..6 {
        let update = if round % 3 == 2 { protect(&room, honest(&room, 1), round) } else { broken.clone() };
        send(&mut room, HOSTILE, update, 2.0, 1);
        room.handle(Event::Begin);
    }
    assert_eq!(room.member(HOSTILE), ClientState::Training);
}

/// Under FedAvg an update weighs what the room gave the client, not what the client claims.
#[test]
fn samples_weigh_what_was_given() {
    let mut room = room("none", "fedavg", "sgd:0.1", Aggregation::Mean, 2);
    let weights = room.model().state.weights.clone();
    let moved = |by: f32| ProtectedUpdate::dense(weights.iter().map(|weight| weight + by).collect());
    send(&mut room, HOSTILE, moved(1.0), 2.0, 1_000_000);
    send(&mut room, ClientId(1), moved(0.0), 2.0, 4);
    let after = &room.model().state.weights;
    assert!(after.iter().zip(&weights).all(|(after, before)| (after - before - 0.5).abs() < 1e-6));
}

/// On shared pictures an update weighs as many as the client was given.
#[test]
fn shared_pictures_weigh_as_many_as_were_given() {
    let mut room = room("none", "fedavg", "sgd:0.1", Aggregation::Mean, 2);
    let shared = room.settings().with_pictures(TrainingPictures::Shared { shard: 1 });
    room.handle(Event::SetSettings(shared));
    let moved = |room: &Room, by: f32| {
        ProtectedUpdate::dense(room.model().state.weights.iter().map(|weight| weight + by).collect())
    };
    for client in [0, 1] {
        let update = moved(&room, 0.0);
        send(&mut room, ClientId(client), update, 2.0, 1);
    }
    room.handle(Event::Begin);
    for (client, pictures) in [(0, 6), (1, 2)] {
        room.handle(Event::Given { client: ClientId(client), pictures });
    }
    let weights = room.model().state.weights.clone();
    for (client, by) in [(0, 1.0), (1, 0.0)] {
        let update = moved(&room, by);
        send(&mut room, ClientId(client), update, 2.0, 1_000_000);
    }
    let after = &room.model().state.weights;
    assert!(after.iter().zip(&weights).all(|(after, before)| (after - before - 0.75).abs() < 1e-6));
}

/// A minority cannot move the median of any parameter beyond the honest values.
#[test]
fn median_and_trimmed_mean_stay_among_honest_values() {
    for aggregation in [Aggregation::Median, Aggregation::TrimmedMean { share: 0.34 }] {
        let mut room = room("none", "fedsgd", "sgd:1", aggregation, 3);
        let before = room.model().state.weights.clone();
        for (client, value) in [(0, -1e30), (1, 1.0), (2, 2.0)] {
            let update = ProtectedUpdate::dense(vec![value; before.len()]);
            send(&mut room, ClientId(client), update, 2.0, 1);
        }
        let step: Vec<f32> =
            room.model().state.weights.iter().zip(&before).map(|(after, before)| before - after).collect();
        assert!(step.iter().all(|step| (step - 1.0).abs() < 1e-5), "{aggregation}: {}", step[0]);
    }
}

/// An update whose change is `common` times a shared direction plus `own` times the client's own direction.
fn pulled(room: &Room, client: u32, common: f32, own: f32) -> Vec<f32> {
    // Last bit of splitmix64.
    let sign = |i: usize, of: u64| {
        let mut bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(of << 32);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        if (bits ^ (bits >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
    };
    let weights = &room.model().state.weights;
    let change = |i: usize| 0.001 * (common * sign(i, 0) + own * sign(i, u64::from(client) + 1));
    let base = |weight: f32| if room.settings().rule().is_fedavg() { weight } else { 0.0 };
    weights.iter().enumerate().map(|(i, &weight)| base(weight) + change(i)).collect()
}

/// Runs one round in which each client moves `common` along the shared direction, plus noise of size `own`. A client
/// with NaN does not answer.
fn pull(defence: &str, rule: &str, aggregation: Aggregation, common: &[f32], own: f32) -> (RoundSummary, Vec<f32>) {
    let mut room = room(defence, rule, "sgd:0.1", aggregation, common.len() as u32);
    let mut summary = None;
    for (client, &common) in (0..).zip(common).filter(|(_, common)| !common.is_nan()) {
        let own = if common == 0.0 { 0.0 } else { own };
        let update = protect(&room, pulled(&room, client, common, own), client);
        summary = closed(&send(&mut room, ClientId(client), update, 2.0, 4)).cloned();
    }
    let deadline = Event::Deadline { round: room.round(), policy: room.policy() };
    let summary = summary.or_else(|| closed(&room.handle(deadline)).cloned());
    (summary.unwrap(), room.model().state.weights.clone())
}

/// Flipped updates are as long as the others, so no bound on norms catches them; the weights must be those without
/// them.
#[test]
fn turned_signs_are_left_out_of_an_aligned_mean() {
    let turned = [-1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0];
    for defence in ["none", "random-binary:0.5", "fixed-position"] {
        for rule in ["fedsgd", "fedavg:epochs=1,rate=0.1"] {
            let (summary, weights) = pull(defence, rule, Aggregation::Aligned, &turned, 3.0);
            assert_eq!((summary.updates, summary.opposed, summary.samples), (6, 2, 24), "{defence}, {rule}");
            // A mean that does not compare directions leaves nobody out.
            let (clipped, other) = pull(defence, rule, Aggregation::Clipped, &turned, 3.0);
            assert_eq!((clipped.updates, clipped.opposed), (8, 0), "{defence}, {rule}");
            assert!(weights != other, "{defence}, {rule}");
            let honest = turned.map(|common| if common < 0.0 { f32::NAN } else { common });
            let (_, alone) = pull(defence, rule, Aggregation::Clipped, &honest, 3.0);
            let is_same = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-6;
            assert!(weights.iter().zip(&alone).all(is_same), "{defence}, {rule}");
        }
    }
}

/// Fewer than five clients, not counting zero updates, have no majority direction: everybody counts.
#[test]
fn without_a_common_direction_everybody_counts() {
    for (common, own) in [
        (&[1.0, 1.0, -1.0, -1.0][..], 0.5),
        (&[1.0, 1.0, 1.0, -1.0], 0.5),
        (&[0.0; 6], 0.0),
        (&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.0),
        (&[1.0, 1.0, -1.0, -1.0, 0.0, 0.0], 0.5),
    ] {
        let (summary, _) = pull("none", "fedsgd", Aggregation::Aligned, common, own);
        assert_eq!((summary.updates as usize, summary.opposed), (common.len(), 0), "{common:?}");
    }
}

/// More than half of the updates always count.
#[test]
fn most_updates_count_in_an_aligned_mean() {
    for common in [&[1.0, 1.0, 1.0, -1.0, -1.0, -1.0][..], &[1.0, -1.0, -1.0, -1.0, -1.0], &[0.0; 9]] {
        let (summary, _) = pull("random-binary:0.5", "fedsgd", Aggregation::Aligned, common, 1.0);
        let most = (common.len() as u32 - 1) / 2;
        assert!(summary.opposed <= most && summary.updates == common.len() as u32 - summary.opposed, "{summary:?}");
    }
}

/// Huge updates of a minority do not raise the bound, however often they come.
#[test]
fn what_is_scaled_down_does_not_raise_the_bound() {
    for aggregation in [Aggregation::Clipped, Aggregation::Aligned] {
        let mut room = room("none", "fedsgd", "sgd:0.000001", aggregation, 5);
        let mut round = |huge: u32| {
            let mut summary = None;
            for client in 0..5 {
                let common = if client < huge { 1e4 } else { 1.0 };
                let update = protect(&room, pulled(&room, client, common, 0.0), client);
                summary = closed(&send(&mut room, ClientId(client), update, 2.0, 4)).cloned();
            }
            room.handle(Event::Begin);
            summary.unwrap().clipped
        };
        assert_eq!([0, 2, 2, 2].map(&mut round), [0, 2, 2, 2], "{aggregation}");
    }
}

/// The quorum assumes the most updates left out, so that waiting for it is enough for a step.
#[test]
fn an_aligned_mean_has_its_quorum_once_enough_are_sure_to_count() {
    for (aggregation, at) in [(Aggregation::Clipped, 4), (Aggregation::Aligned, 6)] {
        let mut room = room("none", "fedsgd", "sgd:0.1", aggregation, 10).with_quorum(Quorum {
            share: 0.1,
            updates: Some(4),
            kept: 1,
        });
        let quorum = (0..10).find(|&client| {
            let update = protect(&room, honest(&room, client), client);
            let effects = send(&mut room, ClientId(client), update, 2.0, 4);
            effects.iter().any(|effect| matches!(effect, Effect::Quorum { .. }))
        });
        assert_eq!(quorum.map(|client| client + 1), Some(at), "{aggregation}");
    }
}

/// Four of five clients end the wait for the rest; fewer updates than the least number make no step.
#[test]
fn a_quorum_ends_the_wait_and_too_few_take_no_step() {
    let architecture = Architecture::from(VitPreset::Pico);
    let settings = RoundSettings::new(Default::default(), Default::default(), 1, Default::default()).unwrap();
    let model = GlobalModel { architecture, state: architecture.initial(1) };
    let mut room = Room::new(model, settings).with_quorum(Quorum { share: 0.8, updates: Some(2), kept: 1 });
    for client in 0..5 {
        room.handle(Event::Joined(ClientId(client)));
    }
    room.handle(Event::Start);
    let before = room.model().state.weights.clone();
    let mut quorums = Vec::new();
    for client in 0..4 {
        let update = protect(&room, honest(&room, client), client);
        let effects = send(&mut room, ClientId(client), update, 2.0, 1);
        quorums.push(effects.iter().any(|effect| matches!(effect, Effect::Quorum { round: 1, policy: 1, .. })));
    }
    assert_eq!(quorums, [false, false, false, true]);
    let effects = room.handle(Event::Deadline { round: 1, policy: 1 });
    assert_eq!(closed(&effects).map(|summary| (summary.updates, summary.void)), Some((4, None)));
    assert_ne!(room.model().state.weights, before);
    // The fifth client is late, and three more miss this round's deadline.
    room.handle(Event::Begin);
    let before = room.model().state.weights.clone();
    let update = protect(&room, honest(&room, 0), 10);
    send(&mut room, ClientId(0), update, 2.0, 1);
    let effects = room.handle(Event::Deadline { round: 2, policy: 1 });
    let summary = closed(&effects).unwrap();
    assert_eq!(summary.void, Some(Void::TooFew { updates: 1, least: 2 }));
    assert_eq!(summary.late, [ClientId(1), ClientId(2), ClientId(3)]);
    assert_eq!(room.model().state.weights, before);
}
