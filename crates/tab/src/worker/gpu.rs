//! The trainer's side of the WebGPU worker.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use futures_channel::oneshot;
use futures_util::FutureExt;
use gloo_events::EventListener;
use unmask_core::Architecture;
use unmask_model::{
    Differentiated, Normalisation, Statistics, Wanted,
    remote::{Later, Pass, Remote},
};
use wasm_bindgen::JsCast;
use web_sys::{MessageEvent, Worker};

use crate::{
    post,
    protocol::{FromGpu, GpuGradients, GpuPass, ToGpu},
};

/// The loader, which the build places next to the page under a fixed name.
const LOADER: &str = "gpu_loader.js";

/// The WebGPU worker and the pending requests.
#[derive(Clone)]
pub struct GpuWorker(Rc<Inner>);

struct Inner {
    worker: Worker,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last_number: u32,
    answers: HashMap<u32, oneshot::Sender<FromGpu>>,
    state: State,
    /// Woken when the worker is ready.
    ready: Vec<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum State {
    #[default]
    Loading,
    Ready,
    Failed(String),
}

impl std::fmt::Debug for GpuWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuWorker").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl GpuWorker {
    /// Starts loading the worker and returns immediately.
    ///
    /// # Errors
    /// If the browser does not start a worker.
    pub fn start() -> Result<Self, String> {
        let worker = Worker::new(LOADER).map_err(|error| format!("the browser starts no worker: {error:?}"))?;
        let this = Self(Rc::new(Inner { worker: worker.clone(), waiting: RefCell::default() }));
        let (told, stopped) = (this.clone(), this.clone());
        EventListener::new(&worker, "message", move |event| {
            let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
            match post::decode(event.data()) {
                Ok(message) => told.take(message),
                Err(error) => told.fail(&error.to_string()),
            }
        })
        .forget();
        EventListener::new(&worker, "error", move |event| {
            // If a script cannot be fetched, the event has no message.
            let reason = js_sys::Reflect::get(event, &"message".into()).ok().and_then(|message| message.as_string());
            stopped.fail(&reason.unwrap_or_else(|| format!("{LOADER} cannot be loaded")));
        })
        .forget();
        Ok(this)
    }

    pub fn state(&self) -> State {
        self.0.waiting.borrow().state.clone()
    }

    /// Waits until the worker is ready or has failed.
    pub async fn loaded(&self) -> State {
        let (sender, receiver) = oneshot::channel();
        if self.state() == State::Loading {
            self.0.waiting.borrow_mut().ready.push(sender);
            // A failure drops the sender, which also ends the wait.
            let _ = receiver.await;
        }
        self.state()
    }

    /// Milliseconds for a step of `architecture` on the graphics adapter.
    ///
    /// # Errors
    /// If the worker fails or has failed.
    pub async fn time(&self, architecture: Architecture) -> Result<f64, String> {
        match self.ask(|number| ToGpu::Time { number, architecture }).await? {
            FromGpu::Timed { outcome, .. } => outcome,
            _ => Err(mistaken()),
        }
    }

    fn take(&self, message: FromGpu) {
        let mut waiting = self.0.waiting.borrow_mut();
        let number = match &message {
            FromGpu::Ready => {
                waiting.state = State::Ready;
                return waiting.ready.clear();
            }
            FromGpu::Unusable(reason) => {
                let reason = reason.clone();
                drop(waiting);
                return self.fail(&reason);
            }
            FromGpu::Timed { number, .. } | FromGpu::Differentiated { number, .. } | FromGpu::Logits { number, .. } => {
                *number
            }
        };
        if let Some(answer) = waiting.answers.remove(&number) {
            drop(answer.send(message));
        }
    }

    /// Marks the worker as failed and drops all pending requests.
    fn fail(&self, reason: &str) {
        let mut waiting = self.0.waiting.borrow_mut();
        waiting.state = State::Failed(reason.to_owned());
        waiting.answers.clear();
        waiting.ready.clear();
    }

    fn ask(&self, request: impl FnOnce(u32) -> ToGpu) -> Later<FromGpu> {
        let this = self.clone();
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut waiting = this.0.waiting.borrow_mut();
            if let State::Failed(reason) = &waiting.state {
                return std::future::ready(Err(reason.clone())).boxed_local();
            }
            waiting.last_number += 1;
            let number = waiting.last_number;
            waiting.answers.insert(number, sender);
            number
        };
        let posted =
            post::encode(&request(number)).map_err(|error| error.to_string()).and_then(|(message, buffers)| {
                let posted = this.0.worker.post_message_with_transfer(&message, &buffers);
                posted.map_err(|error| format!("{error:?}"))
            });
        async move {
            posted?;
            receiver.await.map_err(|_| match this.state() {
                State::Failed(reason) => reason,
                _ => "the WebGPU trainer did not answer".to_owned(),
            })
        }
        .boxed_local()
    }
}

impl Remote for GpuWorker {
    fn differentiate(
        &self,
        pass: Pass<'_>,
        labels: &[usize],
        normalisation: Normalisation,
        wanted: Wanted,
    ) -> Later<Differentiated<f32>> {
        let (pass, labels) = (posted(pass), labels.iter().map(|&label| label as u32).collect());
        let answer = self.ask(|number| ToGpu::Differentiate {
            number,
            pass,
            labels,
            by_running: normalisation == Normalisation::Running,
            weights: wanted.weights as u32,
            images: wanted.images,
        });
        async move {
            match answer.await? {
                FromGpu::Differentiated { outcome, .. } => outcome.map(differentiated),
                _ => Err(mistaken()),
            }
        }
        .boxed_local()
    }

    fn logits(&self, pass: Pass<'_>, batch: usize) -> Later<Vec<f32>> {
        let pass = posted(pass);
        let answer = self.ask(|number| ToGpu::Logits { number, pass, batch: batch as u32 });
        async move {
            match answer.await? {
                FromGpu::Logits { outcome, .. } => outcome.map(Vec::from),
                _ => Err(mistaken()),
            }
        }
        .boxed_local()
    }
}

fn posted(Pass { architecture, weights, statistics, images }: Pass<'_>) -> GpuPass {
    GpuPass { architecture, weights: weights.into(), statistics: statistics.into(), images: images.into() }
}

fn differentiated(GpuGradients { loss, gradient, images, statistics }: GpuGradients) -> Differentiated<f32> {
    let statistics = statistics.into_iter().map(|(mean, variance, count)| Statistics {
        mean: mean.into(),
        variance: variance.into(),
        count: count as usize,
    });
    Differentiated { loss, gradient: gradient.into(), images: images.into(), statistics: statistics.collect() }
}

fn mistaken() -> String {
    "the WebGPU trainer answered something else".to_owned()
}
