//! A room of ten clients, two of them hostile, against the same room of ten honest ones, on the generated shapes.
//!
//! `cargo xtask test --test hostile_clients` runs a short version. The whole table, 50 rounds of three seeds:
//! `cargo xtask test --test hostile_clients whole_table -- --ignored --nocapture`.

use std::{collections::BTreeMap, sync::LazyLock};

use rayon::prelude::*;
use unmask_client::{Batch, LocalTask};
use unmask_core::{
    Aggregation, Architecture, ClientId, MaskSeed, OptimiserKind, RoundSettings, Rule, TrainingPictures,
};
use unmask_data::datasets::{
    DataSet,
    generated::{Half, generate},
};
use unmask_federation::{Effect, Event, GlobalModel, ReceivedUpdate, Room};
use unmask_model::{Network, block_on, device::OpenDevice};

const CLIENTS: usize = 10;
const HOSTILE: usize = 2;
const SHARD: usize = 64;
const TEST: usize = 500;

/// What a hostile client does to the update that it would have sent.
#[derive(Debug, Clone, Copy)]
enum Attack {
    None,
    /// The largest values there are.
    Value(f32),
    /// Its own update times this.
    Times(f32),
    /// A claim to so many samples.
    Samples(u32),
}

const ATTACKS: [Attack; 5] =
    [Attack::Value(1e38), Attack::Times(100.0), Attack::Times(-1.0), Attack::Samples(1_000_000), Attack::Value(1e25)];

struct Federation<'a> {
    data: &'a DataSet,
    network: Network,
    seed: u64,
    batch: usize,
}

static DATA: LazyLock<DataSet> = LazyLock::new(|| DataSet {
    name: "generated".to_owned(),
    train: generate(Half::Train, CLIENTS * SHARD, 7).unwrap(),
    test: generate(Half::Test, TEST, 7).unwrap(),
    left_out: Vec::new(),
});

