//! Why an attack cannot work.

use unmask_core::{Architecture, AttackMethod};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorSource {
    /// The model's parameters, which the relay itself sent out.
    Weights,
    /// What a client sent back.
    Gradients,
}

impl TensorSource {
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Gradients => "gradients",
        }
    }

    pub(crate) fn singular(self) -> &'static str {
        match self {
            Self::Weights => "weight",
            Self::Gradients => "gradient",
        }
    }
}

/// Why an attack cannot work, worded for the projector and the command line. Tensor names are timm's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttackError {
    #[error("{architecture} is no Vision Transformer, and has no embeddings to solve for")]
    NotVit { architecture: Architecture },
    /// The fixed-position defence, which hides the arrangement of the patches, is on.
    #[error(
        "the gradient of the position embedding (pos_embed) is all zero, as the fixed-position defence leaves it: there \
         is nothing to solve, and only the jigsaw can do without"
    )]
    FixedPosition,
    /// More unknowns than equations: S patches, or S + 1 tokens if the attack also solves for the class token.
    #[error(
        "the model has D = {dim} embedding dimensions for {unknowns} tokens: {method} needs at least as many dimensions as \
         tokens"
    )]
    TooFewDimensions { method: AttackMethod, dim: usize, unknowns: usize },
    #[error("the {source_name} lack \"{name}\"", source_name = .from.plural())]
    Missing { from: TensorSource, name: String },
    #[error("the model has no parameter \"{name}\"")]
    NoSuchParameter { name: String },
    #[error("{} \"{name}\" has shape {found:?}, the model needs {expected:?}", .from.singular())]
    WrongShape { from: TensorSource, name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("{} \"{name}\" has {found} values, its shape needs {expected}", .from.singular())]
    WrongCount { from: TensorSource, name: String, found: usize, expected: usize },
    #[error(
        "the {source_name} have {found} values, the model has {expected}; attack an update at the model it was made with",
        source_name = .from.plural()
    )]
    WrongLength { from: TensorSource, found: usize, expected: usize },
    #[error("the mask has {found} entries for {expected} values; draw it again from the update's own seed")]
    WrongMask { found: usize, expected: usize },
    #[error("the mask kept no entry of \"{name}\": there is nothing to solve")]
    NothingKept { name: &'static str },
    #[error("{method} cannot work: {reason}")]
    TooMuchHidden { method: AttackMethod, reason: String },
    #[error(
        "completion found no matrix of rank {rank} that fits: its error on held-out entries is {:.2} % of their \
         size. The search is stuck, or the rank is wrong, as with several pictures in an update",
        100.0 * .held_out
    )]
    NotCompleted { rank: usize, held_out: f64 },
    #[error(
        "the attack was ended before it settled (after {seconds:.0} s); give it more time, or in a room give the attacks \
         more seconds per round"
    )]
    Ended { seconds: f64 },
    #[error("the candidate picture has {found} values, the model's pictures have {expected}")]
    WrongPicture { found: usize, expected: usize },
    /// The index is that of the flattened `[side, side, 3]`.
    #[error("the candidate picture holds {value} at index {index}: pixels are numbers from 0 to 1")]
    NonFinitePicture { index: usize, value: f32 },
    #[error("the class tokens of the last block cannot be read: {reason}")]
    NoClassTokens { reason: String },
    #[error(
        "the patch embedding has D = {dim} rows of L = {len} pixels: its plain and encrypted forms reveal the key \
         only if D >= L"
    )]
    TooFewRows { dim: usize, len: usize },
    #[error(
        "the plain patch embedding shows only {rank} of the key's {len} directions: give weights as the relay sent them \
         out, not weights that were set to zero"
    )]
    KeyUndetermined { rank: usize, len: usize },
    #[error(
        "the plain and the encrypted weights are not two forms of one model: {reason}; give the plain weights that were \
         encrypted"
    )]
    NotTwoForms { reason: String },
    #[error(
        "the update has {patches} patches of {len} values, the key is for {key_patches} patches of {key_len}; recover the \
         key from weights of the update's model"
    )]
    OtherKey { patches: usize, len: usize, key_patches: usize, key_len: usize },
    #[error(
        "a mask hides entries of \"{name}\", and the key mixes them with the others: give the update as it was encrypted"
    )]
    MaskedUnderKey { name: &'static str },
    #[error("the update is from another model than the {rounds} accumulated before it")]
    OtherModel { rounds: usize },
    /// The index is that of the row-major tensor.
    #[error("{} \"{name}\" holds {value} at index {index}: only finite values can be solved for", .from.singular())]
    NonFinite { from: TensorSource, name: String, index: usize, value: f64 },
    #[error("the gradient \"{name}\" is all zero: it holds nothing of the picture")]
    ZeroGradient { name: &'static str },
    /// Counting or the kind of update rules the attack out.
    #[error("the batch cannot be taken apart: {reason}")]
    BatchExcluded { reason: String },
    /// The attack failed.
    #[error("the batch was not taken apart: {reason}")]
    BatchUnsolved { reason: String },
    #[error(
        "not every picture of the batch was found with its label, so that the rest of the update stays unexplained"
    )]
    BatchIncomplete,
    #[error("{method}: the equations could not be solved in f64 (their values may be too large or too small)")]
    Unsolvable { method: AttackMethod },
    #[error("the head's gradients are too large or too small to compare")]
    Incomparable,
    #[error(
        "the update is not the weights after local training: it is too far from the weights before it; give the \
         weights that the client was sent, or omit the local rate and steps if the update is a gradient"
    )]
    OtherWeights,
    #[error("no round has been gathered")]
    NoRounds,
    #[error("this needs to run the model on pictures: give the whole update, and all weights at which it was made")]
    NoModel,
    #[error("the model gave a gradient of {found} values, the update has {expected}; attack an update of that model")]
    ShortGradient { found: usize, expected: usize },
    /// Without labels the model has no loss.
    #[error("the search needs the label of each picture, and they cannot be read off the update: {0}")]
    NoLabels(#[source] Box<Self>),
    #[error("{labels} labels were given for {batch} pictures; give one for each")]
    LabelCount { labels: usize, batch: usize },
    /// Limits the memory of a search's starting pictures.
    #[error("{batch} pictures are mixed in this update, and searches separate at most {most}; attack smaller batches")]
    TooManyPictures { batch: usize, most: usize },
    #[error(
        "the update is the mean gradient of {batch} pictures, which matching cannot separate. Four photographs, \
         unmasked and with known labels, came back from vit_nano_patch4_32 with a mean SSIM of 0.35 (0.12 to 0.54) after \
         800 iterations, below the 0.5 that counts as seen; attack smaller batches"
    )]
    InseparablePictures { batch: usize },
    /// The index is that of the flat vector.
    #[error("the update holds {value} at value {index}: only finite values can be matched")]
    NonFiniteUpdate { index: usize, value: f32 },
    #[error("{part} of the update is all zero or fully masked: it holds nothing of the picture")]
    NothingToMatch { part: &'static str },
    #[error("the start has {found} values, {batch} pictures of 3 x {side} x {side} have {expected}")]
    StartLength { found: usize, expected: usize, batch: usize, side: usize },
    #[error("the start holds {value} at value {index}; give a picture of finite values from 0 to 1")]
    NonFiniteStart { index: usize, value: f32 },
    #[error("{what} is {value} after {iteration} iterations; start from another picture or with a smaller step")]
    Diverged { what: &'static str, value: f64, iteration: usize },
    #[error(
        "the embeddings are cipher text: without the key the model cannot be run on pictures, so there is no gradient to \
         compare the update with"
    )]
    CipherText,
    #[error("nothing is encrypted, so there is no key to find")]
    NotEncrypted,
    #[error(
        "the relay never had the plain model that was encrypted, as under the keyed start, and the key can only be \
         computed from both forms"
    )]
    NoPlainStart,
    #[error("no client has given the key away")]
    NoKey,
    #[error("the key does not decrypt this update: {reason}")]
    Key { reason: String },
    #[error("{reason}")]
    Search { reason: String },
    #[error("class {class} cannot be fished for: the model has {classes} classes, counted from 0")]
    NoSuchClass { class: usize, classes: usize },
    #[error("the weights cannot be doctored: {reason}")]
    NotDoctored { reason: String },
}

