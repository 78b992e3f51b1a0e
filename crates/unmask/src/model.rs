//! Parses `--model`: a name or a file.

use std::path::Path;

use unmask_core::Architecture;
use unmask_simulation::{ModelFileError, is_model_file, read_model_file};

/// Returns the model with that name, with ten classes, or the one that a TOML file describes.
pub fn model_argument(text: &str) -> Result<Architecture, ModelFileError> {
    if is_model_file(text) { read_model_file(Path::new(text)) } else { Ok(text.parse()?) }
}
