//! The attacks' worker.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_util::{FutureExt, StreamExt};
use gloo_events::EventListener;
use gloo_timers::future::sleep;
use unmask_room::ForeignMessage;
use wasm_bindgen_futures::spawn_local;
use web_sys::DedicatedWorkerGlobalScope;

use super::{beside::READY, bytes_of, clock::Clock, hand};
use crate::attack_desk;

pub(super) fn start(scope: DedicatedWorkerGlobalScope) {
    let (sender, inbox) = unbounded();
    // The receiver lives as long as the worker.
    EventListener::new(&scope, "message", move |event| drop(sender.unbounded_send(bytes_of(event)))).forget();
    hand(READY, |bytes, buffers| scope.post_message_with_transfer(bytes, buffers));
    spawn_local(async move {
        if let Err(error) = work(&scope, inbox).await {
            web_sys::console::error_1(&error.to_string().into());
        }
    });
}

async fn work(scope: &DedicatedWorkerGlobalScope, mut inbox: UnboundedReceiver<Vec<u8>>) -> Result<(), ForeignMessage> {
    let (mut desk, clock) = (attack_desk(), Clock::start());
    loop {
        while let Some(order) = inbox.next().now_or_never() {
            let Some(order) = order else { return Ok(()) };
            desk.take(&order)?;
        }
        let tell = |message: Vec<u8>| hand(&message, |bytes, buffers| scope.post_message_with_transfer(bytes, buffers));
        match desk.step(&|| clock.now().moment, &tell) {
            Some(message) => {
                tell(message);
                // Lets the browser deliver what has arrived.
                sleep(Duration::ZERO).await;
            }
            None => {
                let Some(order) = inbox.next().await else { return Ok(()) };
                desk.take(&order)?;
            }
        }
    }
}
