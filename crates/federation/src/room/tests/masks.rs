//! Rounds under masks.

use unmask_defence::Mask;

use super::*;
use crate::Moments;

/// Runs rounds in which every client's update changes everything; returns the weights after each round.
fn rounds(defence: &str, rule: &str, optimiser: &str, rounds: u8) -> (Vec<f32>, Vec<Vec<f32>>, Arc<ParamLayout>) {
    let settings =
        RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), 1, optimiser.parse().unwrap()).unwrap();
    let mut room = Room::new(model(1), settings);
    room.handle(Event::Joined(A));
    room.handle(Event::Joined(B));
    room.handle(Event::Start);
    let before = room.model().state.weights.clone();
    let mut after = Vec::new();
    for round in 0..rounds {
        for client in [A, B] {
            let values = room.model().state.weights.iter().map(|weight| weight + 0.25 * f32::from(round + 1)).collect();
            let update = protect(&room, values, [2 * round + client.0 as u8; 32], None);
            assert!(matches!(send_samples(&mut room, client, update, 1 + client.0)[0], Effect::Accepted { .. }));
        }
        after.push(room.model().state.weights.clone());
        room.handle(Event::Begin);
    }
    (before, after, Arc::clone(room.learner.layout()))
}

/// A frozen mask drops the same entries in all rounds, so under every rule these parameters keep their initial values.
#[test]
fn what_the_frozen_mask_drops_stays_for_ever() {
    for (rule, optimiser) in [("fedsgd", "sgd:0.1"), ("fedsgd", "adam:0.01"), ("fedavg", "sgd:0.1")] {
        let (before, after, layout) = rounds("frozen-binary:pos=0.9,0.5", rule, optimiser, 4);
        let rates = "pos=0.9,0.5".parse().unwrap();
        let mask: Vec<bool> = Mask::new(FROZEN_SEED, &rates, &layout).entries().collect();
        for weights in after {
            for i in 0..layout.len() {
                assert_eq!(weights[i].to_bits() != before[i].to_bits(), mask[i], "{rule}, {optimiser}: parameter {i}");
            }
        }
    }
}

/// With random masks, a parameter changes in a round exactly if some client sent it.
#[test]
fn what_nobody_sends_stays_for_this_round() {
    for (rule, optimiser) in [("fedsgd", "sgd:0.1"), ("fedsgd", "adam:0.01"), ("fedavg", "sgd:0.1")] {
        let (mut before, after, layout) = rounds("random-binary:0.8", rule, optimiser, 3);
        let rates = "0.8".parse().unwrap();
        let mask = |seed| Mask::new(MaskSeed([seed; 32]), &rates, &layout).entries().collect::<Vec<_>>();
        for (round, weights) in after.into_iter().enumerate() {
            let seeds = [2 * round as u8 + A.0 as u8, 2 * round as u8 + B.0 as u8];
            let (a, b) = (mask(seeds[0]), mask(seeds[1]));
            for i in 0..layout.len() {
                let has_moved = weights[i].to_bits() != before[i].to_bits();
                assert_eq!(has_moved, a[i] || b[i], "{rule}, {optimiser}: parameter {i}");
            }
            before = weights;
        }
    }
}

/// Momentum from an earlier policy must not move a position embedding that is fixed now.
#[test]
fn fixed_position_stands_still_under_adam_with_momentum() {
    let adam = |defence: &str| {
        RoundSettings::new(defence.parse().unwrap(), Rule::FedSgd, 1, "adam:0.01".parse().unwrap()).unwrap()
    };
    let mut room = Room::new(model(1), adam("none"));
    room.handle(Event::Joined(A));
    room.handle(Event::Start);
    let update = dense(&room, 1.0);
    send(&mut room, A, update);
    room.handle(Event::SetSettings(adam("fixed-position")));
    room.handle(Event::Begin);
    let before = room.model().state.weights.clone();
    let update = protect(&room, vec![1.0; before.len()], [0; 32], None);
    assert_eq!(closed(&send(&mut room, A, update)).unwrap().updates, 1);
    for param in room.learner.layout().iter() {
        let is_same = room.model().state.weights[param.range.clone()] == before[param.range.clone()];
        assert_eq!(is_same, param.name == "pos_embed", "{}", param.name);
    }
}

/// Of a room of three in which two must have a parameter's value: what one client alone keeps does not move, nor do its
/// moments, however large the value. The minimum outlasts new settings and another model.
#[test]
fn nobody_moves_alone_what_two_must_keep() {
    let rates = "0.8".parse().unwrap();
    for (rule, optimiser) in [("fedsgd", "sgd:0.1"), ("fedsgd", "adam:0.01"), ("fedavg", "sgd:0.1")] {
        let settings = |defence: &str| {
            RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), 1, optimiser.parse().unwrap()).unwrap()
        };
        let quorum = Quorum { updates: Some(1), kept: 2, ..Quorum::default() };
        let mut room = Room::new(model(1), settings("none")).with_quorum(quorum);
        for client in [A, B, C] {
            room.handle(Event::Joined(client));
        }
        let other = Architecture::from(VitPreset::Nano);
        room.handle(Event::SetModel(GlobalModel { architecture: other, state: other.initial(2) }));
        room.handle(Event::SetSettings(settings("random-binary:0.8")));
        room.handle(Event::Start);
        for round in 0..3 {
            let before = room.model().state.weights.clone();
            let moments = Arc::clone(room.learner.optimiser().moments());
            let seeds = [A, B, C].map(|client| [16 * round + client.0 as u8; 32]);
            for (client, seed) in [A, B, C].into_iter().zip(seeds) {
                let values = before.iter().map(|weight| weight + 0.5).collect();
                let update = protect(&room, values, seed, None);
                assert!(matches!(send_samples(&mut room, client, update, 9)[0], Effect::Accepted { .. }));
            }
            let layout = Arc::clone(room.learner.layout());
            let masks = seeds.map(|seed| Mask::new(MaskSeed(seed), &rates, &layout).entries().collect::<Vec<_>>());
            let (after, later) = (&room.model().state.weights, room.learner.optimiser().moments());
            for i in 0..layout.len() {
                let keepers = masks.iter().filter(|mask| mask[i]).count();
                let what = format!("{rule}, {optimiser}: parameter {i}, which {keepers} kept");
                assert_eq!(after[i].to_bits() != before[i].to_bits(), keepers >= 2, "{what}");
                if optimiser.starts_with("adam") {
                    let moment = |moments: &Moments| moments.first.get(i).copied().unwrap_or_default();
                    assert_eq!(moment(later) != moment(&moments), keepers >= 2, "{what}");
                }
            }
            room.handle(Event::Begin);
        }
    }
}

#[test]
fn a_round_of_fewer_than_must_keep_a_parameter_is_void() {
    let quorum = Quorum { updates: Some(1), kept: 3, ..Quorum::default() };
    let mut room = room("none").with_quorum(quorum);
    for client in [A, B] {
        room.handle(Event::Joined(client));
    }
    room.handle(Event::Start);
    let mut effects = Vec::new();
    for client in [A, B] {
        let update = dense(&room, 1.0);
        effects = send(&mut room, client, update);
    }
    assert_eq!(closed(&effects).unwrap().void, Some(Void::TooFew { updates: 2, least: 3 }));
}
