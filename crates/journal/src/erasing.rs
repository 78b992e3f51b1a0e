//! What lessons leave in a folder, and how it goes.

use std::io;

use anyhow::{Context, bail};
use unmask_recording::NAME as RECORDING;
use unmask_wire::view::ErasedFile;

use crate::{
    folder::Folder,
    store::{FILES, check_free},
};

/// The key from which the lesson's secrets are derived.
pub const KEY: &str = "room.key";

/// Marks an erasure that has begun, so that the next start finishes it.
const MARK: &str = "erasure.unfinished";
/// The same, of what was set aside alone.
const MARK_ASIDE: &str = "erasure-of-old.unfinished";

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The last lesson's: its journal, its recording and its key.
    Lesson,
    /// Of an earlier lesson, or a damaged file.
    SetAside,
}

/// Whose file this is; `None` if it holds nothing of a lesson.
pub fn kind(name: &str) -> Option<Kind> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_unfinished =
        |file: &str| name.strip_suffix("unfinished").is_some_and(|rest| Some(rest) == file.strip_suffix("redb"));
    // A file that is being written is named after the process.
    let is_part = |file: &str| name.strip_prefix(file).and_then(|rest| rest.strip_prefix('.')).is_some_and(is_number);
    if FILES.iter().any(|file| name == *file || is_unfinished(file))
        || [RECORDING, KEY].into_iter().any(|file| name == file || is_part(file))
    {
        return Some(Kind::Lesson);
    }
    let is_aside = |file: &&str| {
        name.strip_prefix(*file).is_some_and(|rest| {
            rest == ".old" || rest.strip_prefix(".broken-").is_some_and(|time| *file != RECORDING && is_number(time))
        })
    };
    FILES.iter().chain([&RECORDING]).any(is_aside).then_some(Kind::SetAside)
}

/// What an erasure did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    pub files: Vec<ErasedFile>,
    /// What is still there, and why: a clause for each.
    left: Vec<String>,
}

impl Erased {
    /// Whether everything went that was meant.
    ///
    /// # Errors
    /// Names what is still there, and why.
    pub fn whole(&self) -> anyhow::Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        bail!("{}; put that right and start the relay again, which tries again", self.left.join("; "))
    }

    fn extend(&mut self, Self { files, left }: Self) {
        self.files.extend(files);
        self.left.extend(left);
    }
}

/// Erases the files that lessons left in the folder and that are `meant`.
///
/// # Errors
/// Fails if a relay has the journal open, see [`is_taken`](crate::is_taken), or if the folder cannot be read.
pub fn erase(folder: &impl Folder, meant: impl Fn(&str) -> bool) -> anyhow::Result<Erased> {
    check_free(folder)?;
    remove(folder, |name| kind(name).is_some() && meant(name))
}

/// Erases all that lessons left in the folder. Once it has begun, [`finish`] finishes it.
///
/// # Errors
/// As [`erase`], or if the erasure cannot be marked as begun.
pub fn erase_everything(folder: &impl Folder) -> anyhow::Result<Erased> {
    check_free(folder)?;
    marked(folder, MARK, |_| true)
}

/// Deletes what earlier lessons left in the folder, and files that could not be read. Once it has begun, [`finish`]
/// finishes it.
///
/// # Errors
/// Fails if the folder cannot be read, or if the erasure cannot be marked as begun.
pub fn erase_set_aside(folder: &impl Folder) -> anyhow::Result<Erased> {
    let names = folder.list()?;
    if !names.iter().any(|name| kind(name) == Some(Kind::SetAside) || name == MARK_ASIDE) {
        return Ok(Erased::default());
    }
    marked(folder, MARK_ASIDE, |kind| kind == Kind::SetAside)
}

/// Finishes erasures that began in the folder and were interrupted.
///
/// # Errors
/// As [`erase_everything`].
pub fn finish(folder: &impl Folder) -> anyhow::Result<Erased> {
    let mut erased = Erased::default();
    if folder.has(MARK)? {
        erased.extend(erase_everything(folder)?);
    }
    if folder.has(MARK_ASIDE)? {
        erased.extend(erase_set_aside(folder)?);
    }
    Ok(erased)
}

