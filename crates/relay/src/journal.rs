//! Saves the lesson to the disk after each round, so that a relay can resume it.
//!
//! The room passes large data by reference to a [`JournalThread`], which writes it. [`Store`] keeps two files, so that
//! one complete state always exists. To the journal, everything but the arrays is opaque bytes.

mod lesson_key;
mod store;
mod thread;

pub(crate) use self::{
    lesson_key::LessonKey,
    store::{Contents, Found, Store},
    thread::{JournalThread, read_arrays},
};
