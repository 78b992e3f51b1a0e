//! The life of one socket: frames in and out, one training step at a time.

use std::time::Duration;

use anyhow::Context;
use futures_util::{SinkExt, Stream, StreamExt};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::{info, warn};
use unmask_model::{Device, block_on};

use crate::{ClientEvent, ListedRound, LocalUpdate, Outcome, OwnUpdate, Reaction, Robot, RobotEvent, RoundPlan};

/// A relay pings every few seconds. If it is silent or accepts nothing for this long, it is out of reach: this device
/// slept or changed its address without noticing.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) enum SessionEnd {
    /// The socket dropped; a new connection may work.
    Dropped,
    /// The relay said goodbye; a new connection would not help.
    Dismissed(String),
}

/// An outcome, with the plan it answers.
type Trained = (Box<RoundPlan>, Outcome);

/// The part of a client that outlives its socket.
pub(crate) struct Session {
    robot: Robot,
    device: Device,
    /// The last question for a passphrase, so that a room that asks every round is logged once.
    question: Option<String>,
}

impl Session {
    pub(crate) fn new(robot: Robot, device: Device) -> Self {
        Self { robot, device, question: None }
    }

    pub(crate) async fn run<S>(&mut self, socket: S) -> anyhow::Result<SessionEnd>
    where
        S: Stream<Item = Result<Message, tungstenite::Error>> + futures_util::Sink<Message, Error = tungstenite::Error>,
    {
        let (mut sender, mut receiver) = socket.split();
        let mut running: Option<JoinHandle<Trained>> = None;
        let mut waiting: Option<Box<RoundPlan>> = None;
        let mut outbox = self.robot.hello()?;
        let mut heard = Instant::now();
        loop {
            for frame in outbox.drain(..) {
                if !matches!(timeout(SILENCE, sender.send(Message::Binary(frame.into()))).await, Ok(Ok(()))) {
                    return Ok(SessionEnd::Dropped);
                }
            }
            if running.is_none()
                && let Some(plan) = waiting.take()
            {
                running = Some(self.train(plan));
            }
            let trained = async {
                match &mut running {
                    Some(task) => task.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                trained = trained => {
                    running = None;
                    let (plan, trained) = trained.context("the training thread stopped")?;
                    outbox = self.answer(&plan, trained)?;
                }
                message = timeout_at(heard + SILENCE, receiver.next()) => {
                    let Ok(Some(Ok(message))) = message else { return Ok(SessionEnd::Dropped) };
                    heard = Instant::now();
                    let Message::Binary(frame) = message else { continue };
                    let Reaction { frames, plan, event } = self.robot.receive(&frame)?;
                    outbox = frames;
                    waiting = plan.or(waiting);
                    match event {
                        Some(RobotEvent::Client(ClientEvent::Goodbye { reason })) => {
                            return Ok(SessionEnd::Dismissed(reason));
                        }
                        Some(RobotEvent::NeedsPassphrase(reason)) => self.ask(reason),
                        Some(event) => report(&event),
                        None => {}
                    }
                }
            }
        }
    }

    /// Trains on another thread, so that pings are answered.
    fn train(&mut self, plan: Box<RoundPlan>) -> JoinHandle<Trained> {
        self.question = None;
        let (pictures, device, caution) = (self.robot.pictures(&plan), self.device.clone(), self.robot.caution());
        tokio::task::spawn_blocking(move || {
            let outcome = block_on(Outcome::of(&plan, pictures, &device, caution));
            (plan, outcome)
        })
    }

    /// The frames that answer a plan.
    fn answer(&mut self, plan: &RoundPlan, outcome: Outcome) -> anyhow::Result<Vec<Vec<u8>>> {
        let round = plan.round;
        match &outcome {
            Outcome::Trained(doubts, LocalUpdate { loss, samples, .. }) => {
                for doubt in doubts {
                    warn!(round, "trains although {doubt}; --careful refuses such rounds");
                }
                info!(round, loss, samples, "sending the update");
            }
            Outcome::Refused(doubts) => {
                for doubt in doubts {
                    warn!(round, "does not train, because {doubt}");
                }
            }
            Outcome::Failed(reason) => warn!(round, "cannot take part: {reason}"),
        }
        Ok(self.robot.answer(plan, outcome)?)
    }

    /// Nobody sits at a headless client, so the log can only say what to do next time.
    fn ask(&mut self, reason: String) {
        if self.question.as_ref() != Some(&reason) {
            warn!("{reason}: start again with --passphrase-file FILE, or with the passphrase in UNMASK_PASSPHRASE");
            self.question = Some(reason);
        }
    }
}

fn report(event: &RobotEvent) {
    match event {
        RobotEvent::Sealed => info!("encrypted the room's model"),
        RobotEvent::Attacked { round, attack, psnr, ssim } => {
            info!(round, %attack, psnr, ssim, "the relay attacked this client");
        }
        RobotEvent::Client(event) => report_of_client(event),
        RobotEvent::NeedsPassphrase(_) => {}
    }
}

fn report_of_client(event: &ClientEvent) {
    match event {
        ClientEvent::Welcome { client, nickname } => info!(client = client.0, "in the room as {nickname}"),
        ClientEvent::Waiting => info!("waits until the teacher lets it in"),
        ClientEvent::Accepted { round } => info!(round, "update accepted"),
        ClientEvent::Closed { round, loss: Some(loss), updates } => info!(round, loss, updates, "round closed"),
        ClientEvent::Closed { round, loss: None, .. } => info!(round, "round closed without an update"),
        ClientEvent::Listed(ListedRound { round, words, updates, own, .. }) => {
            let words = words.as_deref().unwrap_or("no words without weights");
            match own {
                OwnUpdate::Listed => info!(round, updates, "this update is in the published list: {words}"),
                OwnUpdate::Missing => warn!(round, updates, "this update is not in the published list: {words}"),
                OwnUpdate::None => info!(round, updates, "the published list: {words}"),
            }
        }
        ClientEvent::Refused { reason } => warn!("{reason}"),
        ClientEvent::Shard(shard) => info!(pictures = shard.len(), "shared pictures of {} came", shard.data()),
        ClientEvent::Renamed { nickname } => info!("the teacher renamed this client {nickname}"),
        ClientEvent::SittingOut => warn!("left out of the rounds after two without an answer"),
        // Only a student attacks others, on the page.
        ClientEvent::Loan { .. }
        | ClientEvent::LoanEnded { .. }
        | ClientEvent::Scored { .. }
        | ClientEvent::Goodbye { .. }
        | ClientEvent::Reconstruction { .. }
        | ClientEvent::Lesson(_)
        | ClientEvent::Original { .. } => {}
    }
}
