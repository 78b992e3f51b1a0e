//! Cells for the papers' numbers, where available.

pub(crate) const UNKNOWN: &str = "read off no table here";

/// The paper's number as a table cell, or the placeholder.
pub(crate) fn cell(percent: Option<f64>) -> String {
    percent.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent:.2}"))
}
