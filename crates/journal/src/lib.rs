//! Saves a lesson so that a power cut, a full disk or a damaged file costs one round at most.
//!
//! [`Store`] keeps two redb files in a [`Folder`], so that one complete state always exists. To the store, a state is a
//! header and named parts, all of them opaque bytes; [`save`] and [`read_lesson`] say which parts a lesson has. The relay
//! brings a folder of files, a [simulated disk](simulated) one in memory that fails on demand.

mod folder;
mod lesson;
pub mod simulated;
mod store;

pub use self::{
    folder::Folder,
    lesson::{read_lesson, save},
    store::{Contents, Found, Store, Values, is_taken},
};
