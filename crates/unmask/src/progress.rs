//! Progress on the terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// How a bar over rounds, rows or cases looks.
pub const STYLE: &str = "{bar:30} {percent}%, {eta} left, {msg}";

/// Gives a bar its style; one that cannot be parsed leaves it as it is.
pub fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// A line that stays; a bar prints none where it is hidden.
pub fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { eprintln!("{line}") } else { bar.println(line) }
}
