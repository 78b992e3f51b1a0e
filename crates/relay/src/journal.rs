//! The lesson on the disk: after each round everything that a relay needs to go on with it.
//!
//! A [`JournalThread`] of its own writes; the room hands it what is large by reference. [`Store`] keeps two files, so that
//! there is always a whole state. What is in a lesson beside its arrays, the journal does not know: bytes to it.

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
