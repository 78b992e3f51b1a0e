//! The room's passphrase, read from a place that no process list shows.

use std::{fmt, fs, path::Path};

use anyhow::{Context, bail};

/// A room's passphrase. It is never printed and never leaves this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(String);

impl Passphrase {
    /// Trims white space; returns `None` if nothing remains.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Reads a file with one line.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or has several lines, which nobody could type in a tab.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the passphrase file {file}"))?;
        if text.trim().lines().count() > 1 {
            bail!("the passphrase file {file} has {} lines; leave the one with the passphrase", text.lines().count());
        }
        Self::new(&text).with_context(|| format!("the passphrase file {file} is empty; write the passphrase into it"))
    }

    pub(crate) fn into_inner(self) -> String {
        self.0
    }
}

/// Shows only that there is a passphrase.
impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Passphrase, String> {
        let path = std::env::temp_dir().join(format!("unmask-passphrase-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        let passphrase = Passphrase::from_file(&path).map_err(|error| format!("{error:#}"));
        fs::remove_file(&path).unwrap();
        passphrase
    }

    #[test]
    fn line_end_is_no_part_of_it() {
        assert_eq!(read("unix", "violet otter\n").unwrap().into_inner(), "violet otter");
        assert_eq!(read("dos", "violet otter\r\n").unwrap(), Passphrase::new("violet otter").unwrap());
        assert_eq!(Passphrase::new(" \n"), None);
    }

    #[test]
    fn files_that_hold_none_are_named() {
        assert!(read("empty", "\n").unwrap_err().contains("-empty is empty"));
        assert!(read("long", "violet\notter\n").unwrap_err().contains("-long has 2 lines"));
        let missing = Passphrase::from_file(Path::new("no/such/file")).unwrap_err();
        assert!(format!("{missing:#}").contains("cannot read the passphrase file no/such/file"));
    }

    #[test]
    fn it_is_not_printed() {
        assert_eq!(format!("{:?}", Passphrase::new("violet otter")), "Some(Passphrase(..))");
    }
}
