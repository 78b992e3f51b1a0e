//! Counted against expected update counts, and both against the formula.

use std::sync::Arc;

use unmask_core::{Aggregation, Architecture, Defence, MaskSeed, ParamGroup, Rule, VitPreset};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
use unmask_federation::{Aggregate, GroupCounts, Optimiser, UpdateCounts};

/// Counts after rounds with these numbers of clients.
fn counted(preset: VitPreset, defence: &str, rounds: &[u8]) -> UpdateCounts {
    counted_from(1, preset, defence, rounds)
}

/// The same, if `min_kept` clients must have sent a parameter.
fn counted_from(min_kept: u32, preset: VitPreset, defence: &str, rounds: &[u8]) -> UpdateCounts {
    let layout = Arc::new(Architecture::from(preset).layout());
    let defence: Defence = defence.parse().unwrap();
    let mut counts = UpdateCounts::new(Arc::clone(&layout), defence);
    let (mut weights, mut optimiser) = (vec![0.0; layout.len()], Optimiser::sgd(0.1));
    let aggregate = Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean);
    let mut aggregate = aggregate.with_min_kept(min_kept);
    for (round, clients) in rounds.iter().enumerate() {
        aggregate.restart();
        for client in 0..*clients {
            let mut seed = [client; 32];
            seed[0] = round as u8;
            let plain = PlainUpdate { values: vec![1.0; layout.len()], reference: None };
            let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
            aggregate.add(&defence.protect(&layout, plain, keys).unwrap(), 1, None).unwrap();
        }
        aggregate.close(Rule::FedSgd, &mut optimiser, &mut weights, &mut counts).unwrap();
    }
    counts
}

/// The corrected G(f) = C(M,f) (1-R^N)^f (R^N)^(M-f). (The papers print the exponent N(1-f) instead of M-f.)
fn corrected(rounds: i32, f: i32, zero_rate: f64, clients: i32) -> f64 {
    let binomial: f64 = (0..f).map(|i| f64::from(rounds - i) / f64::from(f - i)).product();
    let none = zero_rate.powi(clients);
    binomial * (1.0 - none).powi(f) * none.powi(rounds - f)
}

