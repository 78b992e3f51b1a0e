//! A native client as a node of a Flower federation: it trains on what the SuperLink sends, without a room.

mod pictures;
mod settings;
mod update;

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use unmask_core::{Architecture, Backoff, Defence, MaskSeed, ModelState, Rule};
use unmask_flower::{
    ConfigValue, FlowerError, Instruction, MetricValue, ModelArrays, Node, NodeOptions, Records, Reply, Task,
    TrainMetrics,
};
use unmask_model::{Network, block_on, device::OpenDevice};

pub use self::{
    pictures::{FlowerPictures, ShardChoice, ShardChoiceError},
    settings::FlowerTraining,
};
use self::{settings::of_message, update::reply_arrays};
use super::random::{fresh_bytes, fresh_share};
use crate::{Nonces, RoundPlan};

/// Pictures evaluated in one batch.
const TRIED_TOGETHER: usize = 32;

/// Longest time for leaving the federation.
const GOODBYE: Duration = Duration::from_secs(6);

/// The federation to join, and what to bring.
#[derive(Debug, Clone)]
pub struct FlowerOptions {
    /// The SuperLink's address and this node's key.
    pub node: NodeOptions,
    /// The pictures to train on, which are never sent.
    pub pictures: FlowerPictures,
    pub architecture: Architecture,
    /// Training parameters, if the server sends none.
    pub training: FlowerTraining,
    /// Defence applied to the weights before they leave.
    pub defence: Defence,
    pub device: OpenDevice,
}

/// Why a client does not join.
#[derive(Debug, thiserror::Error)]
pub enum FlowerJoinError {
    #[error(
        "--defence {0}: a Flower server cannot hold an encrypted model, which a client of a room has to seal first; choose \
         another defence, such as random-binary:0.5"
    )]
    Encrypted(Defence),
    #[error(transparent)]
    NoEmbeddings(#[from] unmask_core::NoEmbeddings),
    #[error("the pictures are of {pictures} classes, and {architecture} has {}; give --model with as many", .architecture.classes())]
    Classes { pictures: usize, architecture: Architecture },
}

impl FlowerOptions {
    /// Checks the options, independently of the SuperLink.
    ///
    /// # Errors
    /// [`FlowerJoinError`] names the options that conflict.
    pub fn check(&self) -> Result<(), FlowerJoinError> {
        let Self { architecture, defence, pictures, .. } = self;
        if defence.is_encrypted() {
            return Err(FlowerJoinError::Encrypted(*defence));
        }
        defence.check(*architecture)?;
        match pictures.classes() {
            Some(classes) if classes > architecture.classes() => {
                Err(FlowerJoinError::Classes { pictures: classes, architecture: *architecture })
            }
            _ => Ok(()),
        }
    }
}

/// Joins the federation and answers its messages, and reconnects whenever the SuperLink is back, until `stop`
/// completes. Then it leaves.
///
/// # Errors
/// [`FlowerOptions::check`] refuses, nobody answers the first attempt, or the SuperLink rejects the key.
pub async fn join_flower(options: FlowerOptions, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    options.check()?;
    let mut stop = pin!(stop);
    let mut backoff = Backoff::default();
    let mut first = true;
    loop {
        let connected = tokio::select! {
            () = &mut stop => return Ok(()),
            connected = Node::connect(&options.node) => connected,
        };
        let error = match connected {
            Ok(node) => {
                (first, backoff) = (false, Backoff::default());
                info!(node = node.id(), "in the federation of {}", node.address());
                tokio::select! {
                    () = &mut stop => {
                        // A SuperLink that does not answer in time is left without a goodbye.
                        let _ = timeout(GOODBYE, node.leave()).await;
                        return Ok(());
                    }
                    error = serve(&node, &options) => error,
                }
            }
            Err(error) => error,
        };
        let passes = !first || matches!(error, FlowerError::Present { .. });
        if !passes || error.is_final() {
            return Err(error.into());
        }
        let wait = backoff.wait(fresh_share()?);
        warn!("{error}; trying again in {:.0} s", wait.as_secs_f64());
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = sleep(wait) => {}
        }
    }
}

/// Answers messages one after the other, until the SuperLink no longer knows this node.
async fn serve(node: &Node, options: &FlowerOptions) -> FlowerError {
    loop {
        let message = match node.next().await {
            Ok(message) => Arc::new(message),
            Err(error) => return error,
        };
        let (task, round) = (message.task.clone(), message.round());
        let (options, asked) = (options.clone(), Arc::clone(&message));
        // On another thread, because the heartbeat must continue.
        let answered = tokio::task::spawn_blocking(move || answer(&options, &asked));
        let answer = answered.await.unwrap_or_else(|error| Err(format!("this node broke down on it: {error}")));
        if let Err(reason) = &answer {
            warn!(round, "cannot {}: {reason}", word(&task));
        }
        match node.reply(&message, &answer).await {
            Ok(()) => info!(round, "answered a message to {}", word(&task)),
            // The error names the lost reply; the node continues.
            Err(error) if !matches!(error, FlowerError::Unknown) => warn!(round, "the reply is lost: {error}"),
            Err(error) => return error,
        }
    }
}

