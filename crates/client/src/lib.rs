//! One federated client without its surroundings: no socket, no clock, no tensors.
//!
//! The tab's worker and the native client both drive a [`Client`]: they carry frames to and from the socket, train when
//! it says so, and hand the gradient back to be protected. What leaves the device is decided here and nowhere else.

mod client;
mod leaving;

pub use client::{Action, Client, ClientError, News, Outgoing, Plan, Step};
pub use leaving::{GroupLeaving, leaving};
