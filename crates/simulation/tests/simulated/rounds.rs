//! Rounds from a caller's view: they learn, depend only on config and pictures, and follow the papers' equations.

use std::{collections::HashSet, ops::ControlFlow};

use unmask_core::{ParamGroup, Rule};
use unmask_model::{Network, device::OpenDevice};
use unmask_simulation::Simulation;

use super::common::{COLOURS, colours, config, simulation, trained};

/// Both rules, several defences, and batch norm.
const RUNS: [&[&str]; 8] = [
    &["defence=random-binary:0.5"],
    &["optimiser=sgd:0.1", "defence=gaussian:eps=4,delta=0.5,clip=0.5", "augment=true"],
    &["rule=fedavg:epochs=1,rate=0.05", "defence=random-binary:0.2", "partition=dirichlet:0.5"],
    &["defence=encrypted", "passphrase=violet otter", "optimiser=sgd:0.1"],
    &["model=resnet_nano", "schedule=cosine:warmup=1", "rounds=2"],
    &["model=resnet_nano", "rule=fedavg:epochs=1,rate=0.05", "rounds=1", "clients=3", "train-slice=0..24"],
    &["secure-sum=threshold=0.8", "defence=gaussian:eps=4,delta=1e-5,clip=0.5"],
    // Large enough to split a single client's matrix products over several threads.
    &["model=vit_nano_patch4_32", "batch=16", "rounds=2", "clients=3", "evaluate-every=0"],
];

#[test]
fn threads_change_no_bit() {
    for run in RUNS {
        let with = |threads: &str| trained(&[run, &[threads]].concat());
        let one = with("threads=1");
        for threads in ["threads=2", "threads=4"] {
            let more = with(threads);
            let differing = one.0.iter().zip(&more.0).filter(|(a, b)| a != b).count();
            assert_eq!(differing, 0, "{run:?}, {threads}: {differing} of {} weights differ", one.0.len());
            assert_eq!(one.1, more.1, "{run:?}, {threads}");
        }
    }
}

#[test]
fn the_seed_decides_everything() {
    assert_eq!(trained(&["augment=true"]), trained(&["augment=true"]));
    assert_ne!(trained(&["seed=1"]).0, trained(&["seed=2"]).0);
}

