//! Aggregation, and what it does not take.

mod aggregation;
mod gate;
mod minority;
mod update_counts;
