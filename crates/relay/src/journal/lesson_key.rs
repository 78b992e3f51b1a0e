//! Derives a lesson's secrets, so that links survive a restart and the journal holds no secret.
//!
//! The journal holds only the lesson's id. The secrets are a keyed hash of that id. The key is stored next to the
//! certificate's key, readable only by this user. Anyone who can read that file could impersonate the relay anyway.

use std::path::Path;

use ring::hmac;
use unmask_journal::KEY;
use unmask_room::{LessonId, hex};

use crate::{private_file, random};

/// The key from which a lesson's secrets are derived.
#[derive(Clone)]
pub(crate) struct LessonKey {
    key: hmac::Key,
    lesson: LessonId,
}

impl LessonKey {
    /// Returns the key of a lesson, based on the key file in `folder`. Creates the file if it is missing.
    ///
    /// # Errors
    /// Fails if the key file cannot be read or written.
    pub(crate) fn kept(folder: &Path, lesson: LessonId) -> anyhow::Result<Self> {
        Ok(Self::of(private_file::keep(folder, KEY, random::bytes)?, lesson))
    }

    /// Returns a random key for a relay without a journal. It cannot be recovered.
    ///
    /// # Errors
    /// Fails if the operating system provides no random numbers.
    pub(crate) fn fleeting() -> anyhow::Result<Self> {
        Ok(Self::of(random::bytes()?, random::bytes()?))
    }

    fn of(key: [u8; 32], lesson: LessonId) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), lesson }
    }

    /// Returns the secret for a purpose, such as `teacher`: 128 bits in 32 hexadecimal digits.
    pub(crate) fn secret(&self, purpose: &str) -> String {
        hex(&self.bytes(purpose)[..16])
    }

    /// Returns a whole number below `end` for a purpose, uniform up to a relative bias of `end` / 2^64.
    pub(crate) fn number(&self, purpose: &str, end: u64) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.bytes(purpose)[..8]);
        u64::from_le_bytes(first) % end.max(1)
    }

    fn bytes(&self, purpose: &str) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&self.lesson);
        context.update(purpose.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.sign().as_ref());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_a_lessons_own_and_stay() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secrets = |folder: &tempfile::TempDir, lesson| LessonKey::kept(folder.path(), [lesson; 16]).unwrap();
        let teacher = secrets(&folder, 1).secret("teacher");
        assert_eq!((teacher.len(), &secrets(&folder, 1).secret("teacher")), (32, &teacher));
        for another in [
            secrets(&folder, 1).secret("projector"),
            secrets(&folder, 2).secret("teacher"),
            secrets(&other, 1).secret("teacher"),
            LessonKey::fleeting().unwrap().secret("teacher"),
        ] {
            assert_ne!(another, teacher);
        }
    }

    #[test]
    fn a_key_that_is_none_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let before = LessonKey::kept(folder.path(), [1; 16]).unwrap().secret("teacher");
        std::fs::write(folder.path().join(KEY), b"short").unwrap();
        let after = LessonKey::kept(folder.path(), [1; 16]).unwrap().secret("teacher");
        assert_ne!(after, before);
        assert_eq!(LessonKey::kept(folder.path(), [1; 16]).unwrap().secret("teacher"), after);
    }
}
