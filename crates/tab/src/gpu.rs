//! The worker that computes on WebGPU for the trainer that started it. It knows nothing of rooms.

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_util::StreamExt;
use gloo_events::EventListener;
use js_sys::global;
use unmask_core::{Architecture, ModelState};
use unmask_model::{
    Device, Network, Normalisation, Wanted,
    device::{Compute, OpenDevice, open, step_milliseconds},
};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use crate::{
    post,
    protocol::{Floats, FromGpu, GpuGradients, GpuPass, ToGpu},
};

/// Starts the worker and returns immediately.
pub fn start() {
    let Ok(scope) = global().dyn_into::<DedicatedWorkerGlobalScope>() else {
        web_sys::console::error_1(&"the WebGPU trainer must run in a dedicated worker".into());
        return;
    };
    let (sender, receiver) = unbounded();
    let teller = scope.clone();
    let listener = EventListener::new(&scope, "message", move |event| {
        let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
        match post::decode(event.data()) {
            Ok(message) => drop(sender.unbounded_send(message)),
            // A trainer that a browser kept may be of another build. It would wait for an answer.
            Err(error) => tell(&teller, &FromGpu::Unusable(error.to_string())),
        }
    });
    listener.forget();
    spawn_local(serve(scope, receiver));
}

async fn serve(scope: DedicatedWorkerGlobalScope, mut requests: UnboundedReceiver<ToGpu>) {
    let device = match open(Compute::Gpu).await {
        Ok(device) => device,
        Err(error) => return tell(&scope, &FromGpu::Unusable(error.to_string())),
    };
    tell(&scope, &FromGpu::Ready);
    let mut network = None;
    while let Some(request) = requests.next().await {
        let answer = answer(request, &device, &mut network).await;
        tell(&scope, &answer);
    }
}

async fn answer(request: ToGpu, device: &OpenDevice, network: &mut Option<Network>) -> FromGpu {
    match request {
        ToGpu::Time { number, architecture } => {
            let outcome = step_milliseconds(device, architecture, 1).await.map_err(|error| error.to_string());
            FromGpu::Timed { number, outcome }
        }
        ToGpu::Differentiate { number, pass, labels, by_running, weights, images } => {
            let labels: Vec<usize> = labels.into_iter().map(|label| label as usize).collect();
            let normalisation = if by_running { Normalisation::Running } else { Normalisation::Batch };
            let wanted = Wanted { weights: weights as usize, images };
            let outcome = differentiate(pass, &labels, normalisation, wanted, (device.device(), network)).await;
            FromGpu::Differentiated { number, outcome }
        }
        ToGpu::Logits { number, pass, batch } => {
            let outcome = logits(pass, batch as usize, (device.device(), network)).await;
            FromGpu::Logits { number, outcome }
        }
    }
}

async fn differentiate(
    pass: GpuPass,
    labels: &[usize],
    normalisation: Normalisation,
    wanted: Wanted,
    (device, network): (&Device, &mut Option<Network>),
) -> Result<GpuGradients, String> {
    let network = network_of(pass.architecture, device, network)?;
    let (state, images) = state_and_images(pass);
    let found = network.differentiate(&state, &images, labels, normalisation, wanted).await;
    let found = found.map_err(|error| error.to_string())?;
    let statistics = found.statistics.iter().map(|statistics| {
        (statistics.mean.as_slice().into(), statistics.variance.as_slice().into(), statistics.count as u32)
    });
    Ok(GpuGradients {
        loss: found.loss,
        gradient: found.gradient.as_slice().into(),
        images: found.images.as_slice().into(),
        statistics: statistics.collect(),
    })
}

async fn logits(
    pass: GpuPass,
    batch: usize,
    (device, network): (&Device, &mut Option<Network>),
) -> Result<Floats, String> {
    let network = network_of(pass.architecture, device, network)?;
    let (state, images) = state_and_images(pass);
    let logits = network.logits(&state, &images, batch).await.map_err(|error| error.to_string())?;
    Ok(logits.as_slice().into())
}

/// Returns the network in `network`, rebuilt if it has another architecture.
fn network_of<'a>(
    architecture: Architecture,
    device: &Device,
    network: &'a mut Option<Network>,
) -> Result<&'a Network, String> {
    let known = network.take().filter(|network| network.architecture() == architecture);
    let known = match known {
        Some(known) => known,
        None => Network::new(architecture, device).map_err(|error| error.to_string())?,
    };
    Ok(network.insert(known))
}

fn state_and_images(GpuPass { weights, statistics, images, .. }: GpuPass) -> (ModelState, Vec<f32>) {
    (ModelState { weights: weights.into(), statistics: statistics.into() }, images.into())
}

fn tell(scope: &DedicatedWorkerGlobalScope, message: &FromGpu) {
    let posted = post::encode(message).map_err(|error| error.to_string()).and_then(|(message, buffers)| {
        scope.post_message_with_transfer(&message, &buffers).map_err(|error| format!("{error:?}"))
    });
    if let Err(error) = posted {
        web_sys::console::error_1(&error.into());
    }
}
