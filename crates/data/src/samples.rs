//! The photographs included in the program.

use rust_embed::RustEmbed;

use crate::{NotAPicture, Picture, decode};

/// The photographs of the page's gallery. Files beside them give their sources and licences.
#[derive(RustEmbed)]
#[folder = "../../www/samples"]
#[include = "*.png"]
#[include = "*.jpg"]
struct Photographs;

/// Decodes the sample photographs. Each is named after its file, without the extension.
///
/// # Errors
/// If a photograph cannot be decoded; a test rules this out.
pub fn sample_photographs() -> Result<Vec<(String, Picture)>, NotAPicture> {
    let mut samples = Vec::new();
    for (file, bytes) in Photographs::iter().filter_map(|file| Photographs::get(&file).map(|bytes| (file, bytes))) {
        let name = file.rsplit_once('.').map_or(file.as_ref(), |(stem, _)| stem).to_owned();
        samples.push((name, decode(&bytes.data)?));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_there() {
        let samples = sample_photographs().unwrap();
        let names: Vec<&str> = samples.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["astronaut", "cameraman", "cat", "coffee", "hubble", "rocket"]);
    }
}
