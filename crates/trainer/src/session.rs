//! One socket's life: frames in and out, one training step at a time.

use std::collections::VecDeque;

use anyhow::{Context, anyhow};
use futures_util::{SinkExt, Stream, StreamExt};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::{info, warn};
use unmask_client::{Action, Client, News, Plan, Step};
use unmask_data::metrics;
use unmask_defence::MaskSeed;
use unmask_model::{Device, Vit};

use crate::samples::{Batches, Inputs};

/// Attacks answer within a few rounds; older pictures are not asked for again.
const REMEMBERED_ROUNDS: usize = 8;

/// How a session ended.
pub(crate) enum Ended {
    /// The socket dropped; coming back may work.
    Dropped,
    /// The relay said goodbye; coming back would not help.
    Dismissed(String),
}

/// A finished or failed step, with the plan it answers and the pictures it used.
type Trained = (Box<Plan>, Inputs, Result<Step, String>);

/// The part of a client that outlives its socket.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) device: Device,
    pub(crate) batches: Batches,
}

impl Session {
    /// Trains until the socket closes.
    pub(crate) async fn run<S>(&mut self, socket: S) -> anyhow::Result<Ended>
    where
        S: Stream<Item = Result<Message, tungstenite::Error>> + futures_util::Sink<Message, Error = tungstenite::Error>,
    {
        let (mut sender, mut receiver) = socket.split();
        let mut running: Option<JoinHandle<Trained>> = None;
        let mut waiting: Option<Box<Plan>> = None;
        let mut used: VecDeque<(u32, Inputs)> = VecDeque::new();
        let mut outbox = self.client.hello()?;
        loop {
            for frame in outbox.drain(..) {
                if sender.send(Message::Binary(frame.into())).await.is_err() {
                    return Ok(Ended::Dropped);
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
                    let (plan, inputs, step) = trained.context("the training thread stopped")?;
                    outbox = match step {
                        Ok(step) => {
                            let loss = step.loss;
                            let outgoing = self.client.update(&plan, step, fresh_seed()?)?;
                            info!(round = plan.round, loss, bytes = outgoing.bytes, "sending the update");
                            used.push_back((plan.round, inputs));
                            if used.len() > REMEMBERED_ROUNDS {
                                used.pop_front();
                            }
                            outgoing.frames
                        }
                        Err(reason) => {
                            warn!(round = plan.round, "cannot take part: {reason}");
                            self.client.unable(plan.round, plan.policy, &reason)?
                        }
                    };
                }
                message = receiver.next() => match message {
                    Some(Ok(Message::Binary(frame))) => match self.client.receive(&frame)? {
                        Some(Action::Send(frames)) => outbox = frames,
                        Some(Action::Train(plan)) => waiting = Some(plan),
                        Some(Action::Tell(News::Goodbye { reason })) => return Ok(Ended::Dismissed(reason)),
                        Some(Action::Tell(News::Reconstruction { round, attack, side, picture })) => {
                            let own = used.iter().find(|(used, _)| *used == round);
                            if let Some(score) = own.and_then(|(_, inputs)| score(inputs, side, &picture)) {
                                info!(round, %attack, psnr = score.0, ssim = score.1, "the relay attacked this client");
                                outbox = self.client.score(round, &attack, score.0, score.1)?;
                            }
                        }
                        Some(Action::Tell(news)) => tell(&news),
                        None => {}
                    },
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Ok(Ended::Dropped),
                },
            }
        }
    }

    /// Trains beside the socket, so that pings are answered meanwhile.
    fn train(&mut self, plan: Box<Plan>) -> JoinHandle<Trained> {
        let inputs = self.batches.next(plan.spec.config().image, plan.batch);
        let device = self.device.clone();
        tokio::task::spawn_blocking(move || {
            let step = Vit::new(plan.spec, &device)
                .and_then(|vit| vit.loss_and_gradient_blocking(&plan.weights, &inputs.chw, &inputs.labels))
                .map(|step| Step { loss: step.loss, gradient: step.gradient, samples: inputs.labels.len() as u32 })
                .map_err(|error| error.to_string());
            (plan, inputs, step)
        })
    }
}

/// PSNR and SSIM of a reconstruction against the picture it was made from; of a batch, the nearest one counts.
fn score(inputs: &Inputs, side: usize, picture: &[f32]) -> Option<(f32, f32)> {
    inputs
        .hwc
        .iter()
        .filter_map(|own| {
            let psnr = metrics::psnr(own, picture, side, side).ok()?;
            let ssim = metrics::ssim(own, picture, side, side).ok()?;
            Some((psnr as f32, ssim as f32))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn fresh_seed() -> anyhow::Result<MaskSeed> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| anyhow!("the operating system gives no random numbers: {error}"))?;
    Ok(MaskSeed(seed))
}

fn tell(news: &News) {
    match news {
        News::Welcome { client, nickname } => info!(client, "in the room as {nickname}"),
        News::Accepted { round } => info!(round, "update accepted"),
        News::Closed { round, loss: Some(loss), updates } => info!(round, loss, updates, "round closed"),
        News::Closed { round, loss: None, .. } => info!(round, "round closed without an update"),
        News::Refused { reason } => warn!("{reason}"),
        News::Goodbye { .. } | News::Reconstruction { .. } => {}
    }
}
