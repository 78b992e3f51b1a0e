//! The pictures a native client trains on.

use std::path::Path;

use anyhow::Context;
use tracing::{info, warn};
use unmask_data::{Picture, load_squares, photograph_label};

use crate::PrivatePicture;

/// Largest side of a picture that a client keeps, in pixels: several times the side of the largest model.
const SIDE: usize = 1024;

/// A picture with its class. It never leaves this machine.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: String,
    pub picture: Picture,
}

impl Sample {
    /// The picture with its label among the room's classes, by its name: see [`photograph_label`].
    pub(crate) fn labelled(self, classes: &[String]) -> PrivatePicture {
        let label = photograph_label(classes, &self.name);
        info!("{}: class {}", self.name, classes.get(label).map_or("?", String::as_str));
        PrivatePicture::new(self.picture, label)
    }
}

/// Reads a folder of PNG, JPEG and WebP files; their names decide their labels. Keeps the centre squares, which are what
/// models see, at most 1024 pixels large.
///
/// # Errors
/// The folder cannot be listed or contains no picture. Other files only cause a warning.
pub fn load_samples(folder: &Path) -> anyhow::Result<Vec<Sample>> {
    let folder = load_squares(folder, SIDE)?;
    for (path, failure) in &folder.failures {
        warn!("{} is left out: {failure}", path.display());
    }
    Ok(folder.pictures.into_iter().map(|(name, picture)| Sample { name, picture }).collect())
}

/// The sample photographs, for a client without a folder.
///
/// # Errors
/// One of them cannot be decoded, which a test rules out.
pub fn sample_photographs() -> anyhow::Result<Vec<Sample>> {
    let samples = unmask_data::sample_photographs().context("a sample photograph")?;
    Ok(samples.into_iter().map(|(name, picture)| Sample { name, picture }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photographs_are_built_in() {
        let samples = sample_photographs().unwrap();
        assert!(samples.len() >= 4);
        assert!(samples.iter().any(|sample| sample.name == "cat"));
    }
}
