//! Removes the bundles' symbol names, which are a third of the download (wasm-bindgen reads the target features), and
//! turns the catalogues into Rust.

mod catalogues;

use std::{env, error::Error, fs, path::Path};

use catalogues::Catalogue;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=catalogues");
    let read = |tag| -> Result<Catalogue, Box<dyn Error>> {
        let path = format!("catalogues/{tag}.ftl");
        let text = fs::read_to_string(&path).map_err(|error| format!("crates/tab/{path}: {error}"))?;
        Ok(Catalogue::read(&text).map_err(|problem| format!("crates/tab/{path}: {problem}"))?)
    };
    // In the order of `Language`.
    let all = [("en", read("en")?), ("de", read("de")?), ("ja", read("ja")?)];
    let folder = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&folder).join("say.rs"), catalogues::code(&all)?)?;
    if env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        for argument in ["--strip-all", "--keep-section=target_features"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    Ok(())
}
