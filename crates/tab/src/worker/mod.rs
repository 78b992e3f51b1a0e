//! The worker: it alone holds the private picture, the socket and the model.

mod device;
mod page;
mod picture;
mod run;
mod session;
mod sheet;
mod socket;
mod trial;
mod work;

pub use run::start;
