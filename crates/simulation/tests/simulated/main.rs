//! Simulated rounds and their files.

mod common;
mod files;
mod hostile;
mod rounds;
