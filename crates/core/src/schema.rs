//! The version of a result file's form, so that a reader can tell a file that it does not understand.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Writes the version of the form, and reads only that one. A file without a version has the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaVersion<const VERSION: u32>;

impl<const VERSION: u32> Serialize for SchemaVersion<VERSION> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(VERSION)
    }
}

impl<'de, const VERSION: u32> Deserialize<'de> for SchemaVersion<VERSION> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = u32::deserialize(deserializer)?;
        if found == VERSION {
            return Ok(Self);
        }
        Err(D::Error::custom(format!(
            "the file has schema version {found} and this program reads {VERSION}; use the program that wrote it"
        )))
    }
}
