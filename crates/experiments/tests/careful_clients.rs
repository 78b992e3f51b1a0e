//! What a client's check of a plan finds: every doctored plan, and nothing in honest rounds.

use unmask_attack::{Cut, feature_fishing, fishing, imprint, zero_head};
use unmask_client::{Announced, Doubt, PlanCheck, flat_pictures, picture_losses};
use unmask_core::{Architecture, OptimiserKind, Rule, VitConfig, VitPreset};
use unmask_data::datasets::{DataSet, Labelled};
use unmask_model::{Network, device::OpenDevice};
use unmask_simulation::{Config, Simulation};

#[path = "support/honest.rs"]
mod honest;

/// Pictures `[3, side, side]` in [0, 1] of a few waves.
fn pictures(side: usize, count: usize) -> Vec<Vec<f32>> {
    let value = |k: usize, i: usize| ((i * (k + 2)) as f32 * 0.031 + k as f32).sin() * 0.4 + 0.5;
    (0..count).map(|k| (0..3 * side * side).map(|i| value(k, i)).collect()).collect()
}

fn data(side: usize) -> DataSet {
    let half = |first: usize| {
        let hwc = |picture: &Vec<f32>| -> Vec<u8> {
            let area = side * side;
            (0..3 * area).map(|i| (picture[i % 3 * area + i / 3] * 255.0) as u8).collect()
        };
        let pixels = pictures(side, first + 60)[first..].iter().flat_map(hwc).collect();
        let classes = (0..10).map(|class| format!("class {class}")).collect();
        Labelled::new(side, classes, pixels, (0..60).map(|k| (k % 10) as u8).collect()).unwrap()
    };
    DataSet { name: "waves".to_owned(), train: half(0), test: half(60), left_out: Vec::new() }
}

/// The flat pictures of a batch at these weights.
fn flat(architecture: Architecture, weights: &[f32]) -> Option<Doubt> {
    let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
    let state = unmask_core::ModelState::from_weights(weights.to_vec());
    let images = pictures(architecture.side(), 8).concat();
    let logits = network.logits_blocking(&state, &images, 8).unwrap();
    let labels: Vec<usize> = (0..8).collect();
    let layout = architecture.layout();
    flat_pictures(&picture_losses(&logits, &labels, layout.slice(weights, "head.weight").unwrap()))
}

/// Weights that each attack sends, by name.
fn doctored(config: &VitConfig, honest: &[f32]) -> Vec<(&'static str, Vec<f32>)> {
    let cut = Cut::random(config.dim, 1);
    vec![
        ("fishing", fishing(config, honest, 3).unwrap()),
        ("feature-fishing", feature_fishing(config, honest, 3, &cut).unwrap()),
        ("a head of zeros", zero_head(config, honest).unwrap()),
        ("imprint", imprint(config, honest, &pictures(config.image, 4), 1).unwrap()),
    ]
}

/// Each attack is caught by a first plan, which has none before it, and after an honest one under every rule.
#[test]
fn every_doctored_plan_raises_a_doubt() {
    let config = VitConfig::from(VitPreset::Nano);
    let architecture = Architecture::Vit(config);
    let honest = architecture.initial(1).weights;
    let rules = [
        (Rule::FedSgd, OptimiserKind::SGD),
        (Rule::FedSgd, OptimiserKind::ADAM),
        (Rule::FedAvg { epochs: 1, rate: 0.1 }, OptimiserKind::SGD),
    ];
    for (name, now) in doctored(&config, &honest) {
        for (rule, optimiser) in rules {
            let announced = Announced { rule, optimiser, rounds: 1, steps: 4, noise: 0.0 };
            for before in [None, Some(honest.as_slice())] {
                let check = PlanCheck { architecture, before, now: &now, announced };
                assert!(!check.doubts().is_empty(), "{name}, {rule}, {optimiser}, {}", before.is_some());
            }
        }
    }
    assert_eq!(flat(architecture, &honest), None);
    let caught: Vec<bool> =
        doctored(&config, &honest).iter().map(|(_, weights)| flat(architecture, weights).is_some()).collect();
    assert_eq!(caught, [true, true, true, false], "imprinting leaves the loss as it is");
    // The victim of inconsistent models gets honest weights: only comparing with others would show it.
    let announced = Announced { rule: Rule::FedSgd, optimiser: OptimiserKind::SGD, rounds: 1, steps: 1, noise: 0.0 };
    let victim = PlanCheck { architecture, before: Some(&honest), now: &honest, announced };
    assert_eq!(victim.doubts(), []);
}

