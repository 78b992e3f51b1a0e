//! Set-up, build, test and demo: `cargo demo`, `cargo check-all`, `cargo xtask`.
//!
//! Everything here calls other programs. It stays small on purpose, because a fresh machine compiles it first.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod apt;
mod browser;
mod cargo;
mod checkout;
mod cli;
mod demo;
mod dist;
mod env;
mod fuzz;
mod leftovers;
mod licences;
mod load;
mod page;
mod peers;
mod programs;
mod python;
mod runner;
mod rustc;
mod single;
mod site;
mod space;
mod steps;
mod tidy;
mod tools;
mod windows;

use std::process::ExitCode;

fn main() -> ExitCode {
    match rustc::run().unwrap_or_else(cli::run) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
