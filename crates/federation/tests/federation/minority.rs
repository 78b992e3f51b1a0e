//! Up to two of five clients are hostile and want to slow learning down, or to speed it up: the size of a step stays near
//! that of the honest ones alone.

use unmask_core::{
    Aggregation, Architecture, ClientId, Defence, MaskSeed, OptimiserKind, RoundSettings, Rule, VitPreset,
};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
use unmask_federation::{CLIP_FACTOR, Effect, Event, GlobalModel, ReceivedUpdate, Room, RoundSummary};

const CLIENTS: u32 = 10;
const HOSTILE: u32 = 4;

/// How large a hostile update is, as a multiple of an honest one, in each round.
#[derive(Debug, Clone, Copy)]
enum Size {
    Tiny,
    Huge,
    Growing,
    Shrinking,
}

impl Size {
    fn at(self, round: u32) -> f32 {
        match self {
            Self::Tiny => 1e-10,
            Self::Huge => 1e5,
            Self::Growing => 1.5_f32.powi(round as i32),
            Self::Shrinking => 0.5_f32.powi(round as i32),
        }
    }
}

struct Class {
    room: Room,
    seeds: u32,
}

impl Class {
    fn new(rule: Rule, defence: Defence, aggregation: Aggregation) -> Self {
        let architecture = Architecture::from(VitPreset::Pico);
        let model = GlobalModel { architecture, state: architecture.initial(1) };
        let settings = settings(rule, defence).with_aggregation(aggregation).unwrap();
        let mut room = Room::new(model, settings);
        (0..CLIENTS).for_each(|client| drop(room.handle(Event::Joined(ClientId(client)))));
        room.handle(Event::Start);
        Self { room, seeds: 0 }
    }

    /// Honest updates differ by a third in size.
    fn update(&mut self, client: u32, times: f32) -> Vec<Effect> {
        let layout = self.room.model().architecture.layout();
        let spread = 1.0 + 0.1 * (client % 4) as f32;
        let values = (0..layout.len()).map(|i| times * spread * ((i * 17 % 101) as f32 - 50.0) * 1e-4);
        self.seeds += 1;
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&self.seeds.to_le_bytes());
        let keys = KeyMaterial { seed: MaskSeed(seed), cipher: None };
        let values: Vec<f32> = values.collect();
        let reference = self.room.model().reference(self.room.settings().rule());
        let values = match reference {
            Some(weights) => weights.iter().zip(&values).map(|(weight, change)| weight - change).collect(),
            None => values,
        };
        let plain = PlainUpdate { values, reference };
        let update = self.room.settings().defence().protect(&layout, plain, keys).unwrap();
        let (round, policy, client) = (self.room.round(), self.room.policy(), ClientId(client));
        let received = ReceivedUpdate { client, round, policy, loss: 2.0, samples: 1, update, statistics: Vec::new() };
        self.room.handle(Event::Update(received))
    }

    /// A round in which hostile clients, `first` or last, send updates of this size.
    fn round(&mut self, size: f32, first: bool) -> (RoundSummary, f64) {
        let before = self.room.model().state.weights.clone();
        let mut order: Vec<u32> = (0..CLIENTS).collect();
        if !first {
            order.reverse();
        }
        let mut summary = None;
        for client in order {
            let effects = self.update(client, if client < HOSTILE { size } else { 1.0 });
            let closed = effects.into_iter().find_map(|effect| match effect {
                Effect::Closed(summary) => Some(summary),
                _ => None,
            });
            summary = summary.or(closed);
        }
        let square = |(after, before): (&f32, &f32)| f64::from(after - before).powi(2);
        let moved = self.room.model().state.weights.iter().zip(&before).map(square).sum::<f64>().sqrt();
        let summary = summary.or_else(|| {
            let deadline = Event::Deadline { round: self.room.round(), policy: self.room.policy() };
            self.room.handle(deadline).into_iter().find_map(|effect| match effect {
                Effect::Closed(summary) => Some(summary),
                _ => None,
            })
        });
        self.room.handle(Event::Begin);
        (summary.expect("a round that closed"), moved)
    }
}

fn settings(rule: Rule, defence: Defence) -> RoundSettings {
    RoundSettings::new(defence, rule, 1, OptimiserKind::Sgd { rate: 0.01 }).unwrap()
}

/// Two of five are hostile. A step is never longer than what their bound allows, which stays within twice the honest
/// median, nor much shorter than the honest clients alone move the model.
#[test]
fn a_minority_neither_stops_nor_drives_learning() {
    for (rule, aggregation) in
        [("fedsgd", Aggregation::Clipped), ("fedsgd", Aggregation::Aligned), ("fedavg", Aggregation::Clipped)]
    {
        let rule: Rule = rule.parse().unwrap();
        for (before, after) in [("none", "none"), ("none", "random-binary:0.5"), ("random-binary:0.9", "none")] {
            let [before, after]: [Defence; 2] = [before, after].map(|defence| defence.parse().unwrap());
            for size in [Size::Tiny, Size::Huge, Size::Growing, Size::Shrinking] {
                for first in [true, false] {
                    let what = format!("{rule}, {aggregation}, {before} to {after}, {size:?}, first {first}");
                    let mut class = Class::new(rule, before, aggregation);
                    // An honest class in which nobody is hostile is the measure.
                    let mut honest = Class::new(rule, before, aggregation);
                    for round in 0..12 {
                        if round == 6 {
                            for class in [&mut class, &mut honest] {
                                class.room.handle(Event::SetSettings(
                                    settings(rule, after).with_aggregation(aggregation).unwrap(),
                                ));
                            }
                        }
                        let (summary, moved) = class.round(size.at(round), first);
                        let (_, usual) = honest.round(1.0, first);
                        if round == 6 {
                            // The new settings are in force from the next round on.
                            continue;
                        }
                        assert!(moved > 0.3 * usual, "{what}: round {round} moves {moved:.1e}, {usual:.1e} is usual");
                        assert!(moved < 2.0 * usual, "{what}: round {round} moves {moved:.1e}, {usual:.1e} is usual");
                        // Honest clients are not accused.
                        assert!(summary.large.iter().all(|client| client.0 < HOSTILE), "{what}: {summary:?}");
                        if size.at(round) > 2.0 * CLIP_FACTOR as f32 && summary.updates == CLIENTS {
                            assert_eq!(summary.large.len() as u32, HOSTILE, "{what}: {summary:?}");
                        }
                    }
                }
            }
        }
    }
}
