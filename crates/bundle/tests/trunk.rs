//! Trunk builds the same page from the same source, for those who use it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[path = "../../../tests/support/skipped.rs"]
mod skipped;

/// The version of trunk that the sources are written for.
const TRUNK: &str = "0.21.14";

/// The smallest page: trunk and `bundle` both build it with one call of cargo.
const PAGE: &str = "replay";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program in the top folder, without the variables of `cargo test`: build scripts that watch them would run again.
fn program(name: &str) -> Command {
    let mut program = Command::new(name);
    for (name, _) in std::env::vars_os() {
        let is_cargos =
            |name: &str| name == "CARGO" || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|p| name.starts_with(p));
        if name.to_str().is_some_and(is_cargos) {
            program.env_remove(name);
        }
    }
    program.current_dir(root());
    program
}

fn is_there(name: &str, version: &str) -> bool {
    let output = program(name).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).split_whitespace().nth(1) == Some(version))
}

fn wasm_bindgen() -> String {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let (_, rest) = lock.split_once("name = \"wasm-bindgen\"\nversion = \"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// `text` with every hash replaced by the same word.
fn without_hashes(text: &str) -> String {
    let mut plain = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_hash = digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain += if is_hash { "HASH" } else { digits };
        plain += &part[digits.len()..];
    }
    plain
}

/// The names of all files below `folder`, packed or not.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            names.extend(self::names(&path).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.insert(without_hashes(name.trim_end_matches(".br")));
        }
    }
    names
}

/// The words of the document, without two things that only trunk's script has: an event, and a name for the module's
/// exports.
fn words(folder: &Path) -> Vec<String> {
    let mut html = fs::read_to_string(folder.join("index.html")).unwrap();
    for (theirs, ours) in [
        ("import init, * as bindings from", "import init from"),
        ("const wasm = await", "await"),
        ("window.wasmBindings = bindings;", ""),
        ("dispatchEvent(new CustomEvent(\"TrunkApplicationStarted\", {detail: {wasm}}));", ""),
    ] {
        html = html.replace(theirs, ours);
    }
    without_hashes(&html).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn trunk_builds_the_same_page() {
    let bindgen = wasm_bindgen();
    if !is_there("trunk", TRUNK) || !is_there("wasm-bindgen", &bindgen) {
        return skipped::skipped(format_args!("there is no trunk {TRUNK} with a wasm-bindgen {bindgen} on PATH"));
    }
    let place = tempfile::tempdir().unwrap();
    let (ours, theirs) = (place.path().join(PAGE), place.path().join("trunk"));
    fs::create_dir(&theirs).unwrap();
    let page = format!("www/{PAGE}.html");
    run(program(env!("CARGO_BIN_EXE_bundle")).arg("--dist").arg(place.path()).arg(&page));
    // Trunk parses NO_COLOR as a boolean and refuses the usual NO_COLOR=1.
    let mut trunk = program("trunk");
    trunk.env_remove("NO_COLOR").env("TRUNK_SKIP_VERSION_CHECK", "true");
    run(trunk.arg("build").arg(&page).arg("--dist").arg(&theirs));
    assert_eq!(names(&ours), names(&theirs));
    assert_eq!(words(&ours), words(&theirs));
}

#[test]
fn hashes_are_told_from_other_words() {
    assert_eq!(without_hashes("'./base-0123456789abcdef.css' deadbeef"), "'./base-HASH.css' deadbeef");
}