/// Honest rounds under every rule, optimiser and kind of defence, from fresh weights until the pictures are learnt.
#[test]
fn honest_rounds_raise_none() {
    let runs: [(&[&str], u32); 11] = [
        (&["optimiser=sgd:0.1"], 60),
        (&["optimiser=sgd:1"], 30),
        (&["optimiser=adam:0.001"], 120),
        (&["optimiser=adam:0.01"], 60),
        (&["rule=fedavg:epochs=1,rate=0.1"], 30),
        (&["rule=fedavg:epochs=5,rate=0.05"], 20),
        (&["rule=fedavg:epochs=1,rate=0.1", "defence=random-binary:0.8"], 20),
        (&["defence=random-binary:0.8", "optimiser=sgd:0.1"], 40),
        (&["defence=fixed-position", "optimiser=adam:0.001"], 20),
        (&["defence=gaussian:eps=4,delta=1e-5,clip=0.5", "optimiser=sgd:0.1"], 40),
        (&["model=resnet_nano", "optimiser=sgd:0.1"], 10),
    ];
    let mut checked = 0;
    for (overrides, rounds) in runs {
        let text = format!("model = 'vit_pico_patch4_16'\nbatch = 4\nrounds = {rounds}\nevaluate-every = 0");
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::read(&text, &overrides).unwrap();
        let side = if overrides[0].contains("resnet") { 32 } else { 16 };
        let data = data(side);
        let mut simulation = Simulation::new(&config, &data, &OpenDevice::cpu()).unwrap();
        let architecture = simulation.architecture();
        let of = |key: &str| overrides.iter().find_map(|text| text.strip_prefix(key));
        let rule: Rule = of("rule=").map_or(Rule::FedSgd, |text| text.parse().unwrap());
        let optimiser: OptimiserKind = of("optimiser=").map_or(OptimiserKind::SGD, |text| text.parse().unwrap());
        let defence: unmask_core::Defence =
            of("defence=").map_or(unmask_core::Defence::None, |text| text.parse().unwrap());
        let noise = defence.noise().map_or(0.0, |noise| noise.deviation());
        // Twelve pictures of each of five clients, in batches of four.
        let announced = Announced { rule, optimiser, rounds: 1, steps: rule.local_steps(60, 4), noise };
        let mut before: Option<Vec<f32>> = None;
        for round in 0..rounds {
            let now = simulation.state().unwrap().weights;
            let check = PlanCheck { architecture, before: before.as_deref(), now: &now, announced };
            assert_eq!(check.doubts(), [], "{overrides:?}, round {round}");
            if architecture.vit().is_some() && round % 10 == 0 {
                assert_eq!(flat(architecture, &now), None, "{overrides:?}, round {round}");
            }
            checked += 1;
            before = Some(now);
            simulation.step().unwrap();
        }
    }
    assert_eq!(checked, runs.iter().map(|(_, rounds)| rounds).sum::<u32>());
}

/// A room that changes its settings all the time, as its clients hear of it. `cargo xtask example honest_rounds` plays 10,000
/// rounds.
#[test]
fn an_honest_room_raises_none() {
    let played = honest::play(200, 7);
    assert_eq!(played.alarms, Vec::<String>::new());
    assert!(played.rounds == 200 && played.steps > 150 && played.plans > 500 && played.resets > 2, "{played:?}");
}
