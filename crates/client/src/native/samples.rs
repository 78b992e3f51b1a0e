//! The pictures a native client trains on.

use std::path::Path;

use anyhow::Context;
use tracing::{info, warn};
use unmask_data::{CLASSES, Picture, class_in_name, load_folder};

/// A picture with its class. It never leaves this machine.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: String,
    pub picture: Picture,
    /// Its class, an index into [`CLASSES`].
    pub label: usize,
}

impl Sample {
    /// A sample whose label is the class that its name contains, such as `cat` in `my-cat-3`; without one, `position`
    /// decides. A wrong label does not harm a lesson: the attacks do not need it.
    pub fn named(name: String, picture: Picture, position: usize) -> Self {
        let known = class_in_name(&name);
        let label = known.unwrap_or(position % CLASSES.len());
        info!("{name}: class {}{}", CLASSES[label], if known.is_some() { "" } else { " (by its position)" });
        Self { name, picture, label }
    }
}

/// Reads a folder of PNG, JPEG and WebP files; see [`Sample::named`] for their labels.
///
/// # Errors
/// The folder cannot be listed or contains no picture. Other files only cause a warning.
pub fn load_samples(folder: &Path) -> anyhow::Result<Vec<Sample>> {
    let folder = load_folder(folder)?;
    for (path, failure) in &folder.failures {
        warn!("{} is left out: {failure}", path.display());
    }
    let samples = folder.pictures.into_iter().enumerate();
    Ok(samples.map(|(position, (name, picture))| Sample::named(name, picture, position)).collect())
}

/// The sample photographs, for a client without a folder.
///
/// # Errors
/// One of them cannot be decoded, which a test rules out.
pub fn sample_photographs() -> anyhow::Result<Vec<Sample>> {
    let samples = unmask_data::sample_photographs().context("a sample photograph")?;
    let named = |(position, (name, picture))| Sample::named(name, picture, position);
    Ok(samples.into_iter().enumerate().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, position: usize) -> Sample {
        Sample::named(name.to_owned(), Picture::new(2, 2, vec![position as u8 * 50; 12]).unwrap(), position)
    }

    #[test]
    fn label_is_the_class_in_the_name() {
        assert_eq!(sample("my-Cat-3", 0).label, 3);
        assert_eq!(sample("coffee", 12).label, 2);
    }

    #[test]
    fn photographs_are_built_in() {
        let samples = sample_photographs().unwrap();
        assert!(samples.len() >= 4);
        assert!(samples.iter().any(|sample| sample.name == "cat" && sample.label == 3));
    }
}
