//! Closed-form attacks on what a client sent.
//!
//! An honest-but-curious relay holds a client's gradient. Two systems of linear equations hidden in it give the private
//! picture away:
//!
//! - [`embedding_inversion`]: the patch embedding is linear, so its gradient is a mixture of the patches whose mixing
//!   coefficients are the gradient of the position embedding.
//! - [`april`]: the same for the first attention block, where the model was built to allow it (Lu et al., CVPR 2022).
//!
//! Both are computed in f64 with a singular value decomposition, never with normal equations: these systems have
//! condition numbers up to 1e10.
//!
//! Entries that a mask dropped are zeros. The attackers whom the papers tested take those for values; each [`Attack`] has a
//! second form that is told which entries arrived and treats the others as unknowns. Nothing here knows how a defence
//! chooses them. Where one update leaves too much unknown, [`als`] looks for a smooth picture that fits, and
//! [`Accumulated`] gathers several rounds of one client first.
//!
//! Keys of encrypted models do not stay secret from somebody who saw the model before: see [`RecoveredKey`].
//!
//! [`label`] and [`label_counts`] read labels off the head, and [`membership`] tells whether a given picture was there.
//!
//! ```
//! use unmask_attack::{AttackKind, Evidence, solve};
//! use unmask_core::{ParamLayout, VitPreset, VitSpec};
//!
//! let config = VitSpec::new(VitPreset::Pico).config();
//! let nothing = vec![0.0; ParamLayout::vit(&config).len()];
//! let evidence = Evidence::from_flat(AttackKind::Embedding, &config, &nothing, &nothing)?;
//! let refusal = solve(AttackKind::Embedding, &evidence).unwrap_err();
//! assert!(refusal.to_string().contains("position embedding"));
//! # Ok::<(), unmask_attack::CannotAttack>(())
//! ```

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accumulate;
mod als;
mod april;
mod concealment;
mod embedding;
mod embedding_aware;
mod error;
mod evidence;
mod kind;
mod known_start;
mod labels;
mod least_squares;
mod membership;
mod needs;
mod observation;
mod observed;
mod patch_prior;
mod reconstruction;
mod run;
mod search;
mod total_variation;

pub use accumulate::{Accumulated, Added};
pub use als::{AlsOptions, AlsProgress, als};
pub use april::{april, april_aware};
pub use concealment::Concealment;
pub use embedding::embedding_inversion;
pub use embedding_aware::embedding_inversion_aware;
pub use error::CannotAttack;
pub use evidence::{Evidence, Precision, Source, Tensors};
pub use kind::{Attack, AttackKind};
pub use known_start::{KnownStart, RecoveredKey};
pub use labels::{LABEL_GRADIENTS, LabelCounts, LabelGuess, LabelReading, label, label_counts, read_labels};
pub use membership::{MEMBERSHIP_GRADIENTS, MEMBERSHIP_WEIGHTS, Membership, membership};
pub use needs::{Needs, Wanted, is_front};
pub use observation::{Decrypt, Encryption, Observation, WholeUpdate, embeddings_layout};
pub use reconstruction::Reconstruction;
pub use run::{AttackProgress, Recovered, begin, retarget, run};
pub use search::{NoSearches, Search, SearchOptions, SearchProgress, Searches, Subject};
pub use unmask_core::{AttackFamily as Family, AttackMethod as Method, Knowledge, UnknownMethod};

/// Solves a closed form on `evidence`; an [`AttackKind`] alone takes dropped entries for zeros.
///
/// # Errors
/// [`CannotAttack`] says why the attack has nothing to solve, or what it lacks.
pub fn solve(attack: impl Into<Attack>, evidence: &Evidence) -> Result<Reconstruction, CannotAttack> {
    match attack.into() {
        Attack { kind: AttackKind::Embedding, knowledge: Knowledge::Naive } => embedding_inversion(&evidence.gradients),
        Attack { kind: AttackKind::Embedding, knowledge: Knowledge::Aware } => embedding_inversion_aware(evidence),
        Attack { kind: AttackKind::April, knowledge: Knowledge::Naive } => {
            april(&evidence.weights, &evidence.gradients)
        }
        Attack { kind: AttackKind::April, knowledge: Knowledge::Aware } => april_aware(evidence),
    }
}