impl AttackError {
    /// Whether this attack can read nothing of the picture off the update because there are no equations for it, or too
    /// few. Otherwise the attack itself failed, and another run might see something.
    pub fn has_nothing_to_solve(&self) -> bool {
        match self {
            Self::NotVit { .. }
            | Self::FixedPosition
            | Self::TooFewDimensions { .. }
            | Self::NothingKept { .. }
            | Self::TooMuchHidden { .. }
            | Self::ZeroGradient { .. }
            | Self::BatchExcluded { .. }
            | Self::NothingToMatch { .. } => true,
            Self::NoLabels(because) => because.has_nothing_to_solve(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_fails_is_not_one_with_nothing_to_solve() {
        let hidden = || AttackError::NothingKept { name: "pos_embed" };
        for error in [AttackError::FixedPosition, hidden(), AttackError::NoLabels(Box::new(hidden()))] {
            assert!(error.has_nothing_to_solve(), "{error}");
        }
        let method = AttackMethod::April;
        for error in [
            AttackError::Unsolvable { method },
            AttackError::Ended { seconds: 1.0 },
            AttackError::NotCompleted { rank: 16, held_out: 0.5 },
            AttackError::Search { reason: "the device was lost".to_owned() },
            AttackError::NoLabels(Box::new(AttackError::Incomparable)),
        ] {
            assert!(!error.has_nothing_to_solve(), "{error}");
        }
    }
}
