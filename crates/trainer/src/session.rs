//! One socket's life: frames in and out, one training step at a time.

use std::{collections::VecDeque, sync::Arc};

use anyhow::{Context, anyhow};
use futures_util::{SinkExt, Stream, StreamExt};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::{info, warn};
use unmask_client::{Action, Client, News, Plan, Step, TrainOn};
use unmask_core::{MaskSeed, ModelState, Rule};
use unmask_data::{jigsaw::best_arrangement, metrics};
use unmask_model::{Device, ModelError, Network};

use crate::samples::{Batches, Inputs};

/// Attacks answer within a few rounds; older pictures are not asked for again.
const REMEMBERED_ROUNDS: usize = 8;

/// The attack that recovers patches without their places, by the name the relay calls it.
const JIGSAW: &str = "jigsaw";

/// How a session ended.
pub(crate) enum Ended {
    /// The socket dropped; coming back may work.
    Dropped,
    /// The relay said goodbye; coming back would not help.
    Dismissed(String),
}

/// A finished or failed step, with the plan it answers.
type Trained = (Box<Plan>, Result<(Step, Arc<Inputs>), String>);

/// What a round's update was made from.
struct Used {
    round: u32,
    /// Side of the model's patches in pixels.
    patch: Option<usize>,
    inputs: Arc<Inputs>,
}

/// The part of a client that outlives its socket.
pub(crate) struct Session {
    client: Client,
    device: Device,
    batches: Batches,
    /// The question for a passphrase last shown, so that a room that asks every round is heard once.
    question: Option<String>,
}

impl Session {
    pub(crate) fn new(client: Client, device: Device, batches: Batches) -> Self {
        Self { client, device, batches, question: None }
    }

    /// Trains until the socket closes.
    pub(crate) async fn run<S>(&mut self, socket: S) -> anyhow::Result<Ended>
    where
        S: Stream<Item = Result<Message, tungstenite::Error>> + futures_util::Sink<Message, Error = tungstenite::Error>,
    {
        let (mut sender, mut receiver) = socket.split();
        let mut running: Option<JoinHandle<Trained>> = None;
        let mut waiting: Option<Box<Plan>> = None;
        let mut used: VecDeque<Used> = VecDeque::new();
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
                    let (plan, step) = trained.context("the training thread stopped")?;
                    outbox = match step {
                        Ok((step, inputs)) => {
                            let (loss, samples) = (step.loss, step.samples);
                            let outgoing = self.client.update(&plan, step, fresh_seed()?)?;
                            info!(round = plan.round, loss, samples, bytes = outgoing.bytes, "sending the update");
                            let patch = plan.architecture.vit().map(|config| config.patch);
                            used.push_back(Used { round: plan.round, patch, inputs });
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
                        Some(Action::Seal(task)) => {
                            outbox = self.client.seal(*task, fresh_number()?)?;
                            info!("encrypted the room's model");
                        }
                        Some(Action::Ask { frames, reason, .. }) => {
                            self.ask(reason);
                            outbox = frames;
                        }
                        Some(Action::Tell(News::Goodbye { reason })) => return Ok(Ended::Dismissed(reason)),
                        Some(Action::Tell(News::Reconstruction { round, attack, side, picture })) => {
                            let own = used.iter().find(|used| used.round == round);
                            if let Some(score) = own.and_then(|used| score(used, &attack, side, &picture)) {
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
        self.question = None;
        let side = plan.architecture.side();
        let private = match (&plan.train_on, plan.rule) {
            (TrainOn::Shared { .. }, _) => None,
            (TrainOn::Private, Rule::FedSgd) => Some(Arc::new(self.batches.next(side, plan.batch))),
            (TrainOn::Private, Rule::FedAvg { .. }) => Some(self.batches.all(side)),
        };
        let device = self.device.clone();
        tokio::task::spawn_blocking(move || {
            let trained = inputs(&plan, private).and_then(|inputs| {
                let step = step(&plan, &inputs, &device).map_err(|error| error.to_string())?;
                Ok((step, inputs))
            });
            (plan, trained)
        })
    }

    /// Nobody sits at a headless client, so the question can only say what to do next time.
    fn ask(&mut self, reason: String) {
        if self.question.as_ref() != Some(&reason) {
            warn!("{reason}: start again with --passphrase-file FILE, or with the passphrase in UNMASK_PASSPHRASE");
            self.question = Some(reason);
        }
    }
}

/// The pictures of this round: its batch of private ones, or those of the shard.
fn inputs(plan: &Plan, private: Option<Arc<Inputs>>) -> Result<Arc<Inputs>, String> {
    match (&plan.train_on, private) {
        (TrainOn::Shared { shard, positions }, _) => {
            Inputs::shared(shard, positions, plan.architecture.side()).map(Arc::new)
        }
        (TrainOn::Private, Some(inputs)) => {
            inputs.labels.iter().try_for_each(|&label| plan.check_label(label))?;
            Ok(inputs)
        }
        (TrainOn::Private, None) => Err("this client has no private picture".to_owned()),
    }
}

/// One gradient, or the local epochs, as the plan's rule says.
fn step(plan: &Plan, inputs: &Inputs, device: &Device) -> Result<Step, ModelError> {
    let network = Network::new(plan.architecture, device)?;
    let Inputs { chw, labels, .. } = inputs;
    let samples = labels.len() as u32;
    Ok(match plan.rule {
        Rule::FedSgd => {
            let step = network.loss_and_gradient_blocking(&plan.state, chw, labels)?;
            Step { loss: step.loss, values: step.gradient, statistics: step.statistics, samples }
        }
        Rule::FedAvg { epochs, rate } => {
            let trained = network.train_locally_blocking(&plan.state, chw, labels, plan.batch, epochs, rate)?;
            let ModelState { weights: values, statistics } = trained.state;
            Step { loss: trained.loss, values, statistics, samples }
        }
    })
}

/// PSNR and SSIM of a reconstruction against the one picture it was made from. A jigsaw is laid first, in the order of its
/// patches that only somebody with the picture can find.
fn score(used: &Used, attack: &str, side: usize, picture: &[f32]) -> Option<(f32, f32)> {
    let own = used.inputs.only.as_deref()?;
    let patch = used.patch.filter(|_| attack == JIGSAW);
    let laid = patch.map(|patch| best_arrangement(picture, own, side, patch));
    let laid = laid.transpose().ok()?;
    let found = laid.as_deref().unwrap_or(picture);
    let psnr = metrics::psnr(own, found, side, side).ok()?;
    let ssim = metrics::ssim(own, found, side, side).ok()?;
    Some((psnr as f32, ssim as f32))
}

fn fresh_seed() -> anyhow::Result<MaskSeed> {
    fresh_bytes().map(MaskSeed)
}

fn fresh_number() -> anyhow::Result<u64> {
    fresh_bytes().map(u64::from_le_bytes)
}

fn fresh_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the operating system gives no random numbers: {error}"))?;
    Ok(bytes)
}

fn tell(news: &News) {
    match news {
        News::Welcome { client, nickname } => info!(client, "in the room as {nickname}"),
        News::Accepted { round } => info!(round, "update accepted"),
        News::Closed { round, loss: Some(loss), updates } => info!(round, loss, updates, "round closed"),
        News::Closed { round, loss: None, .. } => info!(round, "round closed without an update"),
        News::Refused { reason } => warn!("{reason}"),
        News::Shard(shard) => info!(pictures = shard.len(), "shared pictures of {} came", shard.data()),
        News::Goodbye { .. } | News::Reconstruction { .. } => {}
    }
}
