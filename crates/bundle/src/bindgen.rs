//! Generates the JavaScript around wasm.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::{
    assets::{Program, Role},
    folder,
};

/// The output of wasm-bindgen for a program.
pub struct Bound {
    pub js: Vec<u8>,
    pub wasm: Vec<u8>,
    /// JavaScript of dependencies, by its path relative to `js`.
    pub snippets: Vec<(String, Vec<u8>)>,
}

/// Makes a module for a page, and a script for a worker, because not every browser starts modules as workers.
pub fn bind(program: &Program, wasm: &Path) -> Result<Bound> {
    let name = &program.bin;
    let out = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(wasm).out_name(name).typescript(false);
    match program.role {
        Role::Page => bindgen.web(true)?,
        Role::Worker { .. } => bindgen.no_modules(true)?,
    };
    bindgen.generate(out.path()).with_context(|| format!("wasm-bindgen fails on {}", wasm.display()))?;
    let read = |file: String| fs::read(out.path().join(&file)).with_context(|| format!("wasm-bindgen wrote no {file}"));
    let snippets = out.path().join("snippets");
    Ok(Bound {
        js: read(format!("{name}.js"))?,
        wasm: read(format!("{name}_bg.wasm"))?,
        snippets: if snippets.is_dir() { folder::files(&snippets)? } else { Vec::new() },
    })
}
