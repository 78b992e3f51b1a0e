//! A Flower federation as a room's outer federation. Passes a SuperLink's requests to the room and sends the replies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::oneshot,
    task::{JoinError, spawn_blocking},
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{info, warn};
use unmask_core::{Architecture, Backoff, Defence, ModelState};
use unmask_federation::GlobalModel;
use unmask_flower::{
    ArraysError, ConfigValue, FlowerError, Instruction, MetricValue, ModelArrays, Named, Node, NodeOptions, Records,
    Task, TrainMetrics, draw,
};
use unmask_room::{
    Contribution, HeldOut, MeasureError, Measured, NoContribution, NotMeasured, OuterInput, TrainRequest,
};
use unmask_wire::view::FederationLink;

use crate::{
    clock::Clock,
    joining::{JoiningRoom, Membership, OuterFederation, RoomEnded},
    room::reply,
};

/// How long the relay waits at startup for the SuperLink's answer.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
/// Bounds of the part of a message's time, a twentieth, that is reserved to measure the weights and deliver the reply.
/// A ServerApp polls for replies every three seconds, and a late reply is lost.
const TIME_TO_REPLY: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(60));
/// Messages processed concurrently. Only the newest training request counts, since a strategy that asks again has given
/// up on the previous one.
const AT_ONCE: usize = 4;

/// A room's node in a Flower federation.
#[derive(Debug, Clone)]
pub struct FlowerConfig {
    pub node: NodeOptions,
    /// Rounds this room runs for each round of the federation.
    pub rounds: u32,
}

impl OuterFederation for FlowerConfig {
    fn server(&self) -> String {
        self.node.address.to_string()
    }

    /// Fails if the SuperLink's address or certificates are unusable. If the SuperLink is unreachable or refuses this
    /// node, the node retries and the projector shows the reason.
    fn join(&self, room: JoiningRoom) -> BoxFuture<'static, anyhow::Result<Membership>> {
        let Self { node: options, rounds } = self.clone();
        let joining = async move {
            let first = match timeout(FIRST_ANSWER, Node::connect(&options)).await {
                Ok(Ok(node)) => Some(node),
                Ok(Err(error)) if error.is_misspelt() => {
                    return Err(error).context("the room cannot join the federation");
                }
                // A lesson must resume after a power cut even if the SuperLink does not accept the node for another
                // minute.
                Ok(Err(_)) | Err(_) => None,
            };
            let member = Member { options, rounds, numbers: AtomicU64::default(), room };
            let (stop, stopped) = oneshot::channel();
            let task = tokio::spawn(async move { member.run(first, stopped).await });
            Ok(Membership { stop, task })
        };
        joining.boxed()
    }
}

struct Member {
    options: NodeOptions,
    rounds: u32,
    /// Counts the training requests.
    numbers: AtomicU64,
    room: JoiningRoom,
}

