//! Closed-form attacks on what a client sent.
//!
//! An honest-but-curious relay holds a client's gradient. Two systems of linear equations in it give the private
//! picture away:
//!
//! - [`embedding_inversion`]: the patch embedding is linear, so its gradient is a mixture of the patches whose mixing
//!   coefficients are the gradient of the position embedding.
//! - [`april`]: the same for the first attention block of a model that was built to allow it (Lu et al., CVPR 2022).
//!
//! Both are solved in f64 by singular value decomposition. Normal equations would lose too much: condition numbers
//! reach 1e10.
//!
//! Entries that a mask dropped are zeros. The attackers in the papers take those zeros for values. Each closed form
//! also has an aware version, which knows the entries that arrived and treats the others as unknowns. No attack uses
//! how a defence chooses them. [`completion`] recovers hidden entries where the embeddings' gradients have low rank.
//! [`AccumulatedRounds`] gathers several rounds of one client, and [`als`] looks for a smooth picture that fits where
//! too much is still unknown.
//!
//! [`batch`] takes the gradient of several pictures apart, each of them exactly, on models that are wider than the batch
//! has tokens.
//!
//! [`RecoveredKey`] computes the key of an encrypted model that the attacker has also seen in the clear.
//!
//! [`label`] and [`label_counts`] read labels off the head. [`batch_size`] reads the number of pictures off the last
//! block, and [`membership`] tells from the same block whether a given picture was among them.
//!
//! A dishonest relay doctors the weights first: [`fishing`], [`feature_fishing`], [`zero_head`] and [`imprint`] make such
//! weights.
//!
//! [`Received`] turns an update, as it was sent, into the gradient that attacks read.
//!
//! [`run`] runs any attack by its name on an [`Observation`]:
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use unmask_attack::{Needs, NoSearches, Observation, SearchOptions, run};
//! use unmask_core::{Architecture, AttackMethod, VitPreset};
//!
//! let (method, model) = (AttackMethod::Embedding, Architecture::from(VitPreset::Pico));
//! let nothing = vec![0.0; model.layout().len()];
//! let observation = Observation::new(Needs::of(method, model)?.read_flat(model, &nothing, &nothing, None));
//! let go_on = &mut |_: unmask_attack::AttackProgress<'_>| ControlFlow::Continue(());
//! let refusal = run(method, &observation, &NoSearches, SearchOptions::default(), go_on).unwrap_err();
//! assert!(refusal.to_string().contains("position embedding"));
//! # Ok::<(), unmask_attack::AttackError>(())
//! ```

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accumulate;
mod als;
mod april;
mod batch;
mod canaries;
mod completion;
mod conjugate_gradients;
mod difference;
mod doctored;
mod embedding;
mod embedding_aware;
mod error;
mod evidence;
mod head_gradient;
mod known_start;
mod labels;
mod least_squares;
mod low_rank;
mod membership;
mod method;
mod misfit;
mod model;
mod needs;
mod observation;
mod observed;
mod outlook;
mod patch_prior;
mod received;
mod reconstruction;
mod run;
mod search;
mod small_matrices;
mod smooth_factors;
mod span;
mod total_variation;
mod wiener;

pub use accumulate::{AccumulatedRounds, Added};
pub use als::{ALS_ITERATIONS, als};
pub use april::{april, april_aware};
pub(crate) use batch::refinement_bytes;
pub use batch::{Batch, BatchPicture, BatchProgress, GradientOf, Levels, OnBatch, batch, most_pictures};
pub use canaries::{CanaryScore, is_first_likelier};
pub use completion::{completion, completion_of_rounds};
pub use doctored::{
    Cut, CutSearch, ImprintedPatch, class_token, feature_fishing, fished_class, fished_class_of, fishing, imprint,
    imprinted, zero_head,
};
pub use embedding::{SAME_PICTURE, embedding_inversion, embedding_tables, pixel_uncertainty};
pub use embedding_aware::embedding_inversion_aware;
pub use error::{AttackError, TensorSource};
pub use evidence::{Evidence, Rounding, Tensors};
pub use head_gradient::{HeadGradient, HeadLabels};
pub use known_start::{KnownStart, RecoveredKey};
pub use labels::{LabelCounts, LabelGuess, LabelReading, label, label_counts, read_labels};
pub use membership::{MEMBER, Members, Membership, STRANGER, membership};
pub use method::{Concealment, KeySource};
pub use misfit::{Misfit, own_gradient};
pub use model::{ModelShape, embeddings_layout};
pub use needs::{Needs, TensorNames};
pub use observation::{Decrypt, Encryption, Observation, WholeUpdate};
pub use outlook::{Prediction, Sight};
pub use received::{Received, UpdateScale};
pub use reconstruction::{Ending, Reconstruction};
pub use run::{OnProgress, Recovered, begin, retarget, run};
pub use search::{AttackProgress, NoSearches, Search, SearchOptions, SearchProgress, SearchTarget, Searches};
pub use span::{BatchSize, GoOn, batch_size, class_token_gradient};
