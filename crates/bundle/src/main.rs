//! Builds the pages: cargo compiles to wasm, wasm-bindgen makes the JavaScript around it, and each page gets a folder
//! with all its files.
//!
//! The sources use trunk's notation, and trunk can build them too. This program supports only the parts that these
//! pages need, and compiles much faster than trunk.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod assets;
mod bindgen;
mod cargo;
mod folder;
mod markup;
mod page;

use std::{path::PathBuf, process::ExitCode, thread};

use anyhow::{Result, anyhow};
use clap::Parser;

use crate::page::Source;

/// Build pages into a folder each
#[derive(Parser)]
struct Cli {
    /// The folder that gets a folder for each page
    #[arg(long, value_name = "DIR")]
    dist: PathBuf,
    /// The pages, such as `index.html`
    #[arg(required = true, value_name = "FILE")]
    pages: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Cli { dist, pages }: &Cli) -> Result<()> {
    let sources = pages.iter().map(|file| Source::read(file)).collect::<Result<Vec<_>>>()?;
    let compiled = cargo::compile(sources.iter().flat_map(Source::programs))?;
    // Packing takes some seconds of one core for each page.
    let built: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = sources.iter().map(|source| scope.spawn(|| source.build(&compiled))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread ended early"))))
            .collect()
    });
    let folders = built.into_iter().collect::<Result<Vec<_>>>()?;
    for (source, folder) in sources.iter().zip(folders) {
        folder.write(&dist.join(source.name()))?;
    }
    Ok(())
}
