//! One target folder for several checkouts of this repository.
//!
//! Cargo takes the crates of two checkouts for the same ones, and a file's age alone tells it what to build anew: in the
//! older checkout it would keep what the newer one built. So whoever comes from another checkout than the last one has
//! our own crates built again; the dependencies, which take the time, stay.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Notes in `target_dir` that `root` builds there now; forgets what another checkout built of our own crates.
pub fn take_over(target_dir: &Path, root: &Path) -> Result<()> {
    let note = target_dir.join("checkout");
    let here = root.to_string_lossy();
    if fs::read_to_string(&note).is_ok_and(|last| last == here) {
        return Ok(());
    }
    for profile in ["release", "wasm32-unknown-unknown/release"] {
        // Nothing was built there yet where it cannot be listed.
        let Ok(entries) = fs::read_dir(target_dir.join(profile).join(".fingerprint")) else { continue };
        for entry in entries {
            let path = entry?.path();
            if is_ours(&path) {
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    fs::create_dir_all(target_dir).with_context(|| format!("cannot create {}", target_dir.display()))?;
    fs::write(&note, here.as_bytes()).with_context(|| format!("cannot write {}", note.display()))
}

fn is_ours(fingerprint: &Path) -> bool {
    fingerprint.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with("unmask-") || name.starts_with("xtask-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_checkout_has_our_crates_built_again() {
        let target = std::env::temp_dir().join(format!("unmask-checkout-{}", std::process::id()));
        let fingerprints = target.join("release/.fingerprint");
        let ours = fingerprints.join("unmask-relay-0123");
        let make = || fs::create_dir_all(&ours).unwrap();
        fs::create_dir_all(fingerprints.join("burn-0123")).unwrap();

        make();
        take_over(&target, Path::new("/one")).unwrap();
        assert!(!ours.exists());
        make();
        take_over(&target, Path::new("/one")).unwrap();
        assert!(ours.exists());
        take_over(&target, Path::new("/two")).unwrap();
        assert!(!ours.exists());
        assert!(fingerprints.join("burn-0123").exists());
        fs::remove_dir_all(target).unwrap();
    }
}
