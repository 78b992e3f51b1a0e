//! Why an attack cannot work.

use unmask_core::Architecture;

use crate::{Attack, AttackKind, Source};

/// Why an attack cannot work, in words for the projector and the command line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CannotAttack {
    /// The model has no embeddings.
    #[error("{architecture} is no Vision Transformer, and has no embeddings to solve for")]
    NotVit {
        /// The model.
        architecture: Architecture,
    },
    /// The defence that hides the arrangement of the patches is on.
    #[error(
        "the gradient of the position embedding (pos_embed) is all zero, as the fixed-position defence leaves it: there \
         is nothing to solve"
    )]
    FixedPosition,
    /// More unknowns than equations.
    #[error(
        "the model has D = {dim} embedding dimensions for {unknowns} tokens: {kind} needs at least as many dimensions as \
         tokens"
    )]
    TooFewDimensions {
        /// The attack.
        kind: AttackKind,
        /// Embedding dimension D.
        dim: usize,
        /// S patches, or S + 1 tokens where the attack solves for the class token too.
        unknowns: usize,
    },
    /// A tensor the attack needs is not there.
    #[error("the {source_name} lack \"{name}\"", source_name = .from.plural())]
    Missing {
        /// Weights or gradients.
        from: Source,
        /// timm's name.
        name: String,
    },
    /// A name that the model does not have.
    #[error("the model has no parameter \"{name}\"")]
    NoSuchParameter {
        /// What was given.
        name: String,
    },
    /// A tensor that is not of the model.
    #[error("{} \"{name}\" has shape {found:?}, the model needs {expected:?}", .from.singular())]
    WrongShape {
        /// Weights or gradients.
        from: Source,
        /// timm's name.
        name: String,
        /// The shape given.
        found: Vec<usize>,
        /// The shape of the model's parameter.
        expected: Vec<usize>,
    },
    /// Values that do not fill their shape.
    #[error("{} \"{name}\" has {found} values, its shape needs {expected}", .from.singular())]
    WrongCount {
        /// Weights or gradients.
        from: Source,
        /// timm's name.
        name: String,
        /// Number of values given.
        found: usize,
        /// Number of values of the shape.
        expected: usize,
    },
    /// A flat vector that is not of the model.
    #[error("the {source_name} have {found} values, the model has {expected}", source_name = .from.plural())]
    WrongLength {
        /// Weights or gradients.
        from: Source,
        /// Number of values given.
        found: usize,
        /// Number of parameters of the model.
        expected: usize,
    },
    /// A mask that is not of the values.
    #[error("the mask has {found} entries for {expected} values")]
    WrongMask {
        /// Number of entries of the mask.
        found: usize,
        /// Number of values it should tell of.
        expected: usize,
    },
    /// A tensor of which the mask left nothing.
    #[error("the mask kept no entry of \"{name}\": there is nothing to solve")]
    NothingKept {
        /// timm's name.
        name: &'static str,
    },
    /// More entries hidden than the equations can make up for.
    #[error("{attack} cannot work: {reason}")]
    TooMuchHidden {
        /// The attack.
        attack: Attack,
        /// What is missing, with numbers.
        reason: String,
    },
    /// Predictions that are not of the model's classes.
    #[error("{found} predicted shares were given for {expected} classes")]
    WrongPrediction {
        /// Number of shares given.
        found: usize,
        /// Number of classes.
        expected: usize,
    },
    /// A candidate picture that is not of the model.
    #[error("the candidate picture has {found} values, the model's pictures have {expected}")]
    WrongPicture {
        /// Number of values given.
        found: usize,
        /// 3 side^2.
        expected: usize,
    },
    /// A candidate picture with NaN or infinity.
    #[error("the candidate picture holds {value} at index {index}: pixels are numbers from 0 to 1")]
    NonFinitePicture {
        /// Where in `[side, side, 3]`.
        index: usize,
        /// The value.
        value: f32,
    },
    /// Too few kept entries a row to tell a member from a stranger.
    #[error(
        "membership cannot be told: rows of \"{name}\" were left {kept} entries and {coefficients} free coefficients fit \
         nearly that many of any picture"
    )]
    TooFewToJudge {
        /// timm's name.
        name: &'static str,
        /// Entries kept, in the median row.
        kept: usize,
        /// Free coefficients of the fit.
        coefficients: usize,
    },
    /// A key that has more entries than the known weights give equations.
    #[error(
        "the patch embedding has D = {dim} rows of L = {len} pixels: knowing it plain and encrypted gives the key away \
         only where D >= L"
    )]
    TooFewRows {
        /// Embedding dimension D.
        dim: usize,
        /// Values of a patch L.
        len: usize,
    },
    /// Plain weights that do not determine the key.
    #[error(
        "the plain patch embedding shows only {rank} of the key's {len} directions: give weights as the relay sent them \
         out, not weights that were set to zero"
    )]
    KeyUndetermined {
        /// Directions shown.
        rank: usize,
        /// Values of a patch L.
        len: usize,
    },
    /// Plain and encrypted weights that do not belong together.
    #[error(
        "the plain and the encrypted weights are not two forms of one model: {reason}; give the plain weights that were \
         encrypted"
    )]
    NotTwoForms {
        /// What does not fit, with numbers.
        reason: String,
    },
    /// An update of another model than the key's.
    #[error(
        "the update has {patches} patches of {len} values, the key is for {key_patches} patches of {key_len}; recover the \
         key from weights of the update's model"
    )]
    OtherKey {
        /// Patches of the update's model.
        patches: usize,
        /// Values of a patch of the update's model.
        len: usize,
        /// Patches that the key reorders.
        key_patches: usize,
        /// Values of a patch that the key mixes.
        key_len: usize,
    },
    /// Masked and encrypted at once.
    #[error(
        "a mask hides entries of \"{name}\", and the key mixes them with the others: give the update as it was encrypted"
    )]
    MaskedUnderKey {
        /// timm's name.
        name: &'static str,
    },
    /// Updates of two different models.
    #[error("the update is of another model than the {rounds} accumulated before it")]
    OtherModel {
        /// Rounds accumulated so far.
        rounds: usize,
    },
    /// NaN or infinity.
    #[error("{} \"{name}\" holds {value} at index {index}: only finite values can be solved for", .from.singular())]
    NonFinite {
        /// Weights or gradients.
        from: Source,
        /// timm's name.
        name: String,
        /// Where in the row-major tensor.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A gradient that carries nothing.
    #[error("the gradient \"{name}\" is all zero: nothing of the picture is in it")]
    ZeroGradient {
        /// timm's name.
        name: &'static str,
    },
    /// Values so large or so small that the solution is not a number.
    #[error("{kind}: the equations could not be solved in f64 (their values may be too large or too small)")]
    Unsolvable {
        /// The attack.
        kind: AttackKind,
    },
    /// Values of the head that say nothing.
    #[error("the head's gradients are too large or too small to compare")]
    Incomparable,
    /// No rounds to put together.
    #[error("no round has been gathered")]
    NoRounds,
    /// A search without a model.
    #[error("a search runs the model on pictures: give the whole update, and the weights at which it was taken")]
    NoModel,
    /// Without labels the model has no loss.
    #[error("the search needs the label of each picture, and the update does not tell: {0}")]
    NoLabels(#[source] Box<Self>),
    /// Another number of labels than pictures.
    #[error("{labels} labels were given for {batch} pictures; give one for each")]
    LabelCount {
        /// Labels given.
        labels: usize,
        /// Pictures in the update.
        batch: usize,
    },
    /// More pictures than any search takes apart.
    #[error(
        "{batch} pictures are mixed in this update, and searches take apart {most} at most; attack smaller batches"
    )]
    TooManyPictures {
        /// Pictures in the update.
        batch: usize,
        /// Most that a start is made for.
        most: usize,
    },
    /// A search, or a comparison, through embeddings that are not there in the plain.
    #[error(
        "the embeddings are cipher text: without the key the model cannot be run on pictures, so there is no gradient to \
         compare the update with"
    )]
    CipherText,
    /// A way to a key that there is not.
    #[error("nothing is encrypted, so there is no key to find")]
    NotEncrypted,
    /// The relay never saw the plain model.
    #[error(
        "the relay never had the plain model that was encrypted, as under the keyed start, and it takes both forms to \
         compute the key"
    )]
    NoPlainStart,
    /// No client gave the key away.
    #[error("no client has given the key away")]
    NoKey,
    /// The key does not fit.
    #[error("the key does not decrypt this update: {reason}")]
    Key {
        /// What the key says.
        reason: String,
    },
    /// A search's own words.
    #[error("{reason}")]
    Search {
        /// What it says.
        reason: String,
    },
}
