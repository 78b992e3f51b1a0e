//! The worker, the only place that holds the private picture, the socket and the model.

mod caution;
pub mod device;
mod event_loop;
mod gpu;
mod loan;
mod own_attack;
mod own_mask;
mod page;
mod session;
mod socket;
mod views;

pub use event_loop::start;
