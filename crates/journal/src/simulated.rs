//! A disk in memory that can be full, die in the middle of a write, and lose what was not synced.

mod disk;
mod files;

pub use self::{disk::Disk, files::Files};
