//! Saves the lesson to the disk after each round, so that a relay can resume it.
//!
//! The room passes large data by reference to a [`JournalThread`], which writes it into the [`DataFolder`].

mod data_folder;
mod lesson_key;
mod thread;

pub(crate) use self::{data_folder::DataFolder, lesson_key::LessonKey, thread::JournalThread};
