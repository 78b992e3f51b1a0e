//! Why a journal is not read, and what to do about it. Its files stay as they are.

use unmask_room::{FORMAT, OLDEST_FORMAT};

const REMEDY: &str = "Nothing was changed. To begin another lesson, start the relay with --new, which sets these files \
                      aside";

/// A journal that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "{path} holds a lesson in format {format}, and this version reads formats {OLDEST_FORMAT} to {FORMAT}. {REMEDY}. \
         To go on with the lesson, use the version that wrote it."
    )]
    Version { path: String, format: u32 },
    /// Each file, with what is wrong with it.
    #[error("no lesson can be read: {} is damaged. {REMEDY}.", .0.join(", and "))]
    Damaged(Vec<String>),
    #[error("{path} holds a lesson in format {format} that cannot be understood ({reason:#}). {REMEDY}.")]
    NotUnderstood { path: String, format: u32, reason: anyhow::Error },
}
