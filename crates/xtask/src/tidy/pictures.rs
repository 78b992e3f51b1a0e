//! Checks that the pictures of the documents show the pages as they are.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::{File, read_files};
use crate::env::Env;

/// The hash of the sources that the pictures beside it were taken of.
const RECORD: &str = "docs/images/lesson/sources.sha256";

/// Writes the hash, after the pictures were taken.
///
/// # Errors
/// If the sources cannot be read or the file cannot be written.
pub fn record(env: &Env) -> Result<()> {
    let hash = hash(&read_files(env)?);
    std::fs::write(env.root.join(RECORD), format!("{hash}\n")).with_context(|| format!("cannot write {RECORD}"))
}

/// The pictures were taken of the pages as they are now.
pub(super) fn pictures(files: &[File]) -> Vec<String> {
    let recorded = files.iter().find(|file| file.path == RECORD).and_then(|file| file.text.as_deref());
    match recorded {
        Some(recorded) if recorded.trim() == hash(files) => Vec::new(),
        _ => vec![format!(
            "{RECORD}: the pages have changed since; run `cargo xtask screenshots`, which takes 6 minutes"
        )],
    }
}

/// A hash of all that a page shows: its style, its components and its English words. Comments and tests do not count.
fn hash(files: &[File]) -> String {
    let is_shown = |file: &&File| {
        file.path.starts_with("www/") && ["css", "html"].contains(&file.extension())
            || file.path.starts_with("crates/tab/src/page/") && file.extension() == "rs"
            || ["index.html", "crates/words/en.ftl"].contains(&file.path.as_str())
    };
    let mut sum = Sha256::new();
    for file in files.iter().filter(is_shown) {
        sum.update(&file.path);
        let text = file.text.as_deref().unwrap_or_default();
        let shown = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines();
        for line in shown.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
            sum.update(line);
        }
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::text_file;
    use super::*;

    #[test]
    fn pictures_are_outdated_when_a_page_changes_and_not_by_a_comment() {
        let page = |text: &str| text_file("crates/tab/src/page/stage/mod.rs", text);
        let recorded = format!("{}\n", hash(&[page("fn a() {}\n")]));
        let check = |text: &str| pictures(&[text_file(RECORD, &recorded), page(text)]);
        assert!(check("// Why.\nfn a() {}\n\n#[cfg(test)]\nmod tests {}").is_empty());
        assert!(check("fn b() {}\n")[0].contains("cargo xtask screenshots"));
        assert_eq!(pictures(&[page("fn a() {}")]).len(), 1);
    }
}