fn marked(folder: &impl Folder, mark: &str, is_meant: impl Fn(Kind) -> bool) -> anyhow::Result<Erased> {
    let context = || format!("{} cannot be written", folder.path(mark));
    match folder.create(mark) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error).with_context(context),
        _ => folder.sync().with_context(context)?,
    }
    let mut erased = remove(folder, |name| kind(name).is_some_and(&is_meant))?;
    if erased.left.is_empty()
        && let Err(error) = folder.remove(mark).and_then(|()| folder.sync())
    {
        erased.left.push(format!("{} cannot be deleted ({error})", folder.path(mark)));
    }
    Ok(erased)
}

/// Removes all files that are meant and that can be removed.
fn remove(folder: &impl Folder, is_meant: impl Fn(&str) -> bool) -> anyhow::Result<Erased> {
    let mut names = folder.list()?;
    names.retain(|name| is_meant(name));
    names.sort();
    let mut erased = Erased::default();
    for name in names {
        match folder.size(&name).and_then(|bytes| folder.remove(&name).map(|()| bytes)) {
            Ok(bytes) => erased.files.push(ErasedFile { name, bytes }),
            Err(error) => erased.left.push(format!("{} cannot be deleted ({error})", folder.path(&name))),
        }
    }
    if !erased.files.is_empty()
        && let Err(error) = folder.sync()
    {
        erased.left.push(format!("what was deleted may be back after a power cut ({error})"));
    }
    Ok(erased)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Files;

    const LESSON: [&str; 7] = [
        "journal-a.redb",
        "journal-a.unfinished",
        "journal-b.redb",
        "lesson.unmask",
        "lesson.unmask.123",
        "room.key",
        "room.key.4",
    ];
    const ASIDE: [&str; 4] =
        ["journal-a.redb.old", "journal-b.redb.broken-7", "journal-b.redb.old", "lesson.unmask.old"];
    const OTHERS: [&str; 7] = [
        "certificate.pem",
        "journal-a.redb.bak",
        "journal-c.redb",
        "lesson.unmask.gz",
        "notes.old",
        "room.key.old",
        "room.keys",
    ];

    fn folder() -> Files {
        let files = Files::new(1);
        let names = LESSON.into_iter().chain(ASIDE).chain(OTHERS);
        names.for_each(|name| files.edit(name, |bytes| bytes.extend(name.as_bytes())));
        files
    }

    fn names(erased: &Erased) -> Vec<&str> {
        erased.whole().unwrap();
        assert!(erased.files.iter().all(|ErasedFile { name, bytes }| *bytes == name.len() as u64));
        erased.files.iter().map(|erased| erased.name.as_str()).collect()
    }

    #[test]
    fn only_what_lessons_left_goes() {
        let files = folder();
        assert_eq!(names(&erase(&files, |name| name.contains(".old")).unwrap()), [ASIDE[0], ASIDE[2], ASIDE[3]]);
        assert_eq!(names(&erase_set_aside(&files).unwrap()), [ASIDE[1]]);
        assert_eq!(names(&erase_everything(&files).unwrap()), LESSON);
        assert_eq!(files.names(), OTHERS);
        assert_eq!(erase_everything(&files).unwrap(), Erased::default());
        assert_eq!(erase_set_aside(&files).unwrap(), Erased::default());
        assert_eq!(files.names(), OTHERS);
    }

    /// A host may die after any file, and the power may go with it.
    #[test]
    fn an_interrupted_erasure_is_finished_at_the_next_start() {
        let mut interrupted = 0;
        for seed in 0..60 {
            let files = folder();
            let is_all = seed % 2 == 0;
            files.die_soon(20);
            let done = if is_all { erase_everything(&files) } else { erase_set_aside(&files) };
            let done = done.and_then(|erased| erased.whole());
            files.start_host();
            if seed % 3 == 0 {
                files.cut_power();
            }
            let has_begun = files.names().iter().any(|name| [MARK, MARK_ASIDE].contains(&name.as_str()));
            interrupted += u32::from(done.is_err() && has_begun);
            finish(&files).unwrap().whole().unwrap();
            let left: Vec<&str> = if is_all { OTHERS.to_vec() } else { LESSON.into_iter().chain(OTHERS).collect() };
            let (mut found, mut left) = (files.names(), left);
            found.sort();
            left.sort_unstable();
            assert!(found == left || (!has_begun && done.is_err()), "seed {seed}: {found:?}");
            assert_eq!(finish(&files).unwrap(), Erased::default());
        }
        assert!(interrupted > 10, "{interrupted}");
    }
}
