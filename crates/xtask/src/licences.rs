//! Collects the licences of all crates that are compiled into the program and its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::env::{self, Env};

/// How the names of licence and notice files start.
const FILES: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];

/// Returns the name, version, licence and source of each third-party crate in the program for `target` and in the page,
/// with its licence texts.
pub fn third_party(env: &Env, target: &str) -> Result<String> {
    let mut used = BTreeSet::new();
    for (package, target) in [("unmask", target), ("unmask-tab", "wasm32-unknown-unknown")] {
        let mut tree = env.command("cargo");
        tree.args([
            "tree",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "-p",
            package,
            "--target",
            target,
        ]);
        let tree = env::read(&mut tree).with_context(|| format!("`cargo tree -p {package}` failed"))?;
        used.extend(tree.lines().filter_map(name_and_version));
    }
    let metadata = env::read(env.command("cargo").args(["metadata", "--locked", "--format-version", "1"]))
        .context("`cargo metadata` failed")?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` writes no JSON")?;
    let mut text = "unmask is compiled from its own code and from these crates.\n".to_owned();
    let mut packages: Vec<Package> =
        metadata["packages"].as_array().into_iter().flatten().filter_map(Package::of_others).collect();
    packages.sort();
    for package in packages.iter().filter(|package| used.contains(&(package.name.into(), package.version.into()))) {
        text += &package.text()?;
    }
    Ok(text)
}

/// Parses a line of `cargo tree` such as `faer v0.23.2 (proc-macro)`.
fn name_and_version(line: &str) -> Option<(String, String)> {
    let mut words = line.split(' ');
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    licence: &'a str,
    repository: &'a str,
    folder: &'a Path,
}

impl<'a> Package<'a> {
    /// Returns `None` for our own crates.
    fn of_others(package: &'a Value) -> Option<Self> {
        package["source"].as_str()?;
        Some(Self {
            name: package["name"].as_str()?,
            version: package["version"].as_str()?,
            licence: package["license"].as_str().unwrap_or("see the text"),
            repository: package["repository"].as_str().unwrap_or("-"),
            folder: Path::new(package["manifest_path"].as_str()?).parent()?,
        })
    }

    fn text(&self) -> Result<String> {
        let Self { name, version, licence, repository, folder } = self;
        let mut text = format!("\n{}\n{name} {version}: {licence}\n{repository}\n", "=".repeat(80));
        for path in texts(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let licence = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            text += &format!("\n{}\n", String::from_utf8_lossy(&licence).trim_end());
        }
        Ok(text)
    }
}

/// The licence files of the crate in `folder`, sorted.
fn texts(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if path.is_file() && FILES.iter().any(|begin| name.starts_with(begin)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate that the program certainly contains is listed with its licence text; our own crates, those only for
    /// tests and those of other systems are not.
    #[test]
    fn what_is_compiled_in_is_listed_with_its_licence() {
        let env = Env::detect().unwrap();
        let [text, for_windows] =
            ["x86_64-unknown-linux-gnu", "x86_64-pc-windows-gnu"].map(|target| third_party(&env, target).unwrap());
        assert!(for_windows.contains("\nwindows-sys ") && !text.contains("\nwindows-sys "));
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("tokio 1.")).collect();
        assert_eq!(heads.len(), 1, "{heads:?}");
        assert!(text.contains("\nleptos 0.") && text.contains("Permission is hereby granted"));
        assert!(!text.contains("\nunmask-core ") && !text.contains("\nproptest "));
    }
}