/// Repeats a round by hand: the mean of the clients' gradients on their pictures, then SGD.
#[test]
fn a_round_is_equation_1() {
    let mut simulation = simulation(&["optimiser=sgd:0.5", "clients=3"]);
    let network = Network::new(simulation.architecture(), OpenDevice::cpu().device()).unwrap();
    for _ in 0..2 {
        let (before, pictures) = (simulation.state().unwrap(), simulation.next_pictures());
        let mut mean = vec![0.0f64; before.weights.len()];
        let mut losses = 0.0;
        for indices in &pictures {
            assert_eq!(indices.len(), 4);
            let images: Vec<f32> = indices.iter().flat_map(|&i| COLOURS.train.chw(i).unwrap()).collect();
            let labels: Vec<usize> = indices.iter().map(|&i| COLOURS.train.labels()[i].into()).collect();
            let step = network.loss_and_gradient_blocking(&before, &images, &labels).unwrap();
            mean.iter_mut().zip(step.gradient).for_each(|(sum, value)| *sum += f64::from(value) / 3.0);
            losses += f64::from(step.loss) / 3.0;
        }
        let report = simulation.step().unwrap();
        let loss = f64::from(report.loss.unwrap());
        assert!((loss - losses).abs() < 1e-5, "{loss} {losses}");
        for ((after, before), gradient) in simulation.state().unwrap().weights.iter().zip(before.weights).zip(mean) {
            let expected = f64::from(before) - 0.5 * gradient;
            assert!((f64::from(*after) - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{after} {expected}");
        }
    }
}

/// Repeats a FedAvg round by hand: the mean of the clients' weights, weighted by their numbers of pictures.
#[test]
fn an_averaging_round_is_equation_3() {
    let overrides = ["rule=fedavg:epochs=2,rate=0.05", "partition=dirichlet:0.3", "clients=3", "model=resnet_nano"];
    let mut simulation = simulation(&[&overrides[..], &["train-slice=0..20"]].concat());
    let sizes: Vec<usize> = simulation.next_pictures().iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 20);
    assert!(sizes.iter().collect::<HashSet<_>>().len() > 1, "{sizes:?}");
    let network = Network::new(simulation.architecture(), OpenDevice::cpu().device()).unwrap();
    let before = simulation.state().unwrap();
    let side = simulation.architecture().side();
    let mut weights = vec![0.0f64; before.weights.len()];
    let mut statistics = vec![0.0f64; before.statistics.len()];
    for indices in simulation.next_pictures() {
        let images: Vec<f32> = indices.iter().flat_map(|&i| COLOURS.train.chw_resized(i, side).unwrap()).collect();
        let labels: Vec<usize> = indices.iter().map(|&i| COLOURS.train.labels()[i].into()).collect();
        let local = network.train_locally_blocking(&before, &images, &labels, 4, 2, 0.05).unwrap().state;
        for (sums, values) in [(&mut weights, &local.weights), (&mut statistics, &local.statistics)] {
            sums.iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum += f64::from(*value) * indices.len() as f64 / 20.0);
        }
    }
    simulation.step().unwrap();
    let after = simulation.state().unwrap();
    assert!(!statistics.is_empty() && after.statistics != before.statistics);
    for (found, expected) in after.weights.iter().chain(&after.statistics).zip(weights.iter().chain(&statistics)) {
        assert!((f64::from(*found) - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
    }
}

#[test]
fn an_encrypted_run_is_the_plain_run() {
    let run = |overrides: &[&str]| {
        let mut simulation = simulation(&[overrides, &["optimiser=sgd:0.1", "rounds=10"]].concat());
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(())).unwrap();
        (outcome.state.weights, outcome.metrics.last().unwrap().test_accuracy)
    };
    let plain = run(&[]);
    let encrypted = run(&["defence=encrypted", "passphrase=violet otter"]);
    let keyed = run(&["defence=encrypted:keyed", "passphrase=violet otter"]);
    for other in [&encrypted, &keyed] {
        let difference: f64 = plain.0.iter().zip(&other.0).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let norm: f64 = plain.0.iter().map(|a| f64::from(*a).powi(2)).sum();
        assert!((difference / norm).sqrt() < 1e-4, "{:e}", (difference / norm).sqrt());
        assert_eq!(plain.1, other.1);
    }
    assert_ne!(plain.0, encrypted.0);
}

/// Parameters under a frozen mask are never trained, and a fixed position embedding does not change. Batch norm's
/// statistics do.
#[test]
fn defences_leave_their_marks() {
    let run = |overrides: &[&str]| {
        let mut simulation = simulation(overrides);
        let before = simulation.state().unwrap();
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(())).unwrap();
        let layout = simulation.architecture().layout();
        let unmoved = before.weights.iter().zip(&outcome.state.weights).filter(|(a, b)| a == b).count();
        (layout, before, outcome, unmoved)
    };
    let (layout, before, outcome, _) = run(&["defence=fixed-position"]);
    for param in &layout {
        let same = before.weights[param.range.clone()] == outcome.state.weights[param.range.clone()];
        assert_eq!(same, param.group == ParamGroup::Position, "{}", param.name);
    }
    let (layout, _, outcome, unmoved) = run(&["defence=frozen-binary:0.5", "rounds=6"]);
    let share = unmoved as f64 / layout.len() as f64;
    assert!((share - 0.5).abs() < 0.02, "{share}");
    assert_eq!(outcome.update_counts.rounds(), 6);
    let (_, before, outcome, _) = run(&["model=resnet_nano", "defence=random-binary:0.8", "rounds=1"]);
    let moved = before.statistics.iter().zip(&outcome.state.statistics).filter(|(a, b)| a != b).count();
    assert!(moved * 10 > 9 * before.statistics.len(), "{moved} of {} statistics moved", before.statistics.len());
}

