//! Tells the program which commit it is built from. Outside a repository, as in an archive, there is none.

use std::{fs, path::Path, process::Command};

use anyhow::Result;
use vergen_gitcl::{Emitter, Gitcl};

fn main() -> Result<()> {
    Emitter::default().quiet().add_instructions(&Gitcl::builder().sha(false).dirty(false).build())?.emit()?;
    // In a linked worktree, or where the branch is packed, only the log of HEAD changes with each commit.
    if let Ok(log) = Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]).output() {
        watch(Path::new(String::from_utf8_lossy(&log.stdout).trim()));
    }
    // The embedded lesson may be new.
    watch(Path::new("../../assets"));
    // An edit makes the commit one with local changes. The program is rebuilt then in any case.
    for folder in fs::read_dir("..")? {
        let folder = folder?.path();
        if !folder.ends_with("tab") && !folder.ends_with("xtask") {
            watch(&folder.join("src"));
        }
    }
    Ok(())
}

/// Skips a missing path, because Cargo would then run this script at every build.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
