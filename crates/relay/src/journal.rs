//! Saves the lesson to the disk after each round, so that a relay can resume it.
//!
//! The room passes large data by reference to a [`JournalThread`], which writes it. [`Store`] keeps two files, so that
//! one complete state always exists. To the journal, everything but the arrays is opaque bytes.

mod digest;
mod lesson_key;
mod store;
mod thread;

pub(crate) use self::{
    digest::{digest, hex},
    lesson_key::{LessonId, LessonKey},
    store::{Contents, Opened, Store},
    thread::{Arrays, JournalThread, Save, Saved, read_arrays},
};