/// One client with two batches per pass: masked parameters do not change.
#[test]
fn a_mask_lasts_a_round_or_a_pass() {
    let moved = |masks: &str| -> Vec<HashSet<usize>> {
        let set = ["clients=1", "train-slice=0..8", "batch=4", "optimiser=sgd:0.5", "defence=random-binary:0.5", masks];
        let mut simulation = simulation(&set);
        let mut round = || {
            let before = simulation.state().unwrap().weights;
            simulation.step().unwrap();
            let after = simulation.state().unwrap().weights;
            before.iter().zip(&after).enumerate().filter(|(_, (a, b))| a != b).map(|(index, _)| index).collect()
        };
        (0..4).map(|_| round()).collect()
    };
    let share = |a: &HashSet<usize>, b: &HashSet<usize>| a.intersection(b).count() as f64 / a.len() as f64;
    let epoch = moved("masks=epoch");
    for (first, second) in [(0, 1), (2, 3)] {
        assert!(share(&epoch[first], &epoch[second]) > 0.95, "one mask for the pass of rounds {first} and {second}");
    }
    assert!(share(&epoch[1], &epoch[2]) < 0.6, "another for the next pass");
    let round = moved("masks=round");
    assert!(share(&round[0], &round[1]) < 0.6);
}

#[test]
fn it_learns() {
    for overrides in [
        &["rounds=40", "optimiser=adam:0.003"][..],
        &["rounds=8", "rule=fedavg:epochs=2,rate=0.1"],
        &["rounds=40", "optimiser=adam:0.003", "defence=random-binary:0.5"],
        &["rounds=40", "optimiser=adam:0.003", "model=resnet_nano", "clients=1", "batch=6", "evaluate-every=40"],
    ] {
        let metrics = trained(overrides).1;
        let (start, end) = (metrics[0], metrics[metrics.len() - 1]);
        assert!(start.2.unwrap() < 0.6 && end.2.unwrap() > 0.9, "{overrides:?}: {start:?} {end:?}");
    }
}

#[test]
fn epochs_are_counted_in_pictures() {
    let rounds = |overrides: &[&str]| simulation(&[overrides, &["epochs=3"]].concat()).rounds();
    // 90 training pictures; 5 clients with 4 pictures per round.
    assert_eq!(rounds(&[]), 14);
    assert_eq!(rounds(&["clients=1", "batch=90"]), 3);
    assert_eq!(rounds(&["rule=fedavg:epochs=2,rate=0.1"]), 2);
    let mut simulation = simulation(&["epochs=1", "evaluate-every=0"]);
    let mut seen = HashSet::new();
    let mut last = 0.0;
    while simulation.round() < simulation.rounds() {
        seen.extend(simulation.next_pictures().into_iter().flatten());
        last = simulation.step().unwrap().epoch;
    }
    assert_eq!(seen.len(), 90);
    assert!((1.0..1.2).contains(&last), "{last}");
}

#[test]
fn a_slice_is_all_that_is_trained_on() {
    let simulation = simulation(&["train-slice=30..50", "clients=2", "batch=10"]);
    let mut pictures = simulation.next_pictures().concat();
    pictures.sort_unstable();
    assert_eq!(pictures, (30..50).collect::<Vec<_>>());
}

#[test]
fn tests_come_when_they_are_due() {
    let tested = |overrides: &[&str]| -> Vec<u32> {
        let metrics = trained(&[overrides, &["rounds=5"]].concat()).1;
        metrics.iter().filter(|metrics| metrics.2.is_some()).map(|metrics| metrics.0).collect()
    };
    assert_eq!(tested(&[]), [0, 2, 4, 5]);
    assert_eq!(tested(&["evaluate-every=0"]), [5]);
}

#[test]
fn what_cannot_work_is_said() {
    let refused = |overrides: &[&str], data| {
        Simulation::new(&config(overrides), data, &OpenDevice::cpu()).unwrap_err().to_string()
    };
    let few: &'static _ = Box::leak(Box::new(colours(4, 1)));
    assert!(refused(&["train-slice=80..91"], &COLOURS).contains("reaches beyond the 90 training pictures"));
    assert!(refused(&[], few).contains("4 pictures are too few for 5 clients"));
    assert!(refused(&["epochs=1", "schedule=cosine:warmup=9"], &COLOURS).contains("warms up for 9 rounds"));
    assert!(refused(&["start=nowhere.safetensors"], &COLOURS).contains("nowhere.safetensors"));
    let untested: &'static _ = Box::leak(Box::new(colours(30, 0)));
    assert!(refused(&[], untested).contains("colours has no test pictures"));
}

