//! The commands of the program.

mod audit;
mod data_command;
mod invert_model;
mod matrix;
#[cfg(unix)]
mod opening;
mod reproduce_cli;
#[path = "../../../../tests/support/schema.rs"]
mod schema;
mod train_command;
