//! Why matching cannot work.

/// Why matching cannot work, in words for the projector and the command line.
#[derive(Debug, thiserror::Error)]
pub enum MatchingError {
    /// Another number of values than the model's gradient.
    #[error("the update has {found} values, the model's gradient {expected}; match it at the model it was made with")]
    UpdateLength {
        /// Values given.
        found: usize,
        /// Values of the gradient that is matched.
        expected: usize,
    },
    /// A mask that belongs to another update.
    #[error(
        "the mask has {found} entries, the update {expected} values; draw the mask again from the update's own seed"
    )]
    MaskLength {
        /// Entries of the mask.
        found: usize,
        /// Values of the update.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("the update holds {value} at value {index}: only finite values can be matched")]
    NonFinite {
        /// Where in the flat vector.
        index: usize,
        /// The value.
        value: f32,
    },
    /// Nothing to agree with.
    #[error("{part} of the update is all zero, or masked altogether: nothing of the picture is in it")]
    Nothing {
        /// Which part of the update.
        part: &'static str,
    },
    /// The position embedding's gradient is missing where the objective needs it.
    #[error(
        "the gradient of the position embedding (pos_embed) is all zero, as the fixed-position defence leaves it: match \
         without the position term, which gives the patches in an arrangement of chance"
    )]
    FixedPosition,
    /// A start of another size.
    #[error("the start has {found} values, {batch} pictures of 3 x {side} x {side} have {expected}")]
    StartLength {
        /// Values given.
        found: usize,
        /// Values needed.
        expected: usize,
        /// Pictures in the batch.
        batch: usize,
        /// Image side in pixels.
        side: usize,
    },
    /// A start that is no picture.
    #[error("the start holds {value} at value {index}; give a picture of finite values from 0 to 1")]
    StartNonFinite {
        /// Where in the start.
        index: usize,
        /// The value.
        value: f32,
    },
    /// More pictures mixed into one gradient than can be told apart.
    #[error(
        "the update is the mean gradient of {batch} pictures, which matching does not tell apart. {}",
        crate::matching::BATCH_CEILING
    )]
    Batch {
        /// Pictures in the batch.
        batch: usize,
    },
    /// The objective, or what it leads to, left the numbers.
    #[error("{what} is {value} after {iteration} iterations; start from another picture or with a smaller step")]
    Diverged {
        /// Which number.
        what: &'static str,
        /// The value.
        value: f64,
        /// Iterations done.
        iteration: usize,
    },
    /// The model could not compute.
    #[error("the model failed: {0}")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
}
