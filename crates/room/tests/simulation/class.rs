//! A class whose clients a test moves one by one.

use std::{sync::Arc, time::Duration};

use unmask_core::{Architecture, OptimiserKind, UpdateForm, VitPreset};
use unmask_journal::simulated::Disk;
use unmask_room::{
    JournalConfig, RoomConfig,
    bench::{Bench, Sent, Surroundings},
};
use unmask_wire::{ClientMessage, PlanHeader, RelayMessage, frames};

pub const RATE: f32 = 0.5;

pub fn architecture() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

/// A room with clients that do what a test says.
pub struct Class {
    pub bench: Bench,
    pub sockets: Vec<usize>,
}

impl Class {
    /// A room with this many clients, each with a browser of its own.
    pub fn of(clients: usize, change: impl FnOnce(&mut RoomConfig)) -> Self {
        Self::open(Surroundings::default(), clients, change)
    }

    /// The same, and the lesson is saved.
    pub fn on(disk: Disk, clients: usize, change: impl FnOnce(&mut RoomConfig)) -> Self {
        let surroundings = Surroundings { disk: Some(Arc::new(disk)), ..Surroundings::default() };
        let saved = |config: &mut RoomConfig| {
            config.journal = Some(JournalConfig::default());
            change(config);
        };
        Self::open(surroundings, clients, saved)
    }

    fn open(surroundings: Surroundings, clients: usize, change: impl FnOnce(&mut RoomConfig)) -> Self {
        let mut config = RoomConfig {
            architecture: architecture(),
            optimiser: OptimiserKind::Sgd { rate: RATE },
            pace: Duration::from_millis(100),
            attack_budget: Duration::ZERO,
            seed: Some(1),
            ..RoomConfig::default()
        };
        change(&mut config);
        let mut class = Self { bench: Bench::open(config, surroundings).unwrap(), sockets: Vec::new() };
        for number in 0..clients {
            let socket = class.bench.connect_from(number as u128);
            class.join(socket, None);
            class.sockets.push(socket);
        }
        class
    }

    /// Says hello, with the ticket of last time if there is one. Returns the next ticket if the room lets the socket in.
    pub fn join(&mut self, socket: usize, resume: Option<[u8; 16]>) -> Option<[u8; 16]> {
        self.join_as(socket, resume, false)
    }

    pub fn join_as_robot(&mut self) -> usize {
        let socket = self.bench.connect_from(u128::MAX);
        self.join_as(socket, None, true);
        socket
    }

    fn join_as(&mut self, socket: usize, resume: Option<[u8; 16]>, is_robot: bool) -> Option<[u8; 16]> {
        let (nickname, device) = (format!("client {socket}"), "CPU".to_owned());
        let hello = ClientMessage::Hello {
            nickname,
            resume,
            device,
            may_show: false,
            may_lend: false,
            is_robot,
            commitment: [0; 32],
            page: [0; 32],
        };
        self.say(socket, &hello, &[]);
        self.bench.sent(socket).into_iter().find_map(|sent| match sent {
            Sent::Message(RelayMessage::Welcome { resume, .. }) => Some(resume),
            _ => None,
        })
    }

    pub fn say(&mut self, socket: usize, message: &ClientMessage, values: &[f32]) {
        frames(message, values).unwrap().iter().for_each(|frame| self.bench.receive(socket, frame));
    }

    /// The newest plan on a socket, with its weights.
    pub fn plan(&mut self, socket: usize) -> Option<(PlanHeader, Vec<f32>)> {
        let sent = self.bench.sent(socket).into_iter();
        sent.filter_map(|sent| match sent {
            Sent::Model(message, state) => match message.as_ref() {
                RelayMessage::Plan(plan) => Some((plan.clone(), state.weights)),
                _ => None,
            },
            _ => None,
        })
        .last()
    }

    pub fn update(&mut self, socket: usize, plan: &PlanHeader, values: &[f32]) {
        let (round, policy) = (plan.round, plan.policy);
        let update =
            ClientMessage::Update { round, policy, loss: 2.3, samples: 1, form: UpdateForm::Dense, draw: None };
        self.say(socket, &update, values);
    }

    /// A room without a norm to compare with moves by this gradient's mean.
    pub fn gradient() -> Vec<f32> {
        (0..architecture().layout().len()).map(|i| ((i * 17) % 101) as f32 / 500.0 - 0.1).collect()
    }

    pub fn weights(&self) -> Vec<f32> {
        self.bench.model().state.weights.clone()
    }
}

pub fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}
