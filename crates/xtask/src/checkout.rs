//! Shares one target folder among several checkouts of this repository.
//!
//! Cargo takes the crates of two checkouts for the same ones and decides what to rebuild by the age of files only. In
//! the older checkout it would therefore keep what the newer one built. After a switch to another checkout, our own
//! crates are rebuilt; the dependencies, which take most of the time, are kept. A lock makes other checkouts wait.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// The right to build in the shared target folder; released when dropped. Jobs of one checkout share it, and cargo
/// orders them.
#[must_use]
pub struct Turn {
    _lock: File,
}

/// Waits until no other checkout builds in `target_dir`, then records that `root` does. Deletes what another checkout
/// built of our own crates.
pub fn take_over(target_dir: &Path, root: &Path) -> Result<Turn> {
    fs::create_dir_all(target_dir).with_context(|| format!("cannot create {}", target_dir.display()))?;
    let note = target_dir.join("checkout");
    let here = root.to_string_lossy();
    let is_ours = || fs::read_to_string(&note).is_ok_and(|last| last == here);
    let path = target_dir.join("checkout.lock");
    let cannot_lock =
        || format!("cannot lock {}: set UNMASK_TARGET_DIR to a folder on a disk that has file locks", path.display());
    let lock = File::options().create(true).truncate(false).write(true).open(&path).with_context(cannot_lock)?;
    loop {
        lock.lock_shared().with_context(cannot_lock)?;
        if is_ours() {
            return Ok(Turn { _lock: lock });
        }
        // A shared lock does not become exclusive in one step: another checkout may get it in between.
        lock.unlock().with_context(cannot_lock)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let other = fs::read_to_string(&note).unwrap_or_else(|_| "another checkout".to_owned());
                eprintln!(
                    "Waiting for {other}, which is building in {} (set UNMASK_TARGET_DIR to use another folder) ...",
                    target_dir.display()
                );
                lock.lock().with_context(cannot_lock)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot_lock),
        }
        if !is_ours() {
            forget_our_crates(target_dir)?;
            fs::write(&note, here.as_bytes()).with_context(|| format!("cannot write {}", note.display()))?;
        }
        lock.unlock().with_context(cannot_lock)?;
    }
}

fn forget_our_crates(target_dir: &Path) -> Result<()> {
    const WASM: &str = "wasm32-unknown-unknown";
    for profile in ["release", "page", &format!("{WASM}/release"), &format!("{WASM}/page")] {
        // If the folder cannot be listed, nothing was built there.
        let Ok(entries) = fs::read_dir(target_dir.join(profile).join(".fingerprint")) else { continue };
        for entry in entries {
            let path = entry?.path();
            let is_our_crate = path.file_name().is_some_and(|name| {
                let name = name.to_string_lossy();
                name.starts_with("unmask-") || name.starts_with("xtask-")
            });
            if is_our_crate {
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A target folder with a built dependency and one of our crates.
    struct Target(PathBuf);

    impl Target {
        fn new(name: &str) -> Self {
            let target = Self(std::env::temp_dir().join(format!("unmask-checkout-{name}-{}", std::process::id())));
            fs::create_dir_all(target.crates().join("burn-0123")).unwrap();
            target.build_ours();
            target
        }

        fn crates(&self) -> PathBuf {
            self.0.join("release/.fingerprint")
        }

        fn build_ours(&self) {
            fs::create_dir_all(self.crates().join("unmask-relay-0123")).unwrap();
        }

        fn has_ours(&self) -> bool {
            self.crates().join("unmask-relay-0123").exists()
        }

        fn take_over(&self, root: &str) -> Turn {
            take_over(&self.0, Path::new(root)).unwrap()
        }
    }

    impl Drop for Target {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn only_another_checkout_has_our_crates_built_again() {
        let target = Target::new("again");
        drop(target.take_over("/one"));
        assert!(!target.has_ours());
        target.build_ours();
        drop(target.take_over("/one"));
        assert!(target.has_ours());
        drop(target.take_over("/two"));
        assert!(!target.has_ours());
        assert!(target.crates().join("burn-0123").exists());
    }

    #[test]
    fn another_checkout_waits_until_the_builds_are_over() {
        let target = Target::new("waits");
        let first = target.take_over("/one");
        let second = target.take_over("/one");
        target.build_ours();
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let target = &target;
            scope.spawn(move || {
                let turn = target.take_over("/two");
                sender.send(target.has_ours()).unwrap();
                drop(turn);
            });
            for turn in [first, second] {
                let waited = receiver.recv_timeout(Duration::from_millis(200));
                assert_eq!(waited, Err(RecvTimeoutError::Timeout));
                assert!(target.has_ours(), "the crates of a checkout were deleted while it was building");
                drop(turn);
            }
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(false));
        });
    }
}