/// Each share lies within six standard deviations of a binomial draw.
fn assert_as_expected(group: &GroupCounts) {
    let n = group.parameters as f64;
    assert!((group.expected.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    for (f, (&found, &expected)) in group.histogram.iter().zip(&group.expected).enumerate() {
        let allowed = 6.0 * (n * expected * (1.0 - expected)).sqrt() + 6.0;
        let found = f64::from(found);
        assert!((found - n * expected).abs() < allowed, "{}: {found} of {n} at {f}, not {expected}", group.group);
    }
}

#[test]
fn constant_cohort_follows_the_corrected_formula() {
    for (rate, clients) in [("0.5", 3), ("0.8", 5), ("0.2", 1)] {
        let rounds = [clients; 12];
        let counts = counted(VitPreset::Nano, &format!("random-binary:{rate}"), &rounds);
        assert_eq!((counts.rounds(), counts.sampled()), (12, None));
        let zero_rate = counts.groups()[0].rate.unwrap().get();
        for group in counts.groups() {
            assert_as_expected(&group);
            for (f, expected) in group.expected.iter().enumerate() {
                let formula = corrected(12, f as i32, zero_rate, clients.into());
                assert!((expected - formula).abs() < 1e-12, "{expected} is not {formula} at {f}");
            }
        }
    }
}

/// With N = 5, fewer than two masks keep a parameter with probability R^5 + 5 (1 - R) R^4.
#[test]
fn what_too_few_keep_is_not_expected_to_move() {
    let counts = counted_from(2, VitPreset::Nano, "random-binary:0.8", &[5; 12]);
    for group in counts.groups() {
        assert_as_expected(&group);
        let zero_rate = group.rate.unwrap().get();
        let too_few = zero_rate.powi(5) + 5.0 * (1.0 - zero_rate) * zero_rate.powi(4);
        assert!((group.expected[0] - too_few.powi(12)).abs() < 1e-12, "{group:?}");
    }
    // A round with fewer clients than that moves nothing and is not counted.
    assert_eq!(counted_from(2, VitPreset::Pico, "random-binary:0.8", &[1, 2, 1]).rounds(), 1);
    let everything = counted_from(2, VitPreset::Pico, "random-binary:0", &[2]);
    assert!(everything.groups().iter().all(|group| group.expected == [0.0, 1.0] && group.never() == 0.0));
}

/// A cohort that changes between rounds: sums over all sets of rounds in which a parameter was updated.
#[test]
fn changing_cohort_follows_the_poisson_binomial_distribution() {
    let rounds = [1, 4, 2, 7, 3, 1];
    let counts = counted(VitPreset::Pico, "random-binary:pos=0.9,head=0,0.6", &rounds);
    for group in counts.groups() {
        assert_as_expected(&group);
        let zero_rate = group.rate.unwrap().get();
        let mut expected = vec![0.0; rounds.len() + 1];
        for set in 0u32..1 << rounds.len() {
            let probability = rounds.iter().enumerate().map(|(round, clients)| {
                let none = zero_rate.powi((*clients).into());
                if set >> round & 1 == 1 { 1.0 - none } else { none }
            });
            expected[set.count_ones() as usize] += probability.product::<f64>();
        }
        for (f, expected) in expected.into_iter().enumerate() {
            assert!((group.expected[f] - expected).abs() < 1e-12);
        }
    }
    assert_eq!(counts.groups()[ParamGroup::Head as usize].never(), 0.0);
}

/// The papers' counter-example: parameters are updated in every round, or never if the mask drops them.
#[test]
fn frozen_mask_updates_always_or_never() {
    let counts = counted(VitPreset::Nano, "frozen-binary:0.8", &[3, 1, 2]);
    for group in counts.groups() {
        assert_as_expected(&group);
        assert_eq!(group.histogram[0] + group.histogram[3], group.parameters as u32);
        assert!(group.histogram[0] > 0);
    }
}

#[test]
fn fixed_position_is_never_updated_and_all_else_always() {
    for (defence, never) in [("fixed-position", 1.0), ("none", 0.0), ("gaussian:eps=4,delta=1e-5,clip=0.5", 0.0)] {
        let counts = counted(VitPreset::Pico, defence, &[2, 2]);
        for group in counts.groups() {
            assert_as_expected(&group);
            let expected = if group.group == ParamGroup::Position { never } else { 0.0 };
            assert_eq!((group.never(), group.mean()), (expected, 2.0 * (1.0 - expected)));
            assert_eq!(group.rate, None);
        }
    }
}

/// A model with more than 2^21 parameters is sampled evenly, from all groups.
#[test]
fn large_model_is_sampled() {
    let counts = counted(VitPreset::Tiny, "random-binary:0.5", &[2, 2]);
    let sampled = counts.sampled().unwrap();
    assert!(sampled <= 1 << 21 && sampled > 1 << 20, "{sampled}");
    let groups = counts.groups();
    assert_eq!(groups.iter().map(|group| group.parameters).sum::<usize>(), sampled);
    groups.iter().for_each(assert_as_expected);
}

#[test]
fn round_without_updates_is_not_counted() {
    let counts = counted(VitPreset::Pico, "frozen-binary:0.5", &[0, 2, 0]);
    assert_eq!(counts.rounds(), 1);
    assert_eq!(counts.groups()[0].histogram.len(), 2);
}

#[test]
fn bins_cover_everything_once() {
    for rounds in [0, 1, 23, 24, 60] {
        let counts = counted(VitPreset::Pico, "random-binary:0.5", &vec![1; rounds]);
        for group in counts.groups() {
            let bins = group.bins(24);
            assert!(bins.len() <= 24);
            assert_eq!((bins[0].from, bins[bins.len() - 1].to), (0, rounds as u32));
            assert!(bins.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
            assert!((bins.iter().map(|bin| bin.share).sum::<f64>() - 1.0).abs() < 1e-9);
            assert!((bins.iter().map(|bin| bin.expected).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