/// Why the room cannot answer a message of the federation.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error("{count} records of arrays came; a room takes one")]
    Arrays { count: usize },
    #[error("the arrays cannot be read: {0}")]
    Reading(JoinError),
    #[error("the room's model is {architecture}: {source}")]
    OtherModel { architecture: Architecture, source: ArraysError },
    #[error("a room can only train and evaluate; {task:?} is unknown to it")]
    Task { task: String },
    #[error("the weights cannot be written: {0}")]
    Writing(JoinError),
    #[error(transparent)]
    Ended(#[from] RoomEnded),
    #[error(transparent)]
    Training(#[from] NoContribution),
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

/// Why weights are not measured in time.
#[derive(Debug, thiserror::Error)]
enum EvaluationError {
    #[error(transparent)]
    Never(#[from] NotMeasured),
    #[error(transparent)]
    Failed(#[from] MeasureError),
    #[error("the weights could not be evaluated on all held-out pictures before the message expired")]
    Late,
    #[error(transparent)]
    BrokeDown(#[from] JoinError),
}

impl Member {
    async fn run(self, first: Option<Node>, mut stopped: oneshot::Receiver<()>) {
        let mut next = first;
        let mut backoff = Backoff::default();
        loop {
            let connected = async {
                match next.take() {
                    Some(node) => Ok(node),
                    None => Node::connect(&self.options).await,
                }
            };
            let lost = tokio::select! {
                _ = &mut stopped => return,
                connected = connected => match connected {
                    Err(error) => error,
                    Ok(node) => {
                        info!(node = node.id(), superlink = %node.address(), "the room is a node of a federation");
                        backoff = Backoff::default();
                        self.tell_link(FederationLink::Connected, None).await;
                        tokio::select! {
                            _ = &mut stopped => return node.leave().await,
                            lost = self.serve(&node) => {
                                // The tasks that would have delivered the room's reply ended with the node.
                                let _ = self.room.tell(OuterInput::Abandon).await;
                                lost
                            }
                        }
                    }
                },
            };
            warn!("{lost}");
            self.tell_link(FederationLink::Lost, Some(lost.to_string())).await;
            tokio::select! {
                _ = &mut stopped => return,
                () = sleep(backoff.wait(draw())) => {}
            }
        }
    }

    /// Answers the SuperLink's messages until it no longer knows this node. Survives temporary loss of the connection.
    async fn serve(&self, node: &Node) -> FlowerError {
        let mut trouble = node.trouble();
        let mut answers = FuturesUnordered::new();
        // Pinned across iterations, because cancelling it could lose a message.
        let mut next = std::pin::pin!(node.next());
        loop {
            tokio::select! {
                asked = &mut next, if answers.len() < AT_ONCE => match asked {
                    Ok(instruction) => {
                        answers.push(self.answer_to(node, instruction));
                        next.set(node.next());
                    }
                    Err(unknown) => return unknown,
                },
                Some(answered) = answers.next() => match answered {
                    Ok(()) => {}
                    Err(FlowerError::Unknown) => return FlowerError::Unknown,
                    // The run has ended or the time is up. Continue with the next message.
                    Err(error) => warn!("a reply did not arrive: {error}"),
                },
                Ok(()) = trouble.changed() => {
                    let remark = trouble.borrow_and_update().clone();
                    let link = if remark.is_none() { FederationLink::Connected } else { FederationLink::Lost };
                    self.tell_link(link, remark).await;
                }
            }
        }
    }

    async fn answer_to(&self, node: &Node, instruction: Instruction) -> Result<(), FlowerError> {
        let reply = self.answer(&instruction).await.map_err(|error| error.to_string());
        if let Err(reason) = &reply {
            warn!("cannot answer a message of the federation: {reason}");
        }
        node.reply(&instruction, &reply).await
    }

    async fn answer(&self, instruction: &Instruction) -> Result<Records, AnswerError> {
        let arrays = match instruction.records.arrays.as_slice() {
            [arrays] => arrays,
            several => return Err(AnswerError::Arrays { count: several.len() }),
        };
        let architecture = self.room.architecture();
        let came = arrays.1.clone();
        let read = spawn_blocking(move || ModelArrays::read(architecture, &came)).await;
        let read = read.map_err(AnswerError::Reading)?;
        let (names, state) = read.map_err(|source| AnswerError::OtherModel { architecture, source })?;
        match &instruction.task {
            Task::Train => self.train(instruction, &arrays.0, names, state).await,
            Task::Evaluate => self.evaluate(instruction, architecture, state).await,
            Task::Other(task) => Err(AnswerError::Task { task: task.clone() }),
        }
    }

    async fn train(
        &self,
        instruction: &Instruction,
        key: &str,
        names: ModelArrays,
        state: ModelState,
    ) -> Result<Records, AnswerError> {
        let (reply, mut contribution) = reply();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let request = TrainRequest { number, state, rounds: self.rounds, round: instruction.round(), reply };
        self.room.tell(OuterInput::Train(request)).await?;
        let contribution = match timeout_at(trained_by(instruction), &mut contribution).await {
            Ok(contribution) => contribution,
            Err(_) => {
                self.room.tell(OuterInput::GiveUp { number }).await?;
                // The room now replies with the reason, or with a result that was just finished.
                contribution.await
            }
        };
        let contribution = contribution.map_err(|_| RoomEnded)??;
        let held_out = contribution.held_out.clone();
        let model = Arc::clone(&contribution.model);
        // The weights are useful even without a measurement.
        let measured = measure_until(measured_by(instruction), held_out, Arc::clone(&model)).await;
        let written = spawn_blocking(move || names.write(&model.state)).await;
        let arrays = written.map_err(AnswerError::Writing)?;
        Ok(Records {
            arrays: vec![(key.to_owned(), arrays)],
            metrics: vec![("metrics".to_owned(), train_metrics(&contribution, measured.ok().as_ref(), self.rounds))],
            config: vec![("room".to_owned(), settings(&contribution))],
        })
    }

    async fn evaluate(
        &self,
        instruction: &Instruction,
        architecture: Architecture,
        state: ModelState,
    ) -> Result<Records, AnswerError> {
        let (reply, held_out) = reply();
        self.room.tell(OuterInput::HeldOut { reply }).await?;
        let held_out = held_out.await.map_err(|_| RoomEnded)?;
        let model = Arc::new(GlobalModel { architecture, state });
        let Measured { pictures, correct, loss, .. } = measure_until(measured_by(instruction), held_out, model).await?;
        let metrics = vec![
            ("num-examples".to_owned(), MetricValue::Integer(pictures.into())),
            ("accuracy".to_owned(), MetricValue::Float(f64::from(correct) / f64::from(pictures.max(1)))),
            ("loss".to_owned(), MetricValue::Float(loss)),
        ];
        Ok(Records { metrics: vec![("metrics".to_owned(), metrics)], ..Records::default() })
    }

    async fn tell_link(&self, link: FederationLink, remark: Option<String>) {
        let _ = self.room.tell(OuterInput::Link { link, remark }).await;
    }
}

/// Returns the part of a message's time that is reserved for the reply.
fn kept(Instruction { received, expires, .. }: &Instruction) -> Duration {
    let left = expires.saturating_duration_since(*received);
    let (least, most) = TIME_TO_REPLY;
    (left / 20).clamp(least, most).min(left / 2)
}

/// Returns when the room must be done, so that the reply arrives in time.
fn trained_by(instruction: &Instruction) -> Instant {
    instruction.expires - kept(instruction)
}

/// Returns when the measurement must be done: it gets a quarter of the reserved time.
fn measured_by(instruction: &Instruction) -> Instant {
    instruction.expires - 3 * kept(instruction) / 4
}

async fn measure_until(
    end: Instant,
    held_out: Result<HeldOut, NotMeasured>,
    model: Arc<GlobalModel>,
) -> Result<Measured, EvaluationError> {
    let (held_out, clock) = (held_out?, Clock::start());
    let measured = timeout_at(end, spawn_blocking(move || held_out.measure(&model, &|| clock.moment()))).await;
    Ok(measured.map_err(|_| EvaluationError::Late)???)
}

/// Returns the metrics that a strategy averages.
fn train_metrics(contribution: &Contribution, measured: Option<&Measured>, rounds: u32) -> Named<MetricValue> {
    let Contribution { samples, clients, loss, settings, .. } = contribution;
    let accuracy = measured.map(|of| f64::from(of.correct) / f64::from(of.pictures.max(1)));
    let defence = settings.defence().kind();
    TrainMetrics { samples: *samples, loss: *loss, accuracy, clients: *clients, rounds, defence }.named()
}

/// Returns the room's settings in the command line's syntax.
fn settings(Contribution { settings, .. }: &Contribution) -> Named<ConfigValue> {
    let defence: Defence = settings.defence();
    [
        ("defence", defence.to_string()),
        ("rule", settings.rule().to_string()),
        ("aggregation", settings.aggregation().to_string()),
        ("batch", settings.batch().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), ConfigValue::Text(value)))
    .into()
}