/// A rate that makes the training diverge ends the run with an error that names client and round. The model is
/// unchanged by that round.
#[test]
fn divergence_is_told_and_undone() {
    let mut simulation = simulation(&["optimiser=sgd:1e30", "rounds=50"]);
    let error = loop {
        let before = simulation.state().unwrap();
        match simulation.step() {
            Ok(_) => {}
            Err(error) => {
                let same = before
                    .weights
                    .iter()
                    .zip(simulation.state().unwrap().weights)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same);
                break error.to_string();
            }
        }
    };
    assert!(error.contains("client 0") && error.contains("round") && error.contains("a lower rate helps"), "{error}");
    assert!(matches!(config(&["rule=fedavg"]).rule, Rule::FedAvg { .. }));
}

/// What the server learns is the mean of the clients' updates, up to the rounding that the fixed point allows.
#[test]
fn a_secure_sum_is_the_plain_mean() {
    let rules = ["rule=fedsgd", "rule=fedavg:epochs=1,rate=0.05"];
    // Counting who kept a value leaves six bits less for it.
    let defences =
        [("defence=none", "secure-sum=clip=100", 1e-5), ("defence=random-binary:0.5", "secure-sum=clip=10", 1e-4)];
    for (rule, (defence, sum, allowed)) in rules.iter().flat_map(|rule| defences.map(|defence| (*rule, defence))) {
        let run = |overrides: &[&str]| {
            let mut simulation = simulation(&[overrides, &["optimiser=sgd:0.1", "rounds=6", rule, defence]].concat());
            simulation.run(&mut |_| ControlFlow::Continue(())).unwrap()
        };
        let (plain, summed) = (run(&[]), run(&[sum]));
        let difference = |other: &[f32]| -> f64 {
            let pairs = plain.state.weights.iter().zip(other);
            let norm: f64 = plain.state.weights.iter().map(|weight| f64::from(*weight).powi(2)).sum();
            (pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / norm).sqrt()
        };
        let found = difference(&summed.state.weights);
        assert!(found < allowed, "{rule}, {defence}: {found:e}");
        assert_ne!(plain.state.weights, summed.state.weights, "the sum is rounded");
        let clipped = run(&["secure-sum=clip=0.001"]).state.weights;
        assert!(difference(&clipped) > 1e-3, "{rule}: {:e}", difference(&clipped));
        assert_eq!(plain.update_counts.counts(), summed.update_counts.counts());
    }
}

/// With a secure sum the clients share the noise out: the mean of n has 1 / sqrt(n) of what it has when each adds all.
#[test]
fn noise_is_shared_out_in_a_secure_sum() {
    let noise = |overrides: &[&str]| {
        let always = ["optimiser=sgd:1", "rounds=1", "defence=gaussian:eps=4,delta=1e-5,clip=0.5"];
        let mut simulation = simulation(&[overrides, &always].concat());
        let before = simulation.state().unwrap().weights;
        simulation.step().unwrap();
        let after = simulation.state().unwrap().weights;
        let moved: f64 = before.iter().zip(&after).map(|(a, b)| f64::from(b - a).powi(2)).sum();
        (moved / before.len() as f64).sqrt()
    };
    let whole = 0.5 * (2.0 * (1.25_f64 / 1e-5).ln()).sqrt() / 4.0;
    for (found, expected) in [(noise(&[]), whole / 5_f64.sqrt()), (noise(&["secure-sum=threshold=0.67"]), whole / 5.0)]
    {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
    }
}

#[test]
fn a_sum_that_hides_nobody_or_cannot_be_made_is_refused() {
    for (overrides, expected) in [
        (&["secure-sum=clip=1", "clients=2"][..], "3 to 50 clients, and there are 2"),
        (&["secure-sum=clip=1", "clients=51"], "3 to 50 clients, and there are 51"),
        (&["secure-sum=clip=1", "model=resnet_nano"], "running statistics of resnet_nano"),
        (&["secure-sum=threshold=0.67"], "clips nothing with defence = \"none\"; add a length, such as clip=1"),
        (&["secure-sum=clip=1", "defence=gaussian"], "clips a second time"),
        (
            &["secure-sum=clip=1", "defence=gaussian:unclipped=1"],
            "fixed-position, random-binary or gaussian with a clip",
        ),
        (&["secure-sum=clip=1", "defence=frozen-binary:0.5"], "which the defence frozen-binary:0.5 does not send"),
    ] {
        let error = config(overrides).validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