fn word(task: &Task) -> &str {
    match task {
        Task::Train => "train",
        Task::Evaluate => "evaluate",
        Task::Other(word) => word,
    }
}

fn answer(options: &FlowerOptions, message: &Instruction) -> Reply {
    let Some((key, arrays)) = message.records.arrays.first() else {
        return Err("the message holds no arrays; this node trains on those of a model".to_owned());
    };
    let (arrays, state) = ModelArrays::read(options.architecture, arrays)
        .map_err(|error| format!("{error}; is --model the federation's?"))?;
    let network = Network::new(options.architecture, options.device.device()).map_err(|error| error.to_string())?;
    match &message.task {
        Task::Train => {
            let begun = Instant::now();
            let round = message.round().unwrap_or_default();
            let training = of_message(options.training, &message.records)?;
            let plan = options.plan(round, training, state);
            let pictures = options.pictures.of_round(&plan)?;
            let trained = block_on(plan.task().train(&network, &pictures)).map_err(|error| error.to_string())?;
            let (samples, loss, statistics) = (trained.samples, trained.loss, trained.statistics);
            let seed = fresh_bytes().map(MaskSeed).map_err(|error| error.to_string())?;
            let sent = plan.task().protect(trained.values, samples, seed).map_err(|error| error.to_string())?;
            let arrays = reply_arrays(&arrays, &plan.layout, &sent, statistics).map_err(|error| error.to_string())?;
            info!(round, loss, samples, defence = %plan.defence, seconds = begun.elapsed().as_secs_f64(), "trained");
            let metrics = TrainMetrics {
                samples: samples.into(),
                loss: Some(loss),
                accuracy: None,
                clients: 1,
                rounds: 1,
                defence: plan.defence.kind(),
            };
            // Same names as in a room.
            let text = |name: &str, value: String| (name.to_owned(), ConfigValue::Text(value));
            let settings = vec![
                text("defence", plan.defence.to_string()),
                text("rule", plan.rule.to_string()),
                text("batch", plan.batch.to_string()),
            ];
            Ok(Records {
                arrays: vec![(key.clone(), arrays)],
                metrics: vec![("metrics".to_owned(), metrics.named())],
                config: vec![("client".to_owned(), settings)],
            })
        }
        Task::Evaluate => {
            let metrics = options.evaluate(&network, &state)?;
            Ok(Records { metrics: vec![("metrics".to_owned(), metrics)], ..Records::default() })
        }
        Task::Other(word) => Err(format!("this node trains and evaluates; it knows no {word:?}")),
    }
}

impl FlowerOptions {
    /// The plan of a round as a room would make it.
    fn plan(&self, round: u32, training: FlowerTraining, state: ModelState) -> RoundPlan {
        let Self { architecture, defence, .. } = *self;
        let FlowerTraining { epochs, rate, batch } = training;
        RoundPlan {
            doubts: Vec::new(),
            round,
            policy: 0,
            architecture,
            layout: architecture.layout(),
            defence,
            rule: Rule::FedAvg { epochs, rate },
            batch: batch.into(),
            pictures: self.pictures.selection(),
            state,
            cipher: None,
            sum: None,
            nonces: Nonces::default(),
            least: 1,
        }
    }

    fn evaluate(&self, network: &Network, state: &ModelState) -> Result<Vec<(String, MetricValue)>, String> {
        let held_out = self.pictures.held_out().ok_or(
            "this node holds no picture back to evaluate on, as clients with --data do; ask none (fraction_evaluate=0.0)",
        )?;
        let side = self.architecture.side();
        let (mut loss, mut correct, mut tried) = (0.0, 0, 0);
        for first in (0..held_out.len()).step_by(TRIED_TOGETHER) {
            let together: Vec<usize> = (first..held_out.len().min(first + TRIED_TOGETHER)).collect();
            let images: Vec<f32> =
                together.iter().filter_map(|&index| held_out.chw_resized(index, side)).flatten().collect();
            let labels: Vec<usize> =
                together.iter().filter_map(|&index| held_out.labels().get(index)).map(|&label| label.into()).collect();
            let found = block_on(network.evaluate(state, &images, &labels)).map_err(|error| error.to_string())?;
            loss += f64::from(found.loss) * labels.len() as f64;
            correct += found.correct;
            tried += labels.len();
        }
        let share = |value: f64| MetricValue::Float(value / tried.max(1) as f64);
        Ok(vec![
            ("num-examples".to_owned(), MetricValue::Integer(tried as i64)),
            ("loss".to_owned(), share(loss)),
            ("accuracy".to_owned(), share(correct as f64)),
        ])
    }
}
