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

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::{Result, anyhow};
use clap::Parser;

use crate::{
    folder::{Folder, INDEX, Storage},
    page::Source,
};

/// Build pages into a folder each
#[derive(Parser)]
struct Cli {
    /// The folder that gets a folder for each page
    #[arg(long, value_name = "DIR")]
    dist: PathBuf,
    /// Build one folder of this name instead, with all pages as they are, for any web server; the first page becomes its
    /// index.html, and a page that only names workers gets no document
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// The pages, such as `www/student.html`
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

fn run(Cli { dist, site, pages }: &Cli) -> Result<()> {
    let storage = if site.is_some() { Storage::Plain } else { Storage::Packed };
    let sources = pages.iter().map(|file| Source::read(file)).collect::<Result<Vec<_>>>()?;
    let compiled = cargo::compile(sources.iter().flat_map(Source::programs))?;
    // Packing takes some seconds of one core for each page.
    let built: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = sources.iter().map(|source| scope.spawn(|| source.build(&compiled, storage))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread ended early"))))
            .collect()
    });
    let folders = built.into_iter().collect::<Result<Vec<_>>>()?;
    let Some(site) = site else {
        let mut named = sources.iter().zip(folders);
        return named.try_for_each(|(source, folder)| folder.write(&dist.join(source.name())));
    };
    write_site(sources.iter().zip(folders), storage, &dist.join(site))
}

/// Writes all pages into one folder. The browser does not keep optional workers: they are large, and few devices use them.
fn write_site<'a>(pages: impl Iterator<Item = (&'a Source, Folder)>, storage: Storage, path: &Path) -> Result<()> {
    let (workers, pages): (Vec<_>, Vec<_>) = pages.partition(|(source, _)| source.is_only_workers());
    let mut whole = Folder::new(storage);
    for (number, (source, mut folder)) in pages.into_iter().enumerate() {
        if number > 0 {
            folder.rename(INDEX, format!("{}.html", source.document()));
        }
        whole.add_all(folder);
    }
    whole.add_offline();
    for (_, mut folder) in workers {
        folder.remove(INDEX);
        whole.add_all(folder);
    }
    whole.write(path)
}
