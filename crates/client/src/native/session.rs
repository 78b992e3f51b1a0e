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
use unmask_model::{Device, Network, block_on};

use super::{
    random::{fresh_bytes, fresh_number},
    volunteer::Volunteer,
};
use crate::{Action, Client, ClientEvent, LocalUpdate, ReconstructionScore, RoundPictures, RoundPlan};

/// A relay pings every few seconds. If it is silent or accepts nothing for this long, it is out of reach: this device
/// slept or changed its address without noticing.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) enum SessionEnd {
    /// The socket dropped; a new connection may work.
    Dropped,
    /// The relay said goodbye; a new connection would not help.
    Dismissed(String),
}

/// A finished or failed step, with the plan it answers.
type Trained = (Box<RoundPlan>, Result<LocalUpdate, String>);

/// The part of a client that outlives its socket.
pub(crate) struct Session {
    client: Client,
    device: Device,
    /// The last question for a passphrase, so that a room that asks every round is logged once.
    question: Option<String>,
    volunteer: Volunteer,
}

impl Session {
    pub(crate) fn new(client: Client, device: Device, volunteer: Volunteer) -> Self {
        Self { client, device, question: None, volunteer }
    }

    pub(crate) async fn run<S>(&mut self, socket: S) -> anyhow::Result<SessionEnd>
    where
        S: Stream<Item = Result<Message, tungstenite::Error>> + futures_util::Sink<Message, Error = tungstenite::Error>,
    {
        let (mut sender, mut receiver) = socket.split();
        let mut running: Option<JoinHandle<Trained>> = None;
        let mut waiting: Option<Box<RoundPlan>> = None;
        let mut outbox = self.client.hello(fresh_bytes()?)?;
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
                    outbox = match trained {
                        Ok(trained) => {
                            let (loss, samples) = (trained.loss, trained.samples);
                            let outgoing = self.client.update(&plan, trained, fresh_bytes()?)?;
                            info!(round = plan.round, loss, samples, bytes = outgoing.bytes, "sending the update");
                            outgoing.frames
                        }
                        Err(reason) => {
                            warn!(round = plan.round, "cannot take part: {reason}");
                            self.client.unable(plan.round, plan.policy, &reason)?
                        }
                    };
                    outbox.extend(self.volunteer.show(&self.client)?);
                }
                message = timeout_at(heard + SILENCE, receiver.next()) => {
                    let Ok(Some(Ok(message))) = message else { return Ok(SessionEnd::Dropped) };
                    heard = Instant::now();
                    let Message::Binary(frame) = message else { continue };
                    match self.client.receive(&frame)? {
                        Some(Action::Send(frames)) => outbox = frames,
                        Some(Action::Train(plan)) => waiting = Some(plan),
                        Some(Action::Seal(task)) => {
                            outbox = self.client.seal(*task, fresh_number()?)?;
                            info!("encrypted the room's model");
                        }
                        Some(Action::AskPassphrase { frames, reason, .. }) => {
                            self.ask(reason);
                            outbox = frames;
                        }
                        Some(Action::Report(ClientEvent::Goodbye { reason })) => return Ok(SessionEnd::Dismissed(reason)),
                        Some(Action::Report(ClientEvent::Reconstruction { round, attack, side, picture })) => {
                            // A picture that cannot be compared gets no score; the room shows it without one.
                            if let Some(Ok(found)) = self.client.compare(round, attack, side, &picture) {
                                let ReconstructionScore { psnr, ssim, .. } = found;
                                info!(round, %attack, psnr, ssim, "the relay attacked this client");
                                outbox = self.client.score(round, attack, psnr, ssim)?;
                            }
                        }
                        Some(Action::Report(event)) => {
                            outbox = self.volunteer.hears(&event, &self.client)?;
                            report(&event);
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// Trains on another thread, so that pings are answered.
    fn train(&mut self, plan: Box<RoundPlan>) -> JoinHandle<Trained> {
        self.question = None;
        let (pictures, device) = (self.client.pictures(&plan), self.device.clone());
        tokio::task::spawn_blocking(move || {
            let trained = pictures.and_then(|pictures| train(&plan, &pictures, &device));
            (plan, trained)
        })
    }

    /// Nobody sits at a headless client, so the log can only say what to do next time.
    fn ask(&mut self, reason: String) {
        if self.question.as_ref() != Some(&reason) {
            warn!("{reason}: start again with --passphrase-file FILE, or with the passphrase in UNMASK_PASSPHRASE");
            self.question = Some(reason);
        }
    }
}

fn train(plan: &RoundPlan, pictures: &RoundPictures, device: &Device) -> Result<LocalUpdate, String> {
    let network = Network::new(plan.architecture, device).map_err(|error| error.to_string())?;
    block_on(plan.task().train(&network, pictures)).map_err(|error| error.to_string())
}

fn report(event: &ClientEvent) {
    match event {
        ClientEvent::Welcome { client, nickname } => info!(client = client.0, "in the room as {nickname}"),
        ClientEvent::Waiting => info!("waits until the teacher lets it in"),
        ClientEvent::Accepted { round } => info!(round, "update accepted"),
        ClientEvent::Closed { round, loss: Some(loss), updates } => info!(round, loss, updates, "round closed"),
        ClientEvent::Closed { round, loss: None, .. } => info!(round, "round closed without an update"),
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
