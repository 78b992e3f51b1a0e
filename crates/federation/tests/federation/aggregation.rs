//! Eqs. 1 to 4 against a naive computation.

use std::sync::Arc;

use proptest::prelude::*;
use unmask_core::{Aggregation, Architecture, Defence, GroupRates, MaskSeed, ParamGroup, ParamLayout, Rule, VitPreset};
use unmask_defence::{FROZEN_SEED, KeyMaterial, Mask, PlainUpdate, Protect, ProtectedUpdate};
use unmask_federation::{Aggregate, Optimiser, UpdateCounts};

fn layout() -> Arc<ParamLayout> {
    Arc::new(Architecture::from(VitPreset::Pico).layout())
}

/// Weights or gradients that differ between clients.
fn values(len: usize, client: usize) -> Vec<f32> {
    (0..len).map(|i| ((client * 31 + i * 17) % 101) as f32 / 50.0 - 1.0).collect()
}

fn protect(defence: Defence, layout: &ParamLayout, values: Vec<f32>, seed: [u8; 32]) -> ProtectedUpdate {
    let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
    defence.protect(layout, PlainUpdate { values, reference: None }, keys).unwrap()
}

#[derive(Debug, Clone)]
struct Client {
    seed: [u8; 32],
    samples: u32,
}

fn client() -> impl Strategy<Value = Client> {
    (any::<[u8; 32]>(), 1u32..=1_000_000).prop_map(|(seed, samples)| Client { seed, samples })
}

/// Rates at which some parameters are sent by no client, by all and by some.
fn rates() -> impl Strategy<Value = GroupRates> {
    prop_oneof![any::<[u16; 7]>(), any::<u16>().prop_map(|bits| [bits; 7])].prop_map(GroupRates::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Checks Eqs. 2 and 4 (1 and 3 at R = 0) against f64 with explicit masks, and the weights after every rule and
    /// optimiser. Parameters that nobody sent, or fewer clients than asked for, must stay bit for bit the same.
    #[test]
    fn agrees_with_a_naive_f64_mean(
        clients in proptest::collection::vec(client(), 1..7),
        rates in rates(),
        rate in 0.001f32..1.0,
        way in 0usize..3,
        min_kept in 1u32..4,
    ) {
        let layout = layout();
        let len = layout.len();
        let defence = Defence::RandomBinary { rates };
        let rule = if way == 2 { Rule::FED_AVG } else { Rule::FedSgd };
        let mut optimiser = Optimiser::new(if way == 1 { format!("adam:{rate}") } else { format!("sgd:{rate}") }.parse().unwrap());
        let mut aggregate =
            Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean).with_min_kept(min_kept);
        let (mut sums, mut weights, mut keepers) = (vec![0f64; len], vec![0u64; len], vec![0u32; len]);
        for (number, Client { seed, samples }) in clients.iter().enumerate() {
            let weight = if rule.is_fedavg() { *samples } else { 1 };
            let plain = values(len, number);
            aggregate.add(&protect(defence, &layout, plain.clone(), *seed), weight, None).unwrap();
            for (i, kept) in Mask::new(MaskSeed(*seed), &rates, &layout).entries().enumerate() {
                sums[i] += f64::from(u8::from(kept)) * f64::from(weight) * f64::from(plain[i]);
                weights[i] += u64::from(kept) * u64::from(weight);
                keepers[i] += u32::from(kept);
            }
        }
        let before: Vec<f32> = (0..len).map(|i| i as f32 / 100.0).collect();
        let mut after = before.clone();
        let mut counts = UpdateCounts::new(Arc::clone(&layout), defence);
        aggregate.close(rule, &mut optimiser, &mut after, &mut counts).unwrap();
        let means = aggregate.mean();
        for i in 0..len {
            if keepers[i] < min_kept {
                prop_assert_eq!(means[i], None);
                prop_assert_eq!(after[i].to_bits(), before[i].to_bits());
                continue;
            }
            let mean = sums[i] / weights[i] as f64;
            let close = |value: f32, expected: f64, scale: f64| (f64::from(value) - expected).abs() < 2e-6 * scale;
            prop_assert!(close(means[i].unwrap(), mean, 1.0), "{:?} is not {mean}", means[i]);
            let w = f64::from(before[i]);
            match way {
                0 => prop_assert!(close(after[i], w - f64::from(rate) * mean, w + 1.0)),
                // Adam's first step is the rate, against the sign of the gradient.
                1 if mean.abs() > 1e-3 => {
                    let step = f64::from(rate) * mean.signum();
                    prop_assert!(close(after[i], w - step, 10.0 * w + 10.0), "{} is not {}", after[i], w - step);
                }
                1 => {}
                _ => prop_assert!(close(after[i], mean, 1.0)),
            }
        }
        let never = keepers.iter().filter(|keepers| **keepers < min_kept).count();
        let counted: u32 = counts.groups().iter().map(|group| group.histogram[0]).sum();
        prop_assert_eq!(counted as usize, never);
    }

    /// Eqs. 1 and 3 without masks; a fixed position embedding must not move, not even by rounding.
    #[test]
    fn unmasked_means_agree_as_well(samples in proptest::collection::vec(1u32..=1_000_000, 1..8), is_fixed: bool) {
        let layout = layout();
        let len = layout.len();
        let defence = if is_fixed { Defence::FixedPosition } else { Defence::None };
        let before: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut aggregate = Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean);
        let mut sums = vec![0f64; len];
        for (number, weight) in samples.iter().enumerate() {
            let plain = PlainUpdate { values: values(len, number), reference: Some(&before) };
            let keys = KeyMaterial { seed: MaskSeed([0; 32]), cipher: None };
            let update = defence.protect(&layout, plain, keys).unwrap();
            sums.iter_mut().zip(&update.values).for_each(|(sum, value)| *sum += f64::from(*weight) * f64::from(*value));
            aggregate.add(&update, *weight, None).unwrap();
        }
        let total: f64 = samples.iter().map(|weight| f64::from(*weight)).sum();
        let mut after = before.clone();
        let mut counts = UpdateCounts::new(Arc::clone(&layout), defence);
        aggregate.close(Rule::FED_AVG, &mut Optimiser::sgd(1.0), &mut after, &mut counts).unwrap();
        for param in layout.iter() {
            for i in param.range.clone() {
                if is_fixed && param.group == ParamGroup::Position {
                    prop_assert_eq!(after[i].to_bits(), before[i].to_bits());
                } else {
                    prop_assert!((f64::from(after[i]) - sums[i] / total).abs() < 2e-6);
                }
            }
        }
    }
}

