//! The way to the page.

use js_sys::global;
use unmask_client::GroupComparison;
use wasm_bindgen::JsCast;
use web_sys::DedicatedWorkerGlobalScope;

use crate::{
    post,
    protocol::{FromWorker, GroupView},
};

/// The way to the page.
pub struct Page {
    /// The worker itself.
    pub scope: DedicatedWorkerGlobalScope,
}

impl Page {
    /// `None` outside a dedicated worker.
    pub fn find() -> Option<Self> {
        global().dyn_into().ok().map(|scope| Self { scope })
    }

    /// Says something to the page.
    pub fn tell(&self, message: FromWorker) {
        let posted = post::encode(&message)
            .map_err(|error| error.to_string())
            .and_then(|message| self.scope.post_message(&message).map_err(|error| format!("{error:?}")));
        if let Err(error) = posted {
            web_sys::console::error_1(&error.into());
        }
    }
}

/// What the page shows of a parameter group.
pub fn group_view(group: GroupComparison) -> GroupView {
    GroupView {
        title: group.group.title().to_owned(),
        values: group.values,
        zeros: group.zeros,
        norm_before: group.norm_before,
        norm_after: group.norm_after,
        noise: group.noise,
        ciphertext: group.ciphertext,
        width: group.width as u32,
        height: group.height as u32,
        before: group.before,
        after: group.after,
    }
}
