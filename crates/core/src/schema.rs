//! The version of a result file's form, so that a reader can tell a file that it does not understand.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Writes the version of the form, and reads only that one. A file without a version has the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion<const VERSION: u32>;

/// Only the first version may be missing: a file of a later one with `#[serde(default)]` does not compile.
impl Default for SchemaVersion<1> {
    fn default() -> Self {
        Self
    }
}

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

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value};

    use super::*;

    #[test]
    fn only_the_own_version_is_read() {
        let read = |found: u32| {
            let number: value::U32Deserializer<value::Error> = found.into_deserializer();
            SchemaVersion::<2>::deserialize(number)
        };
        assert_eq!(read(2), Ok(SchemaVersion));
        let error = read(3).unwrap_err().to_string();
        assert!(error.contains("schema version 3 and this program reads 2"), "{error}");
    }
}
