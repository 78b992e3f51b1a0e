//! The worker: it alone holds the private picture, the socket and the model.

mod device;
mod own_picture;
mod run;
mod socket;

pub use run::start;
