//! Pictures: reading, cropping, resizing, labels and similarity.
//!
//! A photograph of any size and kind becomes the square that a model sees:
//!
//! ```
//! use unmask_data::Picture;
//!
//! let picture = Picture::new(6, 4, [200, 100, 50].repeat(24))?;
//! let chw = picture.for_model(2);
//! assert_eq!(chw.len(), 3 * 2 * 2);
//! assert!((chw[0] - 200.0 / 255.0).abs() < 1e-6);
//! # Ok::<(), unmask_data::PictureError>(())
//! ```
//!
//! Only the feature `codecs` reads and writes image files; without it the browser's bundle stays small. The feature
//! `labelled` adds labelled pictures to learn from ([`datasets`]), `datasets` reads them from the disk, and `samples`
//! adds the photographs of the page's gallery.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(feature = "codecs")]
mod codecs;
#[cfg(feature = "labelled")]
pub mod datasets;
#[cfg(feature = "codecs")]
mod folder;
pub mod heat;
pub mod jigsaw;
pub mod metrics;
mod picture;
mod resize;
#[cfg(feature = "samples")]
mod samples;
mod synthetic;

#[cfg(feature = "codecs")]
pub use codecs::{NotAPicture, decode, decode_as_stored, encode_png};
#[cfg(feature = "codecs")]
pub use folder::{FileFailure, Folder, FolderError, load_folder, load_squares};
/// The error of [`encode_png`].
#[cfg(feature = "codecs")]
pub use image::ImageError;
pub use picture::{MAX_PIXELS, Picture, PictureError, chw_to_hwc, hwc_to_chw};
#[cfg(feature = "samples")]
pub use samples::sample_photographs;
pub use synthetic::synthetic_picture;

/// The ten classes of CIFAR-10, by label.
pub const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The label of the class whose name is part of a picture's name, such as `cat` in `my-Cat-3`.
pub fn class_in_name(name: &str) -> Option<usize> {
    let lower = name.to_lowercase();
    CLASSES.iter().position(|class| lower.contains(class))
}

/// The words for private photographs in a room whose data set has none, by label. The last one is always true.
pub const PHOTOGRAPH_CLASSES: [&str; 10] =
    ["person", "animal", "plant", "food", "vehicle", "building", "thing", "landscape", "sky", NOT_SAID];
/// The class of photographs that nobody has labelled.
const NOT_SAID: &str = "not said";

/// What words in names are a kind of.
const KINDS: [(&str, &[&str]); 5] = [
    ("person", &["astronaut", "cameraman", "portrait"]),
    ("animal", &["cat", "dog", "bird", "deer", "frog", "horse"]),
    ("food", &["coffee"]),
    ("vehicle", &["rocket", "airplane", "automobile", "ship", "truck"]),
    ("sky", &["hubble", "galax"]),
];

/// The label of a photograph with this name among `classes`: the class that the name contains, or what it is a kind of.
/// Without either the class for that, or the first one, which is then wrong on purpose: what leaks does not depend on it.
pub fn photograph_label(classes: &[impl AsRef<str>], name: &str) -> usize {
    let name = name.to_lowercase();
    let named = |word: &str| classes.iter().position(|class| class.as_ref().eq_ignore_ascii_case(word));
    let own = classes.iter().position(|class| name.contains(&class.as_ref().to_lowercase()));
    let kind = || KINDS.iter().find(|(_, words)| words.iter().any(|word| name.contains(word)));
    own.or_else(|| kind().and_then(|(kind, _)| named(kind))).or_else(|| named(NOT_SAID)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_photograph_is_labelled_by_its_name_or_not_at_all() {
        let of = |name| PHOTOGRAPH_CLASSES[photograph_label(&PHOTOGRAPH_CLASSES, name)];
        let samples = ["astronaut", "cameraman", "cat", "coffee", "hubble", "rocket", "my-Plant-2", "IMG_0042"];
        let labels = ["person", "person", "animal", "food", "sky", "vehicle", "plant", NOT_SAID];
        assert_eq!(samples.map(of), labels);
        assert_eq!((photograph_label(&CLASSES, "my-Cat-3"), photograph_label(&CLASSES, "coffee")), (3, 0));
    }
}

#[cfg(test)]
mod test_pattern;