/// The mean of Eq. 2 or 4 over many masks, for parameters that some client sent, with its standard error.
fn mean_over_masks(values: &[f32], samples: &[u32], rate: &str) -> (f64, f64) {
    let layout = layout();
    let defence: Defence = format!("random-binary:{rate}").parse().unwrap();
    let (mut total, mut squares, mut count) = (0f64, 0f64, 0f64);
    for trial in 0..60u8 {
        let mut aggregate = Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean);
        for (client, (value, weight)) in values.iter().zip(samples).enumerate() {
            let mut seed = [client as u8; 32];
            seed[0] = trial;
            aggregate.add(&protect(defence, &layout, vec![*value; layout.len()], seed), *weight, None).unwrap();
        }
        for mean in aggregate.mean().into_iter().flatten().map(f64::from) {
            total += mean;
            squares += mean * mean;
            count += 1.0;
        }
    }
    let mean = total / count;
    (mean, ((squares / count - mean * mean) / count).sqrt())
}

/// The expected value of Eq. 4 for a parameter that some client sent: the sum over all sets of senders.
fn expected_over_sets(values: &[f32], samples: &[u32], zero_rate: f64) -> f64 {
    let (mut expected, mut any) = (0.0, 0.0);
    for set in 1u32..1 << values.len() {
        let sent = |client: &usize| set >> client & 1 == 1;
        let chosen = (0..values.len()).filter(sent);
        let probability = (1.0 - zero_rate).powi(set.count_ones() as i32)
            * zero_rate.powi(values.len() as i32 - set.count_ones() as i32);
        let weight: f64 = chosen.clone().map(|client| f64::from(samples[client])).sum();
        let sum: f64 = chosen.map(|client| f64::from(samples[client]) * f64::from(values[client])).sum();
        expected += probability * sum / weight;
        any += probability;
    }
    expected / any
}

/// Eq. 2, and Eq. 4 with equal numbers of samples, are unbiased: their mean over masks is the mean of the plain
/// updates.
#[test]
fn masked_mean_of_equal_weights_is_unbiased() {
    let values = [1.0, 3.0, -2.0, 6.0];
    for (samples, rate) in [([1; 4], "0.5"), ([1; 4], "0.8"), ([25; 4], "0.2")] {
        let (mean, error) = mean_over_masks(&values, &samples, rate);
        assert!((mean - 2.0).abs() < 6.0 * error, "{mean} +- {error} at {rate}");
    }
}

