//! Tells the program which commit it is built from; outside a repository, as in an archive, it knows none.

use std::{fs, path::Path, process::Command};

use anyhow::Result;
use vergen_gitcl::{Emitter, Gitcl};

fn main() -> Result<()> {
    Emitter::default().quiet().add_instructions(&Gitcl::builder().sha(false).dirty(false).build())?.emit()?;
    // In a linked worktree, and where the branch is packed, a commit shows in the log of HEAD alone.
    if let Ok(log) = Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]).output() {
        watch(Path::new(String::from_utf8_lossy(&log.stdout).trim()));
    }
    // The lesson that comes along may be new.
    watch(Path::new("../../assets"));
    // An edit makes it a commit with local changes. The program is built anew then in any case.
    for folder in fs::read_dir("..")? {
        let folder = folder?.path();
        if !folder.ends_with("tab") && !folder.ends_with("xtask") {
            watch(&folder.join("src"));
        }
    }
    Ok(())
}

/// Cargo would run this script at every build for a path that is not there.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
