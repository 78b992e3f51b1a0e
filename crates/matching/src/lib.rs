//! Gradient matching: searches for pictures whose gradient is the one a client sent.
//!
//! An honest-but-curious relay knows the weights w it sent and the entries of the client's gradient that a mask kept.
//! It searches for pictures x whose own gradient at w agrees with those entries, by descending along d(objective)/dx.
//! With v = d(objective)/d(gradient), that is d<gradient, v>/dx, a second derivative of the loss. It is exact for a ViT
//! on the CPU; otherwise it is
//!
//! > [d l(w + e v)/dx - d l(w - e v)/dx] / 2e,  e ||v|| = 1e-3 ||w|| in f32 and 1e-7 ||w|| in f64.
//!
//! - [`Objective::tokens`]: token matching, for Vision Transformers. It starts from the result of a closed form.
//! - [`Objective::Cosine`]: Inverting Gradients (Geiping et al., NeurIPS 2020), one cosine over all parameters. It
//!   works on convolutional networks; on a Vision Transformer it fails even with nothing masked.
//!
//! Both run either naively ([`ReceivedGradient::naive`]: masked zeros count as values, as for the papers' attacker) or
//! aware of the mask ([`ReceivedGradient::aware`]). A [`Matching`] advances one [step](Matching::step) at a time, so
//! that its scheduler can show the picture as it sharpens, stop, and continue with a newer update. [`GradientMatching`]
//! starts each search by its attack's name, for schedulers that know nothing about models.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod matching;
mod objective;
mod oracle;
mod picture;
mod received;
mod searches;
mod sign_adam;
mod total_variation;

pub use matching::{Evaluation, Matching, MatchingOptions, Problem};
pub use objective::{Objective, Terms};
pub use oracle::{Inputs, NetworkOracle};
pub use received::ReceivedGradient;
pub use searches::GradientMatching;
