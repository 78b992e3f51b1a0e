//! A data set and its name.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::datasets::Labelled;

/// The source of the pictures. Written `cifar10`, `generated` or `folder:PATH`, also in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Cifar10,
    /// [Ten shapes](crate::datasets::generated) made from a seed.
    Generated,
    /// A folder with a [subfolder for each class](crate::datasets::folder).
    Folder(PathBuf),
}

/// Both halves of a data set, with its name.
#[derive(Debug)]
pub struct DataSet {
    /// `cifar10`, `generated`, or the folder's name.
    pub name: String,
    pub train: Labelled,
    /// Test pictures; none of them is in `train`.
    pub test: Labelled,
    /// For each skipped file, a sentence with its name and the reason, to show to the user.
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown data set \"{0}\"; write cifar10, generated, or folder:PATH for a folder with a subfolder of pictures for \
     each class"
)]
pub struct ParseSourceError(String);

impl FromStr for Source {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        match (text, text.strip_prefix("folder:")) {
            ("cifar10", _) => Ok(Self::Cifar10),
            ("generated", _) => Ok(Self::Generated),
            (_, Some(path)) if !path.is_empty() => Ok(Self::Folder(path.into())),
            _ => Err(ParseSourceError(text.to_owned())),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cifar10 => f.write_str("cifar10"),
            Self::Generated => f.write_str("generated"),
            Self::Folder(path) => write!(f, "folder:{}", path.display()),
        }
    }
}

unmask_core::serde_as_text!(Source);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms_are_read() {
        for text in ["cifar10", "generated", "folder:/a/b", "folder:a b"] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
            let json = serde_json::to_string(&source).unwrap();
            assert_eq!((json.trim_matches('"'), serde_json::from_str::<Source>(&json).unwrap()), (text, source));
        }
        for bad in ["", "cifar100", "folder:", "/a/b"] {
            let error = bad.parse::<Source>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown data set \"{bad}\"; write cifar10, generated,")), "{error}");
        }
    }
}
