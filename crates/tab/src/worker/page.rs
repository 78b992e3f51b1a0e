//! The connection to the page.

use gloo_events::EventListener;
use js_sys::global;
use wasm_bindgen::JsCast;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use crate::{
    post,
    protocol::{FromWorker, ToWorker},
};

pub struct Page {
    scope: DedicatedWorkerGlobalScope,
}

impl Page {
    /// `None` outside a dedicated worker.
    pub fn find() -> Option<Self> {
        global().dyn_into().ok().map(|scope| Self { scope })
    }

    /// Passes every message from the page to `take`, for the lifetime of the worker.
    pub fn listen(&self, take: impl Fn(ToWorker) + 'static) {
        let listener = EventListener::new(&self.scope, "message", move |event| {
            let Some(event) = event.dyn_ref::<MessageEvent>() else { return };
            match post::decode(event.data()) {
                Ok(message) => take(message),
                Err(error) => web_sys::console::error_1(&error.to_string().into()),
            }
        });
        listener.forget();
    }

    pub fn tell(&self, message: FromWorker) {
        let posted = post::encode(&message).map_err(|error| error.to_string()).and_then(|(message, buffers)| {
            self.scope.post_message_with_transfer(&message, &buffers).map_err(|error| format!("{error:?}"))
        });
        if let Err(error) = posted {
            web_sys::console::error_1(&error.into());
        }
    }
}
