//! Closed-form attacks on what a client sent.
//!
//! An honest-but-curious relay holds a client's gradient. Two systems of linear equations hidden in it give the private
//! picture away:
//!
//! - [`embedding_inversion`]: the patch embedding is linear, so its gradient is a mixture of the patches whose mixing
//!   coefficients are the gradient of the position embedding.
//! - [`april`]: the same for the first attention block, where the model was built to allow it (Lu et al., CVPR 2022).
//!
//! Everything is computed in f64 with a singular value decomposition, never with normal equations: these systems have
//! condition numbers up to 1e10. Masked entries arrive as zeros and are taken for values, as the papers' attacker does.
//!
//! ```
//! use unmask_attack::{AttackKind, Evidence, run};
//! use unmask_params::{ModelSpec, ParamLayout, Preset};
//!
//! let config = ModelSpec::new(Preset::VitPicoPatch4_16).config();
//! let nothing = vec![0.0; ParamLayout::vit(&config).len()];
//! let evidence = Evidence::from_flat(AttackKind::Embedding, &config, &nothing, &nothing)?;
//! let refusal = run(AttackKind::Embedding, &evidence).unwrap_err();
//! assert!(refusal.to_string().contains("position embedding"));
//! # Ok::<(), unmask_attack::CannotAttack>(())
//! ```

mod april;
mod embedding;
mod error;
mod evidence;
mod kind;
mod least_squares;
mod patch_prior;
mod reconstruction;

pub use april::april;
pub use embedding::embedding_inversion;
pub use error::CannotAttack;
pub use evidence::{Evidence, Precision, Source, Tensors};
pub use kind::{AttackKind, UnknownAttack};
pub use reconstruction::Reconstruction;

/// Runs the attack `kind` on `evidence`.
///
/// # Errors
/// [`CannotAttack`] says why the attack has nothing to solve, or what it lacks.
pub fn run(kind: AttackKind, evidence: &Evidence) -> Result<Reconstruction, CannotAttack> {
    match kind {
        AttackKind::Embedding => embedding_inversion(&evidence.gradients),
        AttackKind::April => april(&evidence.weights, &evidence.gradients),
    }
}
