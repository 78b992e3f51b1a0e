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
//! use unmask_attack::{AttackKind, Evidence, run};
//! use unmask_core::{ModelSpec, ParamLayout, Preset};
//!
//! let config = ModelSpec::new(Preset::VitPicoPatch4_16).config();
//! let nothing = vec![0.0; ParamLayout::vit(&config).len()];
//! let evidence = Evidence::from_flat(AttackKind::Embedding, &config, &nothing, &nothing)?;
//! let refusal = run(AttackKind::Embedding, &evidence).unwrap_err();
//! assert!(refusal.to_string().contains("position embedding"));
//! # Ok::<(), unmask_attack::CannotAttack>(())
//! ```

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accumulate;
mod als;
mod april;
mod embedding;
mod embedding_aware;
mod error;
mod evidence;
mod kind;
mod known_start;
mod labels;
mod least_squares;
mod membership;
mod observed;
mod patch_prior;
mod reconstruction;
mod search;
mod total_variation;

pub use accumulate::{Accumulated, Added};
pub use als::{AlsOptions, Progress, als};
pub use april::{april, april_aware};
pub use embedding::embedding_inversion;
pub use embedding_aware::embedding_inversion_aware;
pub use error::CannotAttack;
pub use evidence::{Evidence, Precision, Source, Tensors};
pub use kind::{Attack, AttackKind};
pub use known_start::RecoveredKey;
pub use labels::{LABEL_GRADIENTS, LabelCounts, LabelGuess, label, label_counts};
pub use membership::{MEMBERSHIP_GRADIENTS, MEMBERSHIP_WEIGHTS, Membership, membership};
pub use reconstruction::Reconstruction;
pub use search::{Search, SearchOptions, SearchProgress, Searches, Subject};
pub use unmask_core::{
    AttackFamily as Family, AttackMethod as Method, How, Knowledge, MembershipVerdict as Verdict, Symbol, UnknownMethod,
};

/// Runs the attack `kind` on `evidence`, dropped entries taken for zeros.
///
/// # Errors
/// [`CannotAttack`] says why the attack has nothing to solve, or what it lacks.
pub fn run(kind: AttackKind, evidence: &Evidence) -> Result<Reconstruction, CannotAttack> {
    match kind {
        AttackKind::Embedding => embedding_inversion(&evidence.gradients),
        AttackKind::April => april(&evidence.weights, &evidence.gradients),
    }
}

/// Runs `attack`, naive or mask-aware, on `evidence`.
///
/// # Errors
/// [`CannotAttack`] says why the attack has nothing to solve, or what it lacks.
pub fn run_attack(attack: Attack, evidence: &Evidence) -> Result<Reconstruction, CannotAttack> {
    match (attack.kind, attack.knowledge) {
        (kind, Knowledge::Naive) => run(kind, evidence),
        (AttackKind::Embedding, Knowledge::Aware) => embedding_inversion_aware(evidence),
        (AttackKind::April, Knowledge::Aware) => april_aware(evidence),
    }
}
