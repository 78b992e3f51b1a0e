//! Turns the catalogues into Rust.

mod catalogues;

use std::{env, error::Error, fs, path::Path};

use catalogues::Catalogue;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=catalogues");
    let read = |tag| -> Result<Catalogue, Box<dyn Error>> {
        let path = format!("catalogues/{tag}.ftl");
        let text = fs::read_to_string(&path).map_err(|error| format!("crates/words/{path}: {error}"))?;
        Ok(Catalogue::read(&text).map_err(|problem| format!("crates/words/{path}: {problem}"))?)
    };
    // In the order of `Language`.
    let all = [("en", read("en")?), ("de", read("de")?), ("ja", read("ja")?)];
    let folder = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&folder).join("say.rs"), catalogues::code(&all)?)?;
    Ok(())
}
