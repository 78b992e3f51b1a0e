//! Labelled pictures to learn from, and their division among clients.
//!
//! - [`DataSet::load`]: a data set by name, with a half to learn from and a half to test with.
//! - [`cifar10`]: the official binary files, checked.
//! - [`generated`]: ten shapes made from a seed, for where nothing was downloaded.
//! - [`folder`]: anybody's pictures, a subfolder for each class.
//! - [`divide`]: which client holds which pictures, alike for all (IID) or skewed by class (Dirichlet).
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

pub mod cifar10;
pub mod folder;
pub mod generated;
mod labelled;
mod partition;
mod sheet;
mod source;

pub use labelled::{Labelled, LabelledError};
pub use partition::{PartitionError, divide};
pub use sheet::contact_sheet;
pub use source::{DataSet, DataSetError, ParseSourceError, Source, default_cifar10_folder};
