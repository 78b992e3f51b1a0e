//! Saves a lesson so that a power cut, a full disk or a damaged file costs one round at most.
//!
//! [`Store`] keeps two redb files in a [`Folder`], so that one complete state always exists. To the store, a state is a
//! header and named parts, all of them opaque bytes; [`save`] and [`open`] say which parts a lesson has. A journal that
//! cannot be read is refused, and stays as it is. The relay brings a folder of files, a [simulated disk](simulated) one
//! in memory that fails on demand.

mod erasing;
mod folder;
mod lesson;
mod refusal;
pub mod simulated;
mod store;
mod untouched;

pub use self::{
    erasing::{Erased, KEY, Kind, erase, erase_everything, erase_set_aside, finish, kind},
    folder::Folder,
    lesson::{Found, open, read, save},
    refusal::Refusal,
    store::{Contents, Store, Survey, Values, is_taken, retire},
};
