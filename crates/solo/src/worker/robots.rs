//! The robots' worker.

use std::{collections::BTreeSet, time::Duration};

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_util::{FutureExt, StreamExt};
use gloo_events::EventListener;
use gloo_net::http::Request;
use gloo_timers::future::sleep;
use unmask_data::{Picture, decode};
use unmask_model::device::OpenDevice;
use unmask_tab::worker::device::{Attempt, ChosenDevice, compute};
use unmask_wire::channel;
use wasm_bindgen_futures::spawn_local;
use web_sys::DedicatedWorkerGlobalScope;

use super::{
    beside::{FromRobots, READY, ToRobots},
    bytes_of, fresh, hand,
};
use crate::robots::{Robots, Task, file};

pub(super) fn start(scope: DedicatedWorkerGlobalScope) {
    let (sender, inbox) = unbounded();
    EventListener::new(&scope, "message", move |event| {
        if let Ok(message) = channel::decode(&bytes_of(event)) {
            // The receiver lives as long as the worker.
            drop(sender.unbounded_send(message));
        }
    })
    .forget();
    hand(READY, |bytes, buffers| scope.post_message_with_transfer(bytes, buffers));
    spawn_local(async move {
        if let Err(reason) = live(&scope, inbox).await {
            tell(&scope, &FromRobots::Failed(reason));
        }
    });
}

async fn live(scope: &DedicatedWorkerGlobalScope, mut inbox: UnboundedReceiver<ToRobots>) -> Result<(), String> {
    let Some(ToRobots::Begin { photographs: names, seed, classes, device }) = inbox.next().await else { return Ok(()) };
    let (wanted, mut device) = (compute(device), ChosenDevice::default());
    let photographs = photographs(&names).await?;
    let mut robots = Robots::new(&names, seed, &photographs, &classes, fresh).map_err(|error| error.to_string())?;
    // In their order: the first client is the first under attack, and its photograph is the easiest.
    for robot in 0..robots.count() {
        tell(scope, &FromRobots::Connect { robot });
        send(scope, robot, robots.hello(robot).map_err(|error| error.to_string())?);
    }
    loop {
        while let Some(message) = inbox.next().now_or_never() {
            let Some(message) = message else { return Ok(()) };
            hear(scope, &mut robots, message)?;
        }
        match robots.task() {
            Some(Task { robot, plan, pictures, caution }) => {
                let (open, reason) = device.for_model(plan.architecture, wanted).await;
                if reason.is_some() {
                    tell_device(scope, &mut robots, &open)?;
                }
                let Attempt { outcome, changed, .. } = device.attempt(open, &plan, pictures, caution, |_| {}).await;
                if let Some((cpu, _)) = changed {
                    tell_device(scope, &mut robots, &cpu)?;
                }
                send(scope, robot, robots.answer(robot, &plan, outcome).map_err(|error| error.to_string())?);
                // Lets the browser deliver what has arrived.
                sleep(Duration::ZERO).await;
            }
            None => {
                let Some(message) = inbox.next().await else { return Ok(()) };
                hear(scope, &mut robots, message)?;
            }
        }
    }
}

/// Every robot tells the room what it trains on.
fn tell_device(scope: &DedicatedWorkerGlobalScope, robots: &mut Robots, device: &OpenDevice) -> Result<(), String> {
    for robot in 0..robots.count() {
        send(scope, robot, robots.device(robot, &device.description()).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn hear(scope: &DedicatedWorkerGlobalScope, robots: &mut Robots, message: ToRobots) -> Result<(), String> {
    match message {
        ToRobots::Begin { .. } => Ok(()),
        ToRobots::Frame { robot, frame } => {
            send(scope, robot, robots.receive(robot, &frame).map_err(|error| error.to_string())?);
            Ok(())
        }
        // The room had a reason; one that was sent away for good does not come back.
        ToRobots::Closed { robot } if robots.is_gone(robot) => Ok(()),
        ToRobots::Closed { robot } => {
            tell(scope, &FromRobots::Connect { robot });
            send(scope, robot, robots.hello(robot).map_err(|error| error.to_string())?);
            Ok(())
        }
    }
}

/// Fetches the photographs with these names.
async fn photographs(names: &[String]) -> Result<Vec<(String, Picture)>, String> {
    let mut all = Vec::new();
    for name in names.iter().collect::<BTreeSet<_>>() {
        let path = format!("samples/{}", file(name));
        let failed = |error: &dyn std::fmt::Display| format!("{path} cannot be fetched ({error})");
        let answer = Request::get(&path).send().await.map_err(|error| failed(&error))?;
        if !answer.ok() {
            return Err(failed(&format!("status {}", answer.status())));
        }
        let bytes = answer.binary().await.map_err(|error| failed(&error))?;
        all.push((name.clone(), decode(&bytes).map_err(|error| format!("{path} is no picture: {error}"))?));
    }
    Ok(all)
}

fn send(scope: &DedicatedWorkerGlobalScope, robot: usize, frames: Vec<Vec<u8>>) {
    for frame in frames {
        tell(scope, &FromRobots::Frame { robot, frame });
    }
}

fn tell(scope: &DedicatedWorkerGlobalScope, message: &FromRobots) {
    if let Ok(bytes) = channel::encode(message) {
        hand(&bytes, |bytes, buffers| scope.post_message_with_transfer(bytes, buffers));
    }
}
