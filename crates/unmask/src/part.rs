//! `--part i/n`: computes one of several parts of a run. `unmask merge` combines the parts.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::Args;
use unmask_experiments::{Part, PartFolder, merge};

use crate::{Failure, counted, interrupt::Interrupt};

const FLAG: &str = "--part";

#[derive(Debug, Args)]
pub struct PartArgument {
    /// Compute only the i-th of n parts, such as 2/5, in its own folder below --out. Compute the parts in any order and
    /// on any machine; `unmask merge` combines them into one report.
    #[arg(long = "part", value_name = "i/n")]
    part: Option<Part>,
}

impl PartArgument {
    /// Opens the part's folder below `out`, if a part is asked for. Waits for another process that computes the same
    /// part.
    ///
    /// # Errors
    /// The folder cannot be written, or Ctrl-C ended the wait.
    pub fn open(&self, out: &Path, interrupt: &Interrupt) -> Result<Option<PartFolder>, Failure> {
        let Some(part) = self.part else { return Ok(None) };
        let says = Cell::new(true);
        let opened = PartFolder::open(out, part, command(std::env::args().skip(1)), &mut || {
            if says.replace(false) {
                eprintln!("another unmask is computing part {part} in {}; waiting for it", part.folder(out).display());
            }
            interrupt.flow()
        })?;
        match opened {
            Some(folder) => Ok(Some(folder)),
            None => Err(Failure::Other(anyhow!("stopped while waiting for part {part}"))),
        }
    }
}

pub fn end(folder: &PartFolder, is_done: bool) -> Result<(), Failure> {
    let (part, path) = (folder.part(), folder.path().display());
    if !is_done {
        return Err(Failure::Other(anyhow!(
            "part {part} was stopped; finished cases are kept in {path}, and the same command resumes"
        )));
    }
    println!("part {part}: {path}");
    Ok(())
}

/// The words of a command line without `--part` and without passphrases.
fn command(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if word == FLAG {
            words.next();
        } else if !word.starts_with(&format!("{FLAG}=")) {
            kept.push(without_secret(word));
        }
    }
    kept
}

fn without_secret(word: String) -> String {
    const SECRET: &str = "passphrase=";
    match word.find(SECRET) {
        Some(at) => format!("{}{SECRET}...", &word[..at]),
        None => word,
    }
}

const HELP: &str = "\
Example: a matrix on three machines, or in three jobs of a queue

    unmask matrix --model vit_lab_patch4_32 --images photos --out result --part 1/3
    unmask matrix --model vit_lab_patch4_32 --images photos --out result --part 2/3
    unmask matrix --model vit_lab_patch4_32 --images photos --out result --part 3/3
    unmask merge result --out report

Compute the parts in any order; one may be computed twice, or killed and restarted. If parts are missing, `unmask merge`
lists them, prints the command for each and exits with code 1; otherwise it writes the report. It refuses parts with
different settings or builds, and parts that disagree about the result of a case.";

/// Combine the parts of a matrix, a sweep or an experiment, which --part computed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Merge {
    /// Folders of parts, or folders that contain them.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Folder of the report; created if missing.
    #[arg(long, value_name = "DIR", default_value = "merged")]
    out: PathBuf,
}

impl Merge {
    /// Writes the reports of all runs that have all their parts.
    ///
    /// # Errors
    /// [`Failure::Input`] if parts do not belong together; [`Failure::Other`] if some are missing, or a file cannot be
    /// read or written.
    pub fn run(self) -> Result<(), Failure> {
        let merged = merge(&self.folders, &self.out)?;
        for page in &merged.pages {
            println!("{}", page.display());
        }
        for lack in &merged.missing {
            let (part, missing, cases) = (lack.part, lack.missing, counted(lack.cases as u64, "case"));
            let command: Vec<String> = lack.command.iter().map(|word| quoted(word)).collect();
            eprintln!("part {part} is missing, {missing} of its {cases}:\n    unmask {}", command.join(" "));
        }
        match merged.missing.len() as u64 {
            0 => Ok(()),
            1 => Err(Failure::Other(anyhow!("1 part is missing; compute it, and merge again"))),
            parts => Err(Failure::Other(anyhow!("{parts} parts are missing; compute them, and merge again"))),
        }
    }
}

/// Quotes a word for a shell where needed.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Vec<String> {
        command(words.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn the_command_of_the_whole_names_no_part_and_no_secret() {
        assert_eq!(of(&["sweep", "--part", "2/3", "--out", "a b"]), ["sweep", "--out", "a b"]);
        assert_eq!(of(&["sweep", "--part=2/3"]), ["sweep"]);
        assert_eq!(of(&["--set", "passphrase=let me in"]), ["--set", "passphrase=..."]);
        assert_eq!(of(&["--set=passphrase=x"]), ["--set=passphrase=..."]);
    }

    #[test]
    fn a_shell_takes_a_word_back_as_it_was() {
        for (word, written) in
            [("defence=none", "defence=none"), ("a; b", "'a; b'"), ("it's", "'it'\\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), written);
        }
    }
}
