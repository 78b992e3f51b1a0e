//! A lesson's secrets: the same links after a restart, and nothing in the journal that opens a room.
//!
//! The journal holds a lesson's number alone. Its secrets are a keyed hash of that number, under a key that lies beside
//! the certificate's, readable by this user alone: whoever can read that file could pose as the relay anyway.

use std::path::Path;

use ring::hmac;

use super::digest::hex;
use crate::{private_file, random};

const KEY: &str = "room.key";

/// Tells one lesson from another; no secret.
pub(crate) type LessonId = [u8; 16];

/// What a lesson's secrets are derived from.
pub(crate) struct LessonKey {
    key: hmac::Key,
    lesson: LessonId,
}

impl LessonKey {
    /// Those of a lesson, under the key in `folder`, which is made if there is none.
    ///
    /// # Errors
    /// If the key can be neither read nor written.
    pub(crate) fn kept(folder: &Path, lesson: LessonId) -> anyhow::Result<Self> {
        Ok(Self::of(private_file::keep(folder, KEY, random::bytes)?, lesson))
    }

    /// Those of a relay without a journal: nobody can have them again.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn fleeting() -> anyhow::Result<Self> {
        Ok(Self::of(random::bytes()?, random::bytes()?))
    }

    fn of(key: [u8; 32], lesson: LessonId) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), lesson }
    }

    /// The secret for a purpose, such as `teacher`: 32 letters, 128 bits.
    pub(crate) fn secret(&self, purpose: &str) -> String {
        hex(&self.bytes(purpose)[..16])
    }

    /// A whole number below `end` for a purpose: any as probable as any other, but for one in 2^64 / `end`.
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
