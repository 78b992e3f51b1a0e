//! Checks the free disk space before a build, because a linker that runs out of it fails late and with misleading
//! messages.

use std::path::Path;
use std::process::Command;

use crate::env::{self, Env};

pub const GB: u64 = 1_000_000_000;
/// Space for a rebuild: new copies of our own crates and of their tests.
const AGAIN: u64 = 3 * GB;

/// Warns if the disk of the target folder has less free space than the build needs: `needed` bytes for one from
/// scratch.
pub fn warn_if_short(env: &Env, needed: u64) {
    let target = &env.target_dir;
    let Some(free) = target.ancestors().find(|folder| folder.is_dir()).and_then(free_bytes) else { return };
    if let Some(warning) = shortage(free, if target.join("release").is_dir() { AGAIN } else { needed }) {
        println!(
            "Warning: {warning} in {}. Free some; remove that folder, which means a full rebuild; or set \
             UNMASK_TARGET_DIR to one on another disk.",
            target.display()
        );
    }
}

fn shortage(free: u64, needed: u64) -> Option<String> {
    let gigabytes = |bytes: u64| bytes as f64 / GB as f64;
    (free < needed)
        .then(|| format!("the build needs about {} GB more, and {:.1} GB are free", gigabytes(needed), gigabytes(free)))
}

/// The free space according to `df`; `None` if there is no `df`.
fn free_bytes(folder: &Path) -> Option<u64> {
    available(&env::read(Command::new("df").arg("-Pk").arg(folder))?)
}

/// The fourth column of the last line, in blocks of 1,024 bytes, as POSIX defines it.
fn available(table: &str) -> Option<u64> {
    let blocks: u64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(1024 * blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn df_is_read_as_posix_prints_it() {
        let table = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                     /dev/vda         264124512 21954180  74287104      23% /";
        assert_eq!(available(table), Some(74_287_104 * 1024));
        assert_eq!(available("df: no such folder"), None);
    }

    #[test]
    fn shortage_names_what_is_needed_and_what_is_there() {
        assert_eq!(shortage(AGAIN, AGAIN), None);
        let warning = shortage(300_000_000, AGAIN).expect("too little");
        assert_eq!(warning, "the build needs about 3 GB more, and 0.3 GB are free");
    }

    #[cfg(unix)]
    #[test]
    fn a_disk_has_something_free() {
        assert!(free_bytes(Path::new(".")).is_some_and(|bytes| bytes > 0));
    }
}
