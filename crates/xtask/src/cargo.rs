//! Calls of cargo for the whole workspace and for the page.

use std::process::Command;

use crate::env::Env;
use crate::{browser, page, rustc};

/// All crates, as far as they build natively. Every native step names the same packages, and targets that include the
/// dev-dependencies; cargo then sees one feature set and compiles Burn once.
pub const NATIVE: [&str; 2] = ["--release", "--workspace"];

/// The page's crate with everything that only a browser can run.
pub const BROWSER: [&str; 6] =
    ["--release", "--package", "unmask-tab", "--all-features", "--target", "wasm32-unknown-unknown"];

/// A call of cargo that tells the tests where browsers and the WebGPU trainer are.
pub fn cargo(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command("cargo");
    command.args(arguments).envs(browser::variables(env)).env(page::GPU_FOLDER, page::gpu_folder(env));
    command
}

/// A call of cargo for all crates, so that the dependencies are never recompiled for another selection.
pub fn native(env: &Env, subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(env, &[subcommand]);
    command.args(NATIVE).args(arguments);
    if subcommand == "test" {
        rustc::for_tests(&mut command);
    }
    command
}

/// A crate with other features in one graph than in another is compiled for each of them.
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{env, python};

    /// Lines such as `libc v0.2.191|default,std` of all crates on Linux.
    fn crates(env: &Env, arguments: &[&str]) -> BTreeSet<String> {
        let mut tree = env.command("cargo");
        tree.args(["tree", "--locked", "--prefix", "none", "--target", "x86_64-unknown-linux-gnu"]);
        let said = env::read(tree.args(["--format", "{p}|{f}"]).args(arguments));
        let lines = said.expect("the lock file is out of date: `cargo update --workspace`");
        // A star follows what was shown before.
        lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }

    fn name(line: &str) -> &str {
        line.split_once(' ').map_or(line, |(name, _)| name)
    }

    /// Those that also are in `whole`, but differ there.
    fn differing(part: &BTreeSet<String>, whole: &BTreeSet<String>) -> Vec<String> {
        let is_in_whole = |line: &&String| whole.iter().any(|other| name(other) == name(line));
        part.iter().filter(|line| !whole.contains(*line)).filter(is_in_whole).cloned().collect()
    }

    #[test]
    fn the_wheel_shares_its_dependencies_with_the_workspace() {
        let env = Env::detect().expect("a home");
        let wheel = ["--package", "unmask-python", python::SHARED[0], python::SHARED[1]];
        for edges in ["normal,no-proc-macro", "normal,build"] {
            let wheel = crates(&env, &[&wheel[..], &["--edges", edges]].concat());
            let workspace = crates(&env, &["--workspace", "--edges", &format!("dev,{edges}")]);
            assert!(wheel.len() > 100, "{wheel:#?}");
            let mut differ = differing(&wheel, &workspace);
            differ.retain(|line| name(line) != "unmask-python");
            assert!(
                differ.is_empty(),
                "give the feature `shared` of crates/python the workspace's features of {differ:#?}"
            );
        }
    }

    #[test]
    fn the_fuzzer_shares_its_dependencies_with_everything_else() {
        let env = Env::detect().expect("a home");
        let all = ["--workspace", "--edges", "normal,build,dev"];
        let fuzzer = crates(&env, &[&all[..], &["--features", "unmask-fuzz/libfuzzer"]].concat());
        let differ = differing(&fuzzer, &crates(&env, &all))
            .into_iter()
            .filter(|line| !["libfuzzer-sys", "unmask-fuzz"].contains(&name(line)));
        assert_eq!(differ.collect::<Vec<_>>(), [] as [String; 0], "give a crate these features, as for cc");
    }
}
