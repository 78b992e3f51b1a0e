//! A light client: answers every plan immediately with an update of the right size, and records how its rounds went.

use std::{
    mem,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::time::sleep;
use unmask_core::UpdateForm;
use unmask_wire::{ClientMessage, PlanHeader, RelayMessage};

use crate::{measure::Times, relay::Door, socket::Socket};

/// Every value of every update: too small to move a model far.
const VALUE: f32 = 1e-3;
/// Every value of a tiny update: next to nothing.
const TINY: f32 = 1e-12;

/// What a client does with the plans it gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Conduct {
    /// Answers after this time.
    Honest(Duration),
    /// Answers immediately, with next to nothing.
    Tiny,
    /// Says that it was unable when the round is over, and asks to come back when it sits out.
    Unable,
    /// Never answers, and asks to come back when it sits out.
    Silent,
}

impl Conduct {
    pub(crate) const QUICK: Self = Self::Honest(Duration::ZERO);

    /// The value of all entries of its updates, and how long it takes; `None` if it sends none.
    fn answer(self) -> Option<(f32, Duration)> {
        match self {
            Self::Honest(time) => Some((VALUE, time)),
            Self::Tiny => Some((TINY, Duration::ZERO)),
            Self::Unable | Self::Silent => None,
        }
    }
}

/// The records of a swarm's clients since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Times from one plan to the next, at each client.
    pub(crate) intervals: Vec<Duration>,
    /// How far the weights moved from one plan to the next, if they are measured.
    pub(crate) steps: Vec<f64>,
    /// Clients that the room let in.
    pub(crate) welcomes: usize,
    pub(crate) accepted: u64,
    /// Plans without an accepted update.
    pub(crate) lost: u64,
    /// Why sockets ended unexpectedly or updates were rejected.
    pub(crate) troubles: Vec<String>,
}

impl Notes {
    /// How much longer than `pace` the intervals were.
    pub(crate) fn overhead(&self, pace: Duration) -> Times {
        self.intervals.iter().map(|interval| interval.saturating_sub(pace)).collect()
    }
}

/// The shared notebook of a swarm's clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notebook(Arc<Mutex<Notes>>);

impl Notebook {
    const MAX_TROUBLES: usize = 20;

    pub(crate) fn take(&self) -> Notes {
        mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, text: String) {
        let mut notes = self.lock();
        if notes.troubles.len() < Self::MAX_TROUBLES {
            notes.troubles.push(text);
        }
    }
}

/// One client, with one socket at a time.
#[derive(Debug, Clone)]
pub(crate) struct LightClient {
    pub(crate) door: Door,
    pub(crate) from: IpAddr,
    pub(crate) nickname: String,
    pub(crate) notebook: Notebook,
    pub(crate) ticket: Option<[u8; 16]>,
    pub(crate) conduct: Conduct,
    /// Whether it notes how far the weights move.
    pub(crate) measures_steps: bool,
}

/// The plan that was answered last.
#[derive(Debug, Clone, Copy)]
struct Answered {
    round: u32,
    at: Instant,
    is_accepted: bool,
}

impl LightClient {
    /// An honest client that answers immediately.
    pub(crate) fn new(door: &Door, from: IpAddr, nickname: String, notebook: &Notebook) -> Self {
        let (door, notebook) = (door.clone(), notebook.clone());
        Self { door, from, nickname, notebook, ticket: None, conduct: Conduct::QUICK, measures_steps: false }
    }

    /// Joins, and takes part until the first end of a round after `stay`. Records an earlier end of the socket.
    pub(crate) async fn visit(&mut self, stay: Duration) {
        let outcome = match Socket::open(&self.door, self.from, false).await {
            Ok(socket) => self.take_part(socket, stay).await,
            Err(error) => Err(error.context("no socket")),
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(reason)) => self.notebook.trouble(format!("{}: {reason}", self.nickname)),
            Err(error) => self.notebook.trouble(format!("{}: {error:#}", self.nickname)),
        }
    }

    /// Returns why the relay ended the socket; `None` if this client did.
    async fn take_part(&mut self, mut socket: Socket, stay: Duration) -> anyhow::Result<Option<String>> {
        let begun = Instant::now();
        socket.hello(&self.nickname, self.ticket).await?;
        let mut last: Option<Answered> = None;
        let (mut weights, mut asked): (Option<Vec<f32>>, Option<PlanHeader>) = (None, None);
        loop {
            let Some((message, mut values)) = socket.message().await? else {
                return Ok(Some("the relay closed the socket".to_owned()));
            };
            match message {
                RelayMessage::Welcome { resume, .. } => {
                    self.ticket = Some(resume);
                    self.notebook.lock().welcomes += 1;
                }
                RelayMessage::Plan(plan) => {
                    let at = Instant::now();
                    if let Some(last) = last.filter(|last| last.round + 1 == plan.round) {
                        self.notebook.lock().intervals.push(at - last.at);
                    }
                    if self.measures_steps {
                        let step = weights.replace(values.clone()).map(|before| distance(&before, &values));
                        self.notebook.lock().steps.extend(step);
                    }
                    last = Some(Answered { round: plan.round, at, is_accepted: false });
                    if let Some((value, time)) = self.conduct.answer() {
                        sleep(time).await;
                        values.fill(value);
                        socket.send(&update(&plan), &values).await?;
                    }
                    socket.reuse(values);
                    asked = Some(plan);
                }
                RelayMessage::Accepted { round } => {
                    if let Some(last) = last.as_mut().filter(|last| last.round == round) {
                        last.is_accepted = true;
                        self.notebook.lock().accepted += 1;
                    }
                }
                RelayMessage::Closed { round, .. } => {
                    if let Some(plan) = asked.take().filter(|_| self.conduct == Conduct::Unable) {
                        let (round, policy, reason) = (plan.round, plan.policy, "busy".to_owned());
                        socket.send(&ClientMessage::Unable { round, policy, reason, is_locked: false }, &[]).await?;
                    }
                    if last.is_some_and(|last| last.round == round && !last.is_accepted) {
                        self.notebook.lock().lost += 1;
                    }
                    if begun.elapsed() >= stay {
                        socket.close().await;
                        return Ok(None);
                    }
                }
                RelayMessage::SittingOut if matches!(self.conduct, Conduct::Unable | Conduct::Silent) => {
                    socket.send(&ClientMessage::Return, &[]).await?;
                }
                RelayMessage::Refused { reason } => self.notebook.trouble(format!("{}: {reason}", self.nickname)),
                RelayMessage::Goodbye { reason } => return Ok(Some(reason)),
                _ => {}
            }
        }
    }
}

/// The header of a plain update on one sample.
pub(crate) fn update(plan: &PlanHeader) -> ClientMessage {
    let (round, policy, form) = (plan.round, plan.policy, UpdateForm::Dense);
    ClientMessage::Update { round, policy, loss: 1.0, samples: 1, form, draw: None }
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (f64::from(*one) - f64::from(*other)).powi(2)).sum::<f64>().sqrt()
}
