//! Labelled pictures to learn from, and their division among clients.
//!
//! - [`DataSet::load`]: a data set by name, with a training half and a test half.
//! - [`cifar10`]: the official binary files, checked.
//! - [`generated`]: ten shapes made from a seed, for use without a download.
//! - [`folder`]: your own pictures, with a subfolder for each class.
//! - [`divide`]: which client holds which pictures, evenly (IID) or skewed by class (Dirichlet).
//!
//! ```
//! use unmask_core::Partition;
//! use unmask_data::datasets::divide;
//!
//! let labels = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2];
//! let shards = divide(Partition::Iid, &labels, 3, 7)?;
//! assert_eq!(shards.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4]);
//! # Ok::<(), unmask_data::datasets::PartitionError>(())
//! ```

#[cfg(feature = "datasets")]
pub mod cifar10;
#[cfg(feature = "datasets")]
pub mod folder;
pub mod generated;
mod labelled;
#[cfg(feature = "datasets")]
mod load;
mod partition;
mod sheet;
mod source;

pub use labelled::{Labelled, LabelledError};
#[cfg(feature = "datasets")]
pub use load::{DataSetError, default_cifar10_folder};
pub use partition::{PartitionError, divide};
pub use sheet::contact_sheet;
pub use source::{DataSet, ParseSourceError, Source};
