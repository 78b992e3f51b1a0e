//! Turns the English catalogue into Rust, and compares the translations with it.

#[path = "../src/catalogue.rs"]
mod catalogue;
mod catalogues;

use std::{env, error::Error, fs, path::Path};

use catalogues::Catalogue;

fn main() -> Result<(), Box<dyn Error>> {
    for input in ["build", "src/catalogue.rs", "en.ftl", "translations"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let paths = ["en.ftl", "translations/de.ftl", "translations/ja.ftl"];
    let read = |path: &&'static str| -> Result<_, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("crates/words/{path}: {error}"))?;
        let catalogue = Catalogue::read(text).map_err(|problem| format!("crates/words/{path}: {problem}"))?;
        Ok((*path, catalogue))
    };
    let all = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let folder = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&folder).join("say.rs"), catalogues::code(&all)?)?;
    Ok(())
}
