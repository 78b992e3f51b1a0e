//! Which state of the repository numbers are of.

use std::process::Command;

/// The git commit of the current folder, and whether files differ from it; `None` outside a repository.
pub fn commit() -> Option<(String, bool)> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some((commit, !changes.is_empty()))
}