/// With unequal numbers of samples, Eq. 4 is a ratio, and its mean over masks is not the plain weighted mean of 4.5.
/// The fewer values arrive, the closer it is to the unweighted mean of 2. The sum over all sets of senders gives its
/// value.
#[test]
fn masked_mean_of_unequal_weights_is_that_over_all_sets_of_senders() {
    let (values, samples) = ([1.0, 3.0, -2.0, 6.0], [1, 5, 2, 12]);
    let mut last = 4.4;
    for rate in ["0.2", "0.5", "0.8"] {
        let expected = expected_over_sets(&values, &samples, rate.parse().unwrap());
        let (mean, error) = mean_over_masks(&values, &samples, rate);
        assert!((mean - expected).abs() < 6.0 * error, "{mean} +- {error} is not {expected}");
        assert!(expected < last && expected > 2.0, "{expected}");
        last = expected;
    }
}

#[test]
fn refused_update_changes_nothing() {
    let layout = layout();
    let mut aggregate = Aggregate::new(Arc::clone(&layout), Defence::None, Aggregation::Mean);
    aggregate.add(&ProtectedUpdate::dense(values(layout.len(), 1)), 3, None).unwrap();
    let before = aggregate.clone();
    let mut poisoned = values(layout.len(), 2);
    poisoned[17] = f32::INFINITY;
    assert!(aggregate.add(&ProtectedUpdate::dense(poisoned), 1, None).is_err());
    assert!(aggregate.add(&ProtectedUpdate::dense(vec![1.0]), 1, None).is_err());
    assert!(aggregate.add(&ProtectedUpdate::dense(values(layout.len(), 2)), 0, None).is_err());
    assert!(aggregate.add(&ProtectedUpdate::dense(values(layout.len(), 2)), u32::MAX - 2, None).is_err());
    let masked: Defence = "random-binary:0.5".parse().unwrap();
    assert!(aggregate.add(&protect(masked, &layout, values(layout.len(), 2), [1; 32]), 1, None).is_err());
    assert_eq!(aggregate, before);
}

/// A room takes each seed once, except for a mask that all clients share.
#[test]
fn updates_under_one_mask_are_averaged_by_their_weights() {
    let layout = layout();
    let defence = "random-binary:0.5".parse().unwrap();
    let mut aggregate = Aggregate::new(Arc::clone(&layout), defence, Aggregation::Mean);
    for (value, samples) in [(0.0, 2), (1.0, 3)] {
        let update = protect(defence, &layout, vec![value; layout.len()], [7; 32]);
        aggregate.add(&update, samples, None).unwrap();
    }
    assert_eq!(aggregate.weight(), 5);
    let sent: Vec<f32> = aggregate.mean().into_iter().flatten().collect();
    assert!(sent.len() < layout.len() && sent.iter().all(|mean| (mean - 0.6).abs() < 1e-6));
}

/// Without masks all updates have every value; so do those under one mask, in what it keeps.
#[test]
fn enough_updates_of_the_same_values_are_averaged_as_without_a_minimum() {
    let layout = layout();
    for aggregation in [Aggregation::Mean, Aggregation::Clipped, Aggregation::Median] {
        for defence in ["none", "fixed-position", "frozen-binary:0.5"] {
            let defence: Defence = defence.parse().unwrap();
            let mean = |min_kept| {
                let aggregate = Aggregate::new(Arc::clone(&layout), defence, aggregation);
                let mut aggregate = aggregate.with_min_kept(min_kept);
                for client in 0..3 {
                    let plain = values(layout.len(), client);
                    aggregate.add(&protect(defence, &layout, plain, FROZEN_SEED.0), 7, None).unwrap();
                }
                let (mut weights, mut optimiser) = (vec![0.0; layout.len()], Optimiser::sgd(0.1));
                let mut counts = UpdateCounts::new(Arc::clone(&layout), defence);
                aggregate.close(Rule::FedSgd, &mut optimiser, &mut weights, &mut counts).unwrap();
                (weights, counts.rounds())
            };
            let (plain, rounds) = mean(1);
            assert!(plain.iter().any(|weight| *weight != 0.0) && rounds == 1);
            assert_eq!(mean(3), (plain, rounds), "{defence}, {aggregation}");
            assert_eq!(mean(4), (vec![0.0; layout.len()], 0), "{defence}, {aggregation}");
        }
    }
}
