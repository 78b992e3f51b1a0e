//! Rules of the repository that no compiler checks.

pub mod pictures;
mod promises;
mod prose;
mod rules;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::env::{self, Env};

/// One file of the repository.
struct File {
    /// Relative to the top folder, with `/`.
    path: String,
    bytes: u64,
    /// The content, if it is text of a sensible length.
    text: Option<String>,
}

/// Larger files may not be committed, and are not searched for words.
const MAX_FILE_BYTES: u64 = 2_000_000;

/// Applies every rule to the files that git tracks or would add, and lists the violations.
pub fn run(env: &Env) -> Result<()> {
    let files = read_files(env)?;
    let violations: Vec<String> = [
        rules::large_files,
        rules::test_data,
        rules::forbidden_words,
        rules::photographs,
        rules::readme_subcommands,
        rules::architecture,
        promises::promises,
        prose::prose,
        pictures::pictures,
    ]
    .iter()
    .flat_map(|rule| rule(&files))
    .chain(long_subject(&newest_subject(env)?))
    .collect();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => bail!("{count} of the repository's rules broken, the first: {}", violations[0]),
    }
}

/// The first line of the newest commit's message.
fn newest_subject(env: &Env) -> Result<String> {
    env::read(env.command("git").args(["log", "-1", "--no-merges", "--format=%s"]))
        .context("cannot read the newest commit")
}

/// A subject fits into the lists of commits that people read.
fn long_subject(subject: &str) -> Option<String> {
    const MOST: usize = 72;
    let length = subject.trim().chars().count();
    (length > MOST).then(|| format!("the newest commit: a subject of {length} characters; write at most {MOST}"))
}

fn read_files(env: &Env) -> Result<Vec<File>> {
    let list = env::read(env.command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))
        .with_context(|| format!("`git ls-files` failed in {}: tidy needs git and a clone", env.root.display()))?;
    let mut paths: Vec<&str> = list.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    // A deleted file that is still in the index breaks no rule.
    paths.into_iter().filter(|path| env.root.join(path).is_file()).map(|path| File::read(&env.root, path)).collect()
}

impl File {
    fn read(root: &Path, path: &str) -> Result<Self> {
        let full = root.join(path);
        let bytes = full.metadata().with_context(|| format!("cannot look at {}", full.display()))?.len();
        let text = if bytes <= MAX_FILE_BYTES {
            let content = std::fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
            String::from_utf8(content).ok().filter(|text| !text.contains('\0'))
        } else {
            None
        };
        Ok(Self { path: path.to_owned(), bytes, text })
    }

    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }

    fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

#[cfg(test)]
fn text_file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), bytes: text.len() as u64, text: Some(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_at_most_72_characters() {
        assert_eq!(long_subject(&"a".repeat(72)), None);
        assert!(long_subject(&"a".repeat(73)).is_some_and(|line| line.contains("73 characters")));
    }
}