impl Federation<'_> {
    fn batch(&self, indices: &[usize]) -> Batch {
        let side = self.network.architecture().side();
        let images = indices.iter().flat_map(|&i| self.data.train.chw_resized(i, side).unwrap()).collect();
        Batch { images, labels: indices.iter().map(|&i| self.data.train.labels()[i].into()).collect() }
    }

    /// Pictures of `client` in `round`.
    fn pictures(&self, client: usize, round: u32, rule: Rule) -> Batch {
        let first = if rule.is_fedavg() { 0 } else { round as usize * self.batch };
        let most = if rule.is_fedavg() { SHARD } else { self.batch };
        let indices: Vec<usize> = (first..first + most).map(|i| client + CLIENTS * (i % SHARD)).collect();
        self.batch(&indices)
    }

    /// Accuracy after `rounds` rounds, each of which must leave finite weights.
    fn run(&self, defence: &str, rule: &str, optimiser: &str, attack: Attack, rounds: u32) -> f64 {
        let optimiser: OptimiserKind = optimiser.parse().unwrap();
        let settings =
            RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), self.batch as u16, optimiser)
                .unwrap()
                .with_pictures(TrainingPictures::Shared { shard: 1 })
                .with_aggregation(Aggregation::Clipped);
        let architecture = self.network.architecture();
        let layout = architecture.layout();
        let mut room = Room::new(GlobalModel { architecture, state: architecture.initial(self.seed) }, settings);
        for client in 0..CLIENTS {
            room.handle(Event::Joined(ClientId(client as u32)));
            room.handle(Event::Given { client: ClientId(client as u32), pictures: SHARD as u32 });
        }
        let mut effects = room.handle(Event::Start);
        for round in 0..rounds {
            let Some((policy, model)) = effects.iter().find_map(|effect| match effect {
                Effect::Plan { policy, model, .. } => Some((*policy, model.clone())),
                _ => None,
            }) else {
                panic!("no plan in round {round}: {effects:?}");
            };
            let task = LocalTask {
                layout: &layout,
                state: &model.state,
                rule: settings.rule(),
                batch: self.batch,
                defence: settings.defence(),
                cipher: None,
            };
            let answers: BTreeMap<usize, Event> = (0..CLIENTS)
                .into_par_iter()
                .map(|client| {
                    let pictures = self.pictures(client, round, settings.rule());
                    let trained = block_on(task.train(&self.network, &pictures)).unwrap();
                    let mut seed = [0; 32];
                    seed[..8].copy_from_slice(&self.seed.to_le_bytes());
                    (seed[8], seed[9]) = (round as u8, client as u8);
                    let mut update = task.protect(trained.values, MaskSeed(seed)).unwrap();
                    let (mut samples, mut loss) = (trained.samples, trained.loss);
                    if client < HOSTILE {
                        match attack {
                            Attack::None => {}
                            Attack::Value(value) => {
                                update.values.fill(value);
                                loss = value;
                            }
                            // Under FedAvg it is the change of the weights that is multiplied.
                            Attack::Times(factor) => {
                                let zeros = vec![0.0; layout.len()];
                                let global = if settings.rule().is_fedavg() { &model.state.weights } else { &zeros };
                                let checked = update.checked(&layout).unwrap();
                                update.values = checked.scaled(Some(global), f64::from(factor));
                            }
                            Attack::Samples(claimed) => samples = claimed,
                        }
                    }
                    let (id, round) = (ClientId(client as u32), round + 1);
                    let statistics = trained.statistics;
                    (
                        client,
                        Event::Update(ReceivedUpdate { client: id, round, policy, loss, samples, update, statistics }),
                    )
                })
                .collect();
            drop(model);
            for answer in answers.into_values() {
                effects = room.handle(answer);
                let refused = effects.iter().find(|effect| matches!(effect, Effect::Refused { .. }));
                assert!(refused.is_none(), "{refused:?}");
            }
            assert!(room.model().state.weights.iter().all(|weight| weight.is_finite()), "{attack:?}, round {round}");
            let summary = effects.iter().find_map(|effect| match effect {
                Effect::Closed(summary) => Some(summary),
                _ => None,
            });
            assert!(summary.unwrap().loss.is_none_or(|loss| loss < 100.0), "{summary:?}");
            effects = room.handle(Event::Begin);
        }
        self.accuracy(&room)
    }

    fn accuracy(&self, room: &Room) -> f64 {
        let side = self.network.architecture().side();
        let correct: usize = (0..TEST)
            .collect::<Vec<_>>()
            .par_chunks(50)
            .map(|indices| {
                let images: Vec<f32> =
                    indices.iter().flat_map(|&i| self.data.test.chw_resized(i, side).unwrap()).collect();
                let labels: Vec<usize> = indices.iter().map(|&i| self.data.test.labels()[i].into()).collect();
                self.network.evaluate_blocking(&room.model().state, &images, &labels).unwrap().correct
            })
            .sum();
        correct as f64 / TEST as f64
    }
}

fn federation(model: &str, seed: u64, batch: usize) -> Federation<'static> {
    let architecture = Architecture::named(model, 10).unwrap();
    let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
    Federation { data: &DATA, network, seed, batch }
}

/// Five rounds of the smallest model: no attack is refused, excluded or felt in a weight that is not finite.
#[test]
fn two_hostile_clients_leave_the_weights_finite() {
    let federation = federation("vit_pico_patch4_16", 1, 4);
    for attack in ATTACKS {
        for (rule, optimiser) in [("fedsgd", "adam:0.001"), ("fedavg:epochs=1,rate=0.05", "sgd:0.1")] {
            federation.run("random-binary:0.5", rule, optimiser, attack, 5);
        }
    }
}

/// Mean accuracy of three seeds, clean and under each attack. The worst may be two points below the clean one.
#[test]
#[ignore = "needs about an hour: cargo xtask test --test hostile_clients whole_table -- --ignored --nocapture"]
fn whole_table() {
    let mut worst = f64::INFINITY;
    for (rule, optimiser) in [("fedsgd", "sgd:0.1"), ("fedsgd", "adam:0.002"), ("fedavg:epochs=1,rate=0.05", "sgd:0.1")]
    {
        for defence in ["none", "random-binary:0.5"] {
            let mean = |attack| {
                let run = |seed| federation("vit_nano_patch4_32", seed, 16).run(defence, rule, optimiser, attack, 50);
                (1..=3).map(run).sum::<f64>() / 3.0
            };
            let clean = mean(Attack::None);
            println!("{rule} {optimiser} {defence}: clean {clean:.3}");
            for attack in ATTACKS {
                let accuracy = mean(attack);
                println!("    {attack:?}: {accuracy:.3}");
                worst = worst.min(accuracy - clean);
            }
        }
    }
    assert!(worst >= -0.02, "{worst:+.3} against the clean run");
}
