//! The worker: it alone holds the private picture, the socket and the model.

mod comparison;
mod device;
mod own_picture;
mod page;
mod run;
mod samples;
mod session;
mod sheet;
mod socket;
mod training;
mod trial;
mod work;

pub use run::start;
