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
//! `datasets` adds labelled pictures to learn from ([`datasets`]), and `samples` adds the photographs of the page's
//! gallery.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(feature = "codecs")]
mod codecs;
#[cfg(feature = "datasets")]
pub mod datasets;
#[cfg(feature = "codecs")]
mod folder;
pub mod jigsaw;
pub mod metrics;
mod picture;
mod resize;
#[cfg(feature = "samples")]
mod samples;

#[cfg(feature = "codecs")]
pub use codecs::{MAX_PIXELS, NotAPicture, decode, encode_png};
#[cfg(feature = "codecs")]
pub use folder::{FileFailure, Folder, FolderError, load_folder};
/// The error of [`encode_png`].
#[cfg(feature = "codecs")]
pub use image::ImageError;
pub use picture::{Picture, PictureError, chw_to_hwc, hwc_to_chw};
#[cfg(feature = "samples")]
pub use samples::sample_photographs;

/// The ten classes of CIFAR-10, by label.
pub const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The label of the class whose name is part of a picture's name, such as `cat` in `my-Cat-3`.
pub fn class_in_name(name: &str) -> Option<usize> {
    let lower = name.to_lowercase();
    CLASSES.iter().position(|class| lower.contains(class))
}

#[cfg(test)]
mod test_pattern;
