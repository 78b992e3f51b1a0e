//! Compiles programs to wasm, those with the same recipe in one call, because link-time optimisation uses one core for
//! each.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::assets::{Program, Recipe};

const TARGET: &str = "wasm32-unknown-unknown";

#[derive(Default)]
pub struct Compiled(HashMap<(Recipe, String), PathBuf>);

impl Compiled {
    pub fn wasm(&self, program: &Program) -> Result<&Path> {
        let path = self.0.get(&(program.recipe.clone(), program.bin.clone()));
        path.map(PathBuf::as_path).with_context(|| format!("cargo wrote no wasm for {}", program.bin))
    }
}

/// Compiles all programs, in the order in which their recipes first appear.
pub fn compile<'a>(programs: impl Iterator<Item = &'a Program>) -> Result<Compiled> {
    let mut compiled = Compiled::default();
    for (recipe, bins) in calls(programs) {
        let mut command = Command::new("cargo");
        command.args(arguments(recipe, &bins)).stdout(Stdio::piped());
        let line =
            format!("cargo {}", command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "));
        eprintln!("$ {line}");
        let mut child = command.spawn().with_context(|| format!("cannot run `{line}`"))?;
        for message in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
            if let Some((bin, path)) = artifact(&message?) {
                compiled.0.insert((recipe.clone(), bin), path);
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("`{line}` failed ({status})");
        }
    }
    Ok(compiled)
}

/// Each recipe with its binaries, in order of appearance.
fn calls<'a>(programs: impl Iterator<Item = &'a Program>) -> Vec<(&'a Recipe, Vec<&'a str>)> {
    let mut calls: Vec<(&Recipe, Vec<&str>)> = Vec::new();
    for Program { recipe, bin, .. } in programs {
        match calls.iter_mut().find(|(known, _)| *known == recipe) {
            Some((_, bins)) if bins.contains(&bin.as_str()) => {}
            Some((_, bins)) => bins.push(bin),
            None => calls.push((recipe, vec![bin])),
        }
    }
    calls
}

fn arguments(recipe: &Recipe, bins: &[&str]) -> Vec<String> {
    let Recipe { manifest, profile, features, has_default_features } = recipe;
    let mut all = vec!["build".to_owned(), "--message-format=json-render-diagnostics".to_owned()];
    all.extend(["--target", TARGET, "--profile", profile, "--manifest-path"].map(str::to_owned));
    all.push(manifest.to_string_lossy().into_owned());
    all.extend(bins.iter().flat_map(|bin| ["--bin".to_owned(), (*bin).to_owned()]));
    if !features.is_empty() {
        all.extend(["--features".to_owned(), features.clone()]);
    }
    if !has_default_features {
        all.push("--no-default-features".to_owned());
    }
    all
}

/// The binary and its wasm, if a line of cargo's output names one.
fn artifact(line: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_bin = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "bin");
    let path =
        message["filenames"].as_array()?.iter().filter_map(Value::as_str).find(|path| path.ends_with(".wasm"))?;
    is_bin.then_some((message["target"]["name"].as_str()?.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::Role;

    /// Without features, it has the default ones.
    fn program(bin: &str, profile: &str, features: &str) -> Program {
        let has_default_features = features.is_empty();
        let (manifest, profile, features) = ("Cargo.toml".into(), profile.into(), features.into());
        let recipe = Recipe { manifest, profile, features, has_default_features };
        Program { recipe, bin: bin.into(), role: Role::Page }
    }

    #[test]
    fn one_call_compiles_all_with_the_same_recipe() {
        let all = [
            program("a", "page", ""),
            program("w", "release", "train"),
            program("b", "page", ""),
            program("a", "page", ""),
        ];
        let calls = calls(all.iter());
        let lines: Vec<_> = calls.iter().map(|(recipe, bins)| arguments(recipe, bins).join(" ")).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("--profile page --manifest-path Cargo.toml --bin a --bin b"), "{lines:?}");
        assert!(
            lines[1].ends_with(
                "--profile release --manifest-path Cargo.toml --bin w --features train --no-default-features"
            ),
            "{lines:?}"
        );
    }

    #[test]
    fn cargo_says_where_the_wasm_is() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"a"},"filenames":["/t/a.js","/t/a.wasm"]}"#;
        assert_eq!(artifact(line), Some(("a".to_owned(), "/t/a.wasm".into())));
        for other in
            [line.replace("bin", "lib"), r#"{"reason":"build-finished","success":true}"#.to_owned(), "text".to_owned()]
        {
            assert_eq!(artifact(&other), None, "{other}");
        }
    }
}
